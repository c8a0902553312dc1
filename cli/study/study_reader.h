// Read access to studies and trials, from --coordinator or a database. A database that a running search has
// open is read through that search's socket. Otherwise, and once that search has ended, the file is read
// without a lock. Use from one thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "cli/input/service_options.h"
#include "proto/client/study_client.h"
#include "proto/rpc/endpoint.h"
#include "server/store/store.h"

namespace autocfg::cli {

// Returns the FailedPrecondition of what needs a study that does not run, for one that runs by the database
// while no search or server has that open.
absl::Status InterruptedError(const v1::Study& study);

class StudyReader {
 public:
  // Opens --coordinator, or else a database. A missing default database reads as empty. NotFound if a named
  // file is missing; other errors as of OpenSqliteStoreReadOnly.
  static absl::StatusOr<std::unique_ptr<StudyReader>> Open(const ServiceOptions& options);
  ~StudyReader();

  absl::StatusOr<std::vector<v1::Study>> Studies();  // newest first
  absl::StatusOr<v1::Study> Study(std::int64_t id);  // NotFound
  // Returns the study named by --study, or the newest one if `text` is empty. InvalidArgument, NotFound.
  absl::StatusOr<v1::Study> StudyNamed(const std::string& text);
  absl::StatusOr<std::vector<v1::Trial>> Trials(std::int64_t study);
  // Returns the end of an attempt's log, at most `most_bytes` (up to 1 MiB). `trial` 0: the study's
  // calibration; `attempt` 0: the last one. NotFound.
  absl::StatusOr<v1::TrialLog> TrialLog(std::int64_t study, std::int64_t trial, std::int64_t attempt,
                                        std::int64_t most_bytes);
  // Returns the page about a study (server/report). NotFound; FailedPrecondition: it was not started.
  absl::StatusOr<std::string> Report(std::int64_t study);
  // Returns "failed: MESSAGE" if the study's calibration ended without a result; otherwise empty. For a
  // coordinator's study, the study's own message contains the failure.
  absl::StatusOr<std::string> CalibrationFailure(std::int64_t study);

  // Returns the process that has the database open for a search or a coordinator; nothing if none has.
  std::optional<pid_t> Worker() const;
  // Returns a study of the database from the file, once nobody works on it.
  absl::StatusOr<v1::Study> StudyLeftBehind(std::int64_t id);

  // As StateText, but "interrupted" if the study was running and no search has the database open any more.
  std::string StateOf(const v1::Study& study) const;

  // Returns the coordinator or search that owns the studies; its target is empty if none is active.
  Endpoint endpoint() const { return client_ ? endpoint_ : Endpoint{}; }

 private:
  StudyReader(std::string path, std::unique_ptr<server::Store> store, Endpoint endpoint);
  absl::StatusOr<server::Store*> File();
  // Returns true if the search that had the database open has ended. The file is read from then on.
  bool HasGone(const absl::Status& status);

  const std::string path_;  // empty: read from --coordinator
  const Endpoint endpoint_;
  std::unique_ptr<server::Store> store_;  // opened on first use
  std::unique_ptr<StudyClient> client_;   // of the running search; null without one
};

}  // namespace autocfg::cli
