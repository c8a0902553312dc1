// Studies and change cursors.
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr const char* kCreate = "create_study";
constexpr const char* kModify = "modify_study";
constexpr const char* kDelete = "delete_study";

// Returns the request subject of an edit of a study.
std::string SubjectOf(std::int64_t study, const StudyEdit& extra) {
  return extra.request_kind.empty() ? fmt::format("{}", study)
                                    : fmt::format("{}/{}", study, extra.request_kind);
}

// Earlier builds stored only the study.
bool IsOf(const std::string& subject, std::int64_t study, const StudyEdit& extra) {
  return subject == SubjectOf(study, extra) || subject == fmt::format("{}", study);
}

}  // namespace

absl::Status SqliteStore::StudyNotFound(std::int64_t id) {
  return absl::NotFoundError(fmt::format("no study {}", StudyName(id)));
}

v1::Study SqliteStore::StudyOf(std::int64_t id, v1::StudyState state, v1::Study stored) {
  stored.set_name(StudyName(id));
  stored.set_state(state);
  return stored;
}

std::optional<v1::Study> SqliteStore::FindStudy(std::int64_t id) {
  auto row = Find<v1::StudyState, v1::Study>("SELECT state, study FROM studies WHERE id = ?", id);
  if (!row) return std::nullopt;
  auto& [state, study] = *row;
  return StudyOf(id, state, std::move(study));
}

absl::Status SqliteStore::CheckStudy(std::int64_t id) {
  if (Find<int>("SELECT 1 FROM studies WHERE id = ?", id)) return absl::OkStatus();
  return StudyNotFound(id);
}

absl::StatusOr<v1::Study> SqliteStore::CreateStudy(const std::string& request_id, const v1::Study& given,
                                                   double now_s) {
  return Write([&] { return Create(request_id, given, now_s, /*reuse_unfinished=*/false); });
}

absl::StatusOr<v1::Study> SqliteStore::CreateOrReuseStudy(const std::string& request_id,
                                                          const v1::Study& given, double now_s) {
  return Write([&] { return Create(request_id, given, now_s, /*reuse_unfinished=*/true); });
}

absl::StatusOr<v1::Study> SqliteStore::Create(const std::string& request_id, const v1::Study& given,
                                              double now_s, bool reuse_unfinished) {
  if (const auto subject = FindRequest(request_id, kCreate)) {
    const auto study = FindStudy(std::stoll(*subject));
    if (!study) return absl::NotFoundError(fmt::format("the study of request_id {} was deleted", request_id));
    if (study->fingerprint() != given.fingerprint()) return RequestIdReused(request_id);
    return *study;
  }
  if (RequestIdTaken(request_id)) return RequestIdReused(request_id);
  if (reuse_unfinished) {
    if (auto unfinished = FindUnfinished(given.fingerprint())) {
      RememberRequest(request_id, kCreate, fmt::format("{}", *ParseStudyName(unfinished->name())));
      return *std::move(unfinished);
    }
  }
  AUTOCFG_RETURN_IF_ERROR(CheckLimitsOf(given.owner()));
  v1::Study study = given;
  study.clear_name();
  study.set_state(v1::STUDY_STATE_CREATED);
  study.set_create_time_s(now_s);
  Execute("INSERT INTO studies (fingerprint, state, change, study) VALUES (?, ?, ?, ?)", study.fingerprint(),
          study.state(), Next("change"), study);
  const std::int64_t id = db().getLastInsertRowid();
  AddTurn(id, study);
  change_.studies.push_back(id);
  RememberRequest(request_id, kCreate, fmt::format("{}", id));
  study.set_name(StudyName(id));
  return study;
}

absl::Status SqliteStore::CheckLimitsOf(const std::string& owner) {
  const std::int64_t open =
      limits_.open_studies > 0
          ? One<std::int64_t>("SELECT count(*) FROM turns WHERE owner = ? AND open = 1", owner)
          : 0;
  return CheckMayCreate(owner, limits_, open, limits_.bytes > 0 ? BytesOf(owner) : 0);
}

