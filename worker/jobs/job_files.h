// The files that jobs of a coordinator may name. Whoever reaches a coordinator can give its workers jobs, so
// a worker reads and writes only where its owner allows it (autocfg-worker --data-dir, --save-dir).
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg::worker {

// Directories in which, and below which, jobs may name files. None: jobs that name files are refused.
struct JobFileRules {
  std::vector<std::string> data_dirs;  // that ranks read
  std::vector<std::string> save_dirs;  // that ranks write
};

// What a rank does with the text of a field.
enum class TextUse : std::uint8_t { kNotAPath, kRead, kWritten };

// Returns the use of a string or bytes field within a job, by its full name
// ("autocfg.v1.TrainSpec.data_path"). Returns nullopt for a field that this worker does not know.
std::optional<TextUse> TextUseOf(std::string_view field);

// PermissionDenied, in one line that names the field, the file and the option to give, if the job names a
// file outside the directories, or has a text that this worker does not know. Symbolic links and ".." count
// as what they lead to. Relative paths count from the working directory, which ranks inherit. A file that
// does not exist counts as a file of its directory.
absl::Status CheckJobFiles(const v1::Job& job, const JobFileRules& rules);

}  // namespace autocfg::worker
