// Reads the settings of each form of file. What the launch says counts in place of what the file has. Errors
// are InvalidArgument and name file and line. Nothing of a file is run. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/frameworks/settings/settings.h"

namespace autocfg {

inline constexpr std::size_t kMostSettingsBytes = std::size_t{16} << 20;

// The ranks that a script starts, as settings of these names.
inline constexpr std::string_view kLaunchNodes = "torchrun nnodes";
inline constexpr std::string_view kLaunchRanks = "torchrun nproc_per_node";

// What a framework's flags are known by.
struct FlagForm {
  std::span<const std::string_view> markers = {};  // options by which a command trains
  std::span<const std::string_view> files = {};    // options that name a file of settings
};

// A file of flags, an option with its values a line, or a bash script that starts a training program with
// such flags: those of the one command that has the first of the markers among them; if none has, the second.
absl::StatusOr<SettingsText> ReadFlagSettings(std::string_view file, std::string_view text,
                                              const FlagForm& form, const LaunchWords& launch = {});

// YAML, with interpolations (Interpolate), anchors and aliases; a mapping that "<<" merges says what the
// other leaves open.
absl::StatusOr<SettingsText> ReadYamlSettings(std::string_view file, std::string_view text,
                                              const LaunchWords& launch = {});
absl::StatusOr<SettingsText> ReadTomlSettings(std::string_view file, std::string_view text);
absl::StatusOr<SettingsText> ReadJsonSettings(std::string_view file, std::string_view text);
// Overrides of a command line of Hydra: name=value.
absl::StatusOr<SettingsText> ReadOverrideSettings(std::string_view file, std::string_view text);

// YAML of which one section holds options of a command, a flag with true: a functional test of Megatron-LM.
bool IsArgumentsYaml(std::string_view text);
absl::StatusOr<SettingsText> ReadArgumentsYaml(std::string_view file, std::string_view text,
                                               const LaunchWords& launch);

// Appends the settings of JSON that an option names. A text that is no JSON, or not known, is an error.
absl::Status AddNamedJson(const NamedText& named, SettingsText& settings);

// Settings that a program printed into its log, by the names and in the values that it prints.
absl::StatusOr<SettingsText> ReadLogSettings(std::string_view file, std::string_view text);
// Returns whether the text is such a log.
bool IsLogOfSettings(std::string_view text);

// Puts in the values that interpolations of OmegaConf stand for, in which files of NeMo are written: ${a.b},
// ${.b}, and the resolvers that NeMo and its launcher register, such as ${multiply:4, ${.hidden_size}}. What
// else stands in ${...} cannot be known, nor can ???, a value that is said at launch.
void Interpolate(SettingsText& settings);

// Appends the settings of the words that say one: "trainer.num_nodes=4", "--training.seq_len 8192".
void AddOverrides(const std::vector<LaunchWord>& words, SettingsText& settings);
// Appends the options among the words: "--bf16".
void AddFlags(const std::vector<LaunchWord>& words, SettingsText& settings);

// The command of a script that names a file of settings.
struct NamingCommand {
  std::vector<LaunchWord> words = {};  // behind its program
  std::int64_t ranks = 0;              // that its launcher starts; 0: unknown
};

// Returns the first command of the script that starts a program of Python and has a word that ends in
// `named`; an empty one if there is none.
absl::StatusOr<NamingCommand> CommandThatNames(std::string_view named, std::string_view file,
                                               std::string_view text, const LaunchWords& launch);

}  // namespace autocfg
