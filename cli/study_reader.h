// Studies and trials for the verbs that only read: through the socket of the search that has the database
// open, else, and once that search has gone, from the file, without a lock. Use from one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "cli/study_client.h"
#include "server/store/store.h"

namespace autocfg {

class StudyReader {
 public:
  // `database`: --db, or empty for the default, which is read as if empty where no search has made it yet.
  // NotFound where a named file is missing; otherwise as OpenSqliteStoreReadOnly says.
  static absl::StatusOr<std::unique_ptr<StudyReader>> Open(const std::string& database);
  ~StudyReader();

  absl::StatusOr<std::vector<v1::Study>> Studies();  // newest first
  absl::StatusOr<v1::Study> Study(std::int64_t id);  // NotFound
  absl::StatusOr<std::vector<v1::Trial>> Trials(std::int64_t study);
  // "failed: MESSAGE" where the study's calibration ended without a result; else empty.
  absl::StatusOr<std::string> CalibrationFailure(std::int64_t study);

  // As StateText, but "interrupted" where the study was running and no search has the database open any more.
  std::string StateOf(const v1::Study& study) const;

 private:
  StudyReader(std::string path, std::unique_ptr<Store> store, const std::string& target);
  absl::StatusOr<Store*> File();

  const std::string path_;
  std::unique_ptr<Store> store_;         // opened when it is needed
  std::unique_ptr<StudyClient> client_;  // of the running search; null without one
};

}  // namespace autocfg
