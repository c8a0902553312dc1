// Studies and trials for the verbs that only read: from --coordinator, or through the socket of the search
// that has the database open, else, and once that search has gone, from the file, without a lock. Use from
// one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "cli/service_options.h"
#include "cli/study_client.h"
#include "server/store/store.h"

namespace autocfg {

class StudyReader {
 public:
  // Of --coordinator, else of a database: the default one is read as if empty where no search has made it
  // yet. NotFound where a named file is missing; otherwise as OpenSqliteStoreReadOnly says.
  static absl::StatusOr<std::unique_ptr<StudyReader>> Open(const ServiceOptions& options);
  ~StudyReader();

  absl::StatusOr<std::vector<v1::Study>> Studies();  // newest first
  absl::StatusOr<v1::Study> Study(std::int64_t id);  // NotFound
  // The study that --study names, or the newest where it is empty. InvalidArgument, NotFound.
  absl::StatusOr<v1::Study> StudyNamed(const std::string& text);
  absl::StatusOr<std::vector<v1::Trial>> Trials(std::int64_t study);
  // "failed: MESSAGE" where the study's calibration ended without a result; else empty. Of a coordinator's
  // study, the study's own message says it.
  absl::StatusOr<std::string> CalibrationFailure(std::int64_t study);

  // As StateText, but "interrupted" where the study was running and no search has the database open any more.
  std::string StateOf(const v1::Study& study) const;

  // The gRPC target of the coordinator or search that has the studies; empty: nobody is at work on them.
  std::string target() const { return client_ ? target_ : ""; }

 private:
  StudyReader(std::string path, std::unique_ptr<Store> store, const std::string& target);
  absl::StatusOr<Store*> File();
  // Whether the search that had the database open has gone, so that the file is read from here on.
  bool HasGone(const absl::Status& status);

  const std::string path_;  // empty: of --coordinator
  const std::string target_;
  std::unique_ptr<Store> store_;         // opened when it is needed
  std::unique_ptr<StudyClient> client_;  // of the running search; null without one
};

}  // namespace autocfg
