// Scripts that start a framework with a file of settings: the batch script that `autocfg export --to sbatch`
// writes holds it, scripts of people name it. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace autocfg {

// Returns whether the text is such a script, whoever changed it since.
bool IsBatchScript(std::string_view text);

struct HeldFile {
  std::string
      text;  // as long as the script: what is not of the file is blank, so that its places are the same
  std::size_t end = 0;  // where the file ends in the script
};

// Returns the file that the script holds. InvalidArgument if its end is missing.
absl::StatusOr<HeldFile> FileHeldBy(std::string_view file, std::string_view script);

// Returns the ranks of a node, by the script's `#SBATCH` lines; 0: they do not say them. InvalidArgument
// if they start another number of ranks than the file.
absl::StatusOr<std::int64_t> RanksOfNode(std::string_view file, std::string_view script, std::int64_t ranks);

struct NamedFile {
  std::string path;
  std::int64_t line = 0;  // of the script
};

// Returns the files of settings that a script names, by their endings (.args, .json, .toml, .yaml), each
// once; what stands before them in the path may be a variable, and is then left out.
std::vector<NamedFile> FilesNamedBy(std::string_view script);

}  // namespace autocfg
