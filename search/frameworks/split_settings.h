// Settings that no reader reads, and by whose names they may change how the work is split: without them a
// prediction would be wrong. Pure functions, thread-safe.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "search/frameworks/settings/settings.h"

namespace autocfg {

// Settings that can be left out, whatever their names speak of.
struct HarmlessSetting {
  const char* names;  // with blanks between them; one that ends in '*' stands for all that begin so
  std::string_view why;
  bool noted = false;  // they change the step a little: `why` is noted
};

// Reasons that several frameworks have.
inline constexpr char kOfCheckpoints[] = "it is of checkpoints";
inline constexpr char kOfMixtures[] = "it says nothing without experts, which are refused";
inline constexpr char kOfOffload[] = "it says nothing without states in host memory, which are refused";
inline constexpr char kOfContext[] = "it says nothing without context parallelism, which is refused";
inline constexpr char kOfTensorOverlap[] = "it tunes the overlap, whose chunks the framework chooses";
inline constexpr char kOfPrefetch[] = "is left out: a first bucket that is gathered earlier is not modelled";
inline constexpr std::string_view kSaysDefault = "it says the framework's default";

// Returns whether the name speaks of parallelism, sharding, overlap, recomputation or memory of the host.
bool SpeaksOfSplitting(std::string_view name);

// Refuses the first of `unread` that speaks of splitting, unless it is in `table` or has a value that
// switches it off: 0, false, none, and 1 of a size or degree. Notes those that change the step a little.
void RefuseUnreadSplits(std::span<const HarmlessSetting> table, const std::vector<const Setting*>& unread,
                        SettingReader& read);

}  // namespace autocfg
