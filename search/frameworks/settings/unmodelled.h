// What a framework can do and autocfg does not model: mixtures of experts, adapters, layers other than
// attention, states in host memory. Refused before anything else of a file is read, so that no other error
// hides it. Thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "search/frameworks/settings/settings.h"

namespace autocfg {

struct UnmodelledSetting {
  const char* names;     // with blanks between them; one that ends in '*' stands for all that begin so
  std::string_view why;  // follows the name: "mixtures of experts are not modelled"
  // Words of which a value must have one; with blanks between them. Empty: any value that is not off.
  const char* values = "";
};

// Reasons that several frameworks have.
inline constexpr char kNoExperts[] = "mixtures of experts are not modelled";
inline constexpr char kNoAdapters[] = "adapters (LoRA, PEFT) are not modelled";
inline constexpr char kNoOtherLayers[] = "other layers than attention are not modelled";
inline constexpr char kNoFp4[] = "fp4 is not modelled";
inline constexpr char kNoHostActivations[] = "activations in host memory are not modelled";
inline constexpr char kNoHostStates[] = "states in host memory are not modelled";

// Refuses the first row of `table` that a setting of the file has.
void RefuseUnmodelled(std::span<const UnmodelledSetting> table, SettingReader& read);

}  // namespace autocfg