std::int64_t SqliteStore::BytesOf(std::int64_t study) {
  return One<std::int64_t>(
      R"sql(
        SELECT
            (SELECT length(study) FROM studies WHERE id = ?1) +
            (SELECT IFNULL(SUM(length(trial) + length(plan_text) + length(message)), 0)
             FROM trials WHERE study = ?1) +
            (SELECT IFNULL(SUM(length(result)), 0) FROM calibrations WHERE study = ?1) +
            (SELECT IFNULL(SUM(length(timeline)), 0) FROM timelines WHERE study = ?1) +
            (SELECT IFNULL(SUM(length(job)), 0) FROM jobs WHERE study = ?1) +
            (SELECT IFNULL(SUM(length(m.measurement)), 0)
             FROM jobs j JOIN measurements m ON m.job = j.id WHERE j.study = ?1) +
            (SELECT IFNULL(SUM(length(s.message) + IFNULL(length(s.out_of_memory), 0)), 0)
             FROM jobs j JOIN shares s ON s.job = j.id WHERE j.study = ?1) +
            (SELECT IFNULL(SUM(length(CAST(l.text AS BLOB))), 0)
             FROM jobs j JOIN attempts a ON a.job = j.id
             JOIN trial_logs l ON l.job = a.job AND l.attempt = a.number WHERE j.study = ?1))sql",
      study);
}

std::int64_t SqliteStore::BytesOf(const std::string& owner) {
  std::int64_t bytes = 0;
  const auto turns = All<std::int64_t, bool, std::optional<std::int64_t>>(
      "SELECT study, open, bytes FROM turns WHERE owner = ?", owner);
  for (const auto& [study, open, stored] : turns) {
    const bool known = !open && stored;
    const std::int64_t counted = known ? *stored : BytesOf(study);
    bytes += counted;
    if (!open && !known) Execute("UPDATE turns SET bytes = ? WHERE study = ?", counted, study);
  }
  return bytes;
}

void SqliteStore::AddTurn(std::int64_t id, const v1::Study& study) {
  Execute("INSERT INTO turns (study, owner, weight, open, running) VALUES (?, ?, ?, ?, ?)", id, study.owner(),
          study.weight() > 0 ? study.weight() : 1.0, !IsEnd(study.state()),
          study.state() == v1::STUDY_STATE_RUNNING);
}

void SqliteStore::SetTurnWeight(std::int64_t id, double weight) {
  const auto turn = Find<double, double>("SELECT use, weight FROM turns WHERE study = ?", id);
  const double use = turn ? ForNewWeight(std::get<0>(*turn), std::get<1>(*turn), weight) : kNoUse;
  Execute("UPDATE turns SET use = ?, weight = ? WHERE study = ?", use, weight, id);
  change_.work = true;
}

absl::StatusOr<std::optional<v1::Study>> SqliteStore::CreatedBy(const std::string& request_id) {
  return Read([&] {
    const auto subject = FindRequest(request_id, kCreate);
    return subject ? FindStudy(std::stoll(*subject)) : std::nullopt;
  });
}

absl::StatusOr<v1::Study> SqliteStore::GetStudy(std::int64_t id) {
  return Read([&]() -> absl::StatusOr<v1::Study> {
    if (auto study = FindStudy(id)) return *std::move(study);
    return StudyNotFound(id);
  });
}

absl::StatusOr<std::vector<v1::Study>> SqliteStore::ListStudies(std::int64_t before, const ListLimit& limit) {
  return Read([&] {
    std::vector<v1::Study> studies;
    auto rows = Rows<std::int64_t, v1::StudyState, v1::Study>(
        "SELECT id, state, study FROM studies WHERE ?1 = 0 OR id < ?1 ORDER BY id DESC LIMIT ?2", before,
        limit.count);
    std::size_t bytes = 0;
    while (!limit.Reached(studies.size(), bytes)) {
      auto row = rows.Next();
      if (!row) break;
      bytes += studies.emplace_back(std::apply(StudyOf, *std::move(row))).ByteSizeLong();
    }
    return studies;
  });
}

std::optional<v1::Study> SqliteStore::FindUnfinished(const std::string& fingerprint) {
  static_assert(kStudyEndStates.size() == 3, "one parameter of the query each");
  auto row = Find<std::int64_t, v1::StudyState, v1::Study>(
      R"sql(
        SELECT id, state, study
        FROM studies
        WHERE fingerprint = ? AND state NOT IN (?, ?, ?)
        ORDER BY id DESC
        LIMIT 1)sql",
      fingerprint, kStudyEndStates[0], kStudyEndStates[1], kStudyEndStates[2]);
  if (!row) return std::nullopt;
  return std::apply(StudyOf, *std::move(row));
}

absl::StatusOr<std::vector<std::int64_t>> SqliteStore::StudiesInState(v1::StudyState state) {
  return Read([&] { return All<std::int64_t>("SELECT id FROM studies WHERE state = ? ORDER BY id", state); });
}

