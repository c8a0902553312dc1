// Reads the settings of each form of file. Errors are InvalidArgument and name file and line. Nothing of a
// file is run. Pure functions, thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "search/frameworks/settings/settings.h"

namespace autocfg {

inline constexpr std::size_t kMostSettingsBytes = std::size_t{16} << 20;

// The ranks that a script starts, as settings of these names.
inline constexpr std::string_view kLaunchNodes = "torchrun nnodes";
inline constexpr std::string_view kLaunchRanks = "torchrun nproc_per_node";

// A file of flags, an option with its values a line, or a bash script that starts a training program with
// such flags: those of the one command that has the first of `markers` among them; if none has, the second.
absl::StatusOr<SettingsText> ReadFlagSettings(std::string_view file, std::string_view text,
                                              std::span<const std::string_view> markers);

// YAML, with the interpolations of OmegaConf (interpolation.h); no anchors.
absl::StatusOr<SettingsText> ReadYamlSettings(std::string_view file, std::string_view text);
absl::StatusOr<SettingsText> ReadTomlSettings(std::string_view file, std::string_view text);
absl::StatusOr<SettingsText> ReadJsonSettings(std::string_view file, std::string_view text);

}  // namespace autocfg
