// Settings that no reader reads, and by whose names they may change how the work is split: without them a
// prediction would be wrong. Pure functions, thread-safe.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "search/frameworks/settings/settings.h"

namespace autocfg {

// A setting whose name speaks of splitting, but that can be left out.
struct HarmlessSetting {
  std::string_view name;  // one that ends in '*' stands for all that begin so
  std::string_view why;
  bool noted = false;  // it changes the step a little: `why` is noted
};

// Returns whether the name speaks of parallelism, sharding, overlap, recomputation or memory of the host.
bool SpeaksOfSplitting(std::string_view name);

// Returns the table of a framework; empty for any other name.
std::span<const HarmlessSetting> HarmlessSettings(std::string_view framework);

// Refuses the first of `unread` that speaks of splitting, unless it is harmless or has a value that switches
// it off: 0, false, none, and 1 of a size or degree. Notes what changes the step a little.
void RefuseUnreadSplits(std::string_view framework, const std::vector<const Setting*>& unread,
                        SettingReader& read);

}  // namespace autocfg
