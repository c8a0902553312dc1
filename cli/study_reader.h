// Studies and trials for the verbs that only read: through the socket of the search that has the database
// open, else from the file. Use from one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"

namespace autocfg {

class StudyReader {
 public:
  // `database`: --db, or empty for the default, which is read as if empty where no search has made it yet.
  // NotFound where a named file is missing; otherwise as OpenSqliteStore says.
  static absl::StatusOr<std::unique_ptr<StudyReader>> Open(const std::string& database);
  virtual ~StudyReader() = default;

  virtual absl::StatusOr<std::vector<v1::Study>> Studies() = 0;  // newest first
  virtual absl::StatusOr<v1::Study> Study(std::int64_t id) = 0;  // NotFound
  virtual absl::StatusOr<std::vector<v1::Trial>> Trials(std::int64_t study) = 0;
};

}  // namespace autocfg
