#include "cli/study/study_reader.h"

#include <utility>

#include "cli/client/study_names.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/report/report.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "proto/client/study_client.h"
#include "server/names/names.h"
#include "server/report/report_json.h"
#include "server/report/report_page.h"
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
  if (auto status = CheckServiceOptions(options); !status.ok()) return status;
  if (options.remote()) {
    auto endpoint = EndpointOf(options);
    if (!endpoint.ok()) return endpoint.status();
    return std::unique_ptr<StudyReader>(new StudyReader("", nullptr, *std::move(endpoint)));
  }
  const std::string& database = options.database;
  const auto path = server::DatabasePath(database);
  if (!path.ok()) return path.status();
  const absl::Status exists = CheckDatabaseExists(*path);
  if (absl::IsNotFound(exists) && database.empty()) {
    auto empty = server::OpenMemoryStore();
    if (!empty.ok()) return empty.status();
    return std::unique_ptr<StudyReader>(new StudyReader(*path, *std::move(empty), {}));
  }
  if (!exists.ok()) return exists;
  const auto socket = SocketPath(*path);
  if (socket.ok() && IsListening(*socket))
    return std::unique_ptr<StudyReader>(new StudyReader(*path, nullptr, {.target = "unix:" + *socket}));
  auto store = server::OpenSqliteStoreReadOnly(*path);
  if (!store.ok()) return store.status();
  return std::unique_ptr<StudyReader>(new StudyReader(*path, *std::move(store), {}));
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
    auto store = server::OpenSqliteStoreReadOnly(path_);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
  }
  return store_.get();
}

absl::StatusOr<std::vector<v1::Study>> StudyReader::Studies() {
  if (client_) {
    auto studies = client_->ListStudies();
    if (!HasGone(studies.status())) return studies;
  }
  const auto store = File();
  if (!store.ok()) return store.status();
  std::vector<v1::Study> all;
  for (std::int64_t before = 0;;) {
    auto page = (*store)->ListStudies(before, kPage);
    if (!page.ok()) return page.status();
    if (page->empty()) return all;
    const auto last = ParseStudyId(page->back().name());
    if (!last.ok()) return last.status();
    before = *last;
    for (auto& study : *page) all.push_back(std::move(study));
  }
}

absl::StatusOr<v1::Study> StudyReader::Study(std::int64_t id) {
  if (client_) {
    auto study = client_->GetStudy(fmt::format("studies/{}", id));
    if (!HasGone(study.status())) return study;
  }
  const auto store = File();
  if (!store.ok()) return store.status();
  return (*store)->GetStudy(id);
}

absl::StatusOr<v1::Study> StudyReader::StudyNamed(const std::string& text) {
  if (!text.empty()) {
    const auto id = ParseStudyId(text);
    if (!id.ok()) return id.status();
    auto study = Study(*id);
    if (!absl::IsNotFound(study.status())) return study;
    return absl::NotFoundError(
        fmt::format("--study: {}; autocfg studies lists what there is", Text(study.status())));
  }
  auto studies = Studies();
  if (!studies.ok()) return studies.status();
  if (studies->empty()) return absl::NotFoundError("no studies found; autocfg search creates one");
  return std::move(studies->front());
}

absl::StatusOr<std::vector<v1::Trial>> StudyReader::Trials(std::int64_t study) {
  if (client_) {
    auto trials = client_->ListTrials(fmt::format("studies/{}", study));
    if (!HasGone(trials.status())) return trials;
  }
  const auto store = File();
  if (!store.ok()) return store.status();
  std::vector<v1::Trial> all;
  for (std::int64_t after = 0;;) {
    auto page = (*store)->ListTrials(study, after, kPage);
    if (!page.ok()) return page.status();
    if (page->empty()) return all;
    const auto last = ParseWhole("trial", LastPart(page->back().name()));
    if (!last.ok()) return last.status();
    after = *last;
    for (auto& trial : *page) all.push_back(std::move(trial));
  }
}

absl::StatusOr<v1::TrialLog> StudyReader::TrialLog(std::int64_t study, std::int64_t trial,
                                                   std::int64_t attempt, std::int64_t most_bytes) {
  if (client_) {
    auto log = client_->GetTrialLog(server::JobName(study, trial), attempt, most_bytes);
    if (!HasGone(log.status())) return log;
  }
  const auto store = File();
  if (!store.ok()) return store.status();
  return (*store)->TrialLog(study, trial, attempt, static_cast<std::size_t>(most_bytes));
}

absl::StatusOr<std::string> StudyReader::Report(std::int64_t study) {
  if (client_) {
    auto page = client_->GetReport(fmt::format("studies/{}", study));
    if (!HasGone(page.status())) return page;
  }
  const auto store = File();
  if (!store.ok()) return store.status();
  const auto report = server::GatherReport(**store, study);
  if (!report.ok()) return report.status();
  return server::ReportPage(server::ReportTitle(*report), server::ReportJson(*report));
}

absl::StatusOr<std::string> StudyReader::CalibrationFailure(std::int64_t study) {
  if (path_.empty()) return std::string();
  const auto store = File();
  if (!store.ok()) return store.status();
  const auto state = (*store)->CalibrationState(study);
  if (!state.ok()) return state.status();
  if (!server::IsEnd(state->first) || state->first == v1::TRIAL_STATE_MEASURED) return std::string();
  const std::string text = StateText(state->first);
  return state->second.empty() || state->second == text ? text : fmt::format("{}: {}", text, state->second);
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
