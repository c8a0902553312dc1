#include "cli/study/study_reader.h"

#include <utility>

#include "base/status_macros.h"
#include "cli/client/study_names.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/client/study_client.h"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "server/report/report_json.h"
#include "server/report/study_report.h"
#include "server/store/sqlite/sqlite_store.h"

namespace autocfg::cli {
namespace {

constexpr int kPage = 200;

}  // namespace

absl::Status InterruptedError(const v1::Study& study) {
  return absl::FailedPreconditionError(
      fmt::format("{} is interrupted; cancel it first, or run its search again", study.name()));
}

absl::StatusOr<std::unique_ptr<StudyReader>> StudyReader::Open(const ServiceOptions& options) {
  AUTOCFG_RETURN_IF_ERROR(CheckServiceOptions(options));
  if (options.remote()) {
    AUTOCFG_ASSIGN_OR_RETURN(auto endpoint, EndpointOf(options));
    return std::unique_ptr<StudyReader>(new StudyReader("", nullptr, std::move(endpoint)));
  }
  const std::string& database = options.database;
  AUTOCFG_ASSIGN_OR_RETURN(const auto path, server::DatabasePath(database));
  const absl::Status exists = CheckDatabaseExists(path);
  if (absl::IsNotFound(exists) && database.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(auto empty, server::OpenMemoryStore());
    return std::unique_ptr<StudyReader>(new StudyReader(path, std::move(empty), {}));
  }
  if (!exists.ok()) return exists;
  const auto socket = SocketPath(path);
  if (socket.ok() && IsListening(*socket))
    return std::unique_ptr<StudyReader>(new StudyReader(path, nullptr, {.target = "unix:" + *socket}));
  AUTOCFG_ASSIGN_OR_RETURN(auto store, server::OpenSqliteStoreReadOnly(path));
  return std::unique_ptr<StudyReader>(new StudyReader(path, std::move(store), {}));
}

StudyReader::StudyReader(std::string path, std::unique_ptr<server::Store> store, Endpoint endpoint)
    : path_(std::move(path)), endpoint_(std::move(endpoint)), store_(std::move(store)) {
  if (!endpoint_.target.empty()) client_ = std::make_unique<StudyClient>(endpoint_);
}

StudyReader::~StudyReader() = default;

bool StudyReader::HasGone(const absl::Status& status) {
  if (path_.empty() || !absl::IsUnavailable(status)) return false;
  client_.reset();
  return true;
}

absl::StatusOr<server::Store*> StudyReader::File() {
  if (!store_) {
    AUTOCFG_ASSIGN_OR_RETURN(store_, server::OpenSqliteStoreReadOnly(path_));
  }
  return store_.get();
}

absl::StatusOr<std::vector<v1::Study>> StudyReader::Studies() {
  if (client_) {
    auto studies = client_->ListStudies();
    if (!HasGone(studies.status())) return studies;
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto store, File());
  std::vector<v1::Study> all;
  for (std::int64_t before = 0;;) {
    AUTOCFG_ASSIGN_OR_RETURN(auto page, store->ListStudies(before, kPage));
    if (page.empty()) return all;
    AUTOCFG_ASSIGN_OR_RETURN(before, ParseStudyId(page.back().name()));
    for (auto& study : page) all.push_back(std::move(study));
  }
}

absl::StatusOr<v1::Study> StudyReader::Study(std::int64_t id) {
  if (client_) {
    auto study = client_->GetStudy(fmt::format("studies/{}", id));
    if (!HasGone(study.status())) return study;
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto store, File());
  return store->GetStudy(id);
}

absl::StatusOr<v1::Study> StudyReader::StudyNamed(const std::string& text) {
  if (!text.empty()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyId(text));
    auto study = Study(id);
    if (!absl::IsNotFound(study.status())) return study;
    return absl::NotFoundError(
        fmt::format("--study: {}; autocfg studies lists what there is", Text(study.status())));
  }
  AUTOCFG_ASSIGN_OR_RETURN(auto studies, Studies());
  if (studies.empty()) return absl::NotFoundError("no studies found; autocfg search creates one");
  return std::move(studies.front());
}

absl::StatusOr<std::vector<v1::Trial>> StudyReader::Trials(std::int64_t study) {
  if (client_) {
    auto trials = client_->ListTrials(fmt::format("studies/{}", study));
    if (!HasGone(trials.status())) return trials;
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto store, File());
  std::vector<v1::Trial> all;
  for (std::int64_t after = 0;;) {
    AUTOCFG_ASSIGN_OR_RETURN(auto page, store->ListTrials(study, after, kPage));
    if (page.empty()) return all;
    AUTOCFG_ASSIGN_OR_RETURN(after, ParseWhole("trial", LastPart(page.back().name())));
    for (auto& trial : page) all.push_back(std::move(trial));
  }
}

absl::StatusOr<v1::TrialLog> StudyReader::TrialLog(std::int64_t study, std::int64_t trial,
                                                   std::int64_t attempt, std::int64_t most_bytes) {
  if (client_) {
    auto log = client_->GetTrialLog(server::JobName(study, trial), attempt, most_bytes);
    if (!HasGone(log.status())) return log;
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto store, File());
  return store->TrialLog(study, trial, attempt, static_cast<std::size_t>(most_bytes));
}

absl::StatusOr<std::string> StudyReader::Report(std::int64_t study) {
  if (client_) {
    auto page = client_->GetReport(fmt::format("studies/{}", study));
    if (!HasGone(page.status())) return page;
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto store, File());
  AUTOCFG_ASSIGN_OR_RETURN(const auto report, server::GatherReport(*store, study));
  return server::PageOf(report);
}

absl::StatusOr<std::string> StudyReader::CalibrationFailure(std::int64_t study) {
  if (path_.empty()) return std::string();
  AUTOCFG_ASSIGN_OR_RETURN(const auto store, File());
  AUTOCFG_ASSIGN_OR_RETURN(const auto state, store->CalibrationState(study));
  if (!server::IsEnd(state.first) || state.first == v1::TRIAL_STATE_MEASURED) return std::string();
  const std::string text = StateText(state.first);
  return state.second.empty() || state.second == text ? text : fmt::format("{}: {}", text, state.second);
}

std::optional<pid_t> StudyReader::Worker() const {
  return path_.empty() ? std::nullopt : server::DatabaseOwner(path_);
}

absl::StatusOr<v1::Study> StudyReader::StudyLeftBehind(std::int64_t id) {
  client_.reset();
  return Study(id);
}

std::string StudyReader::StateOf(const v1::Study& study) const {
  if (study.state() == v1::STUDY_STATE_RUNNING && !client_ && !Worker()) return "interrupted";
  return StateText(study.state());
}

}  // namespace autocfg::cli