absl::StatusOr<v1::Study> SqliteStore::WriteStudy(v1::Study study, v1::StudyState before) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyName(study.name()));
  if (IsEnd(before) && study.state() != before) {
    return absl::FailedPreconditionError(
        fmt::format("{} has ended ({}) and cannot change its state", study.name(), ShortName(before)));
  }
  v1::Study stored = study;
  stored.clear_name();
  Execute("UPDATE studies SET state = ?, study = ? WHERE id = ?", study.state(), stored, id);
  if (IsEnd(study.state()) && !IsEnd(before)) {
    CancelOpenJobs(id);
    DropDoneJobs(id, 0);
  }
  if (study.state() != before) change_.work = true;
  TouchStudy(id);
  return study;
}

absl::StatusOr<v1::Study> SqliteStore::ModifyStudy(std::int64_t id,
                                                   const std::function<absl::Status(v1::Study&)>& edit,
                                                   const StudyEdit& extra) {
  return Write([&]() -> absl::StatusOr<v1::Study> {
    std::optional<v1::Study> study = FindStudy(id);
    if (!study) return StudyNotFound(id);
    if (const auto known = FindRequest(extra.request_id, kModify)) {
      if (!IsOf(*known, id, extra)) return RequestIdReused(extra.request_id);
      return *study;
    }
    if (RequestIdTaken(extra.request_id)) return RequestIdReused(extra.request_id);
    v1::Study edited = *study;
    AUTOCFG_RETURN_IF_ERROR(edit(edited));
    // Fields that identify the study do not change.
    edited.set_name(study->name());
    *edited.mutable_spec() = study->spec();
    edited.set_fingerprint(study->fingerprint());
    edited.set_create_time_s(study->create_time_s());
    edited.set_owner(study->owner());
    edited.set_weight(extra.weight.value_or(study->weight()));
    if (extra.weight) SetTurnWeight(id, *extra.weight);
    RememberRequest(extra.request_id, kModify, SubjectOf(id, extra));
    Execute("UPDATE studies SET wall_s = wall_s + ?, plan_cpu_s = plan_cpu_s + ? WHERE id = ?",
            extra.add_wall_s, extra.add_plan_cpu_s, id);
    return WriteStudy(std::move(edited), study->state());
  });
}

absl::StatusOr<StudyUsage> SqliteStore::Usage(std::int64_t id) {
  return Read([&]() -> absl::StatusOr<StudyUsage> {
    const auto usage = Find<double, double, double>(
        R"sql(
          SELECT wall_s, plan_cpu_s,
              (SELECT IFNULL(SUM(s.device_s), 0)
               FROM jobs j JOIN shares s ON s.job = j.id WHERE j.study = studies.id)
          FROM studies
          WHERE id = ?)sql",
        id);
    if (!usage) return StudyNotFound(id);
    return Make<StudyUsage>(*usage);
  });
}

absl::Status SqliteStore::DeleteStudy(std::int64_t id, const std::string& request_id) {
  return Write([&]() -> absl::Status {
    const std::string subject = fmt::format("{}", id);
    if (const auto known = FindRequest(request_id, kDelete)) {
      return *known == subject ? absl::OkStatus() : RequestIdReused(request_id);
    }
    if (RequestIdTaken(request_id)) return RequestIdReused(request_id);
    const std::optional<v1::Study> study = FindStudy(id);
    if (!study) return StudyNotFound(id);
    if (study->state() == v1::STUDY_STATE_RUNNING) {
      return absl::FailedPreconditionError(
          fmt::format("{} is running; cancel or pause it first", study->name()));
    }
    EraseStudy(id);
    RememberRequest(request_id, kDelete, subject);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::int64_t> SqliteStore::ChangeCursor(std::int64_t id) {
  return Read([&]() -> absl::StatusOr<std::int64_t> {
    if (const auto change = Find<std::int64_t>("SELECT change FROM studies WHERE id = ?", id)) return *change;
    return StudyNotFound(id);
  });
}

absl::StatusOr<StudyChanges> SqliteStore::ChangesAfter(std::int64_t id, std::int64_t after,
                                                       const ListLimit& limit) {
  return Read([&]() -> absl::StatusOr<StudyChanges> {
    std::optional<v1::Study> study = FindStudy(id);
    if (!study) return StudyNotFound(id);
    StudyChanges changes;
    changes.study = *std::move(study);
    changes.cursor = One<std::int64_t>("SELECT change FROM studies WHERE id = ?", id);
    TrialRows rows = SelectTrials("study = ? AND change > ? ORDER BY change LIMIT ?", id, after, limit.count);
    changes.trials = ReadTrials(id, rows, limit);
    changes.more = !rows.Ended();
    return changes;
  });
}

}  // namespace autocfg::server
