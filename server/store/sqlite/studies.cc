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

absl::Status Store::Impl::StudyNotFound(std::int64_t id) {
  return absl::NotFoundError(fmt::format("no study {}", StudyName(id)));
}

v1::Study Store::Impl::StudyOf(std::int64_t id, v1::StudyState state, v1::Study stored) {
  stored.set_name(StudyName(id));
  stored.set_state(state);
  return stored;
}

std::optional<v1::Study> Store::Impl::FindStudy(std::int64_t id) {
  auto row = Find<v1::StudyState, v1::Study>("SELECT state, study FROM studies WHERE id = ?", id);
  if (!row) return std::nullopt;
  auto& [state, study] = *row;
  return StudyOf(id, state, std::move(study));
}

absl::Status Store::Impl::CheckStudy(std::int64_t id) {
  if (Find<int>("SELECT 1 FROM studies WHERE id = ?", id)) return absl::OkStatus();
  return StudyNotFound(id);
}

absl::StatusOr<v1::Study> Store::CreateStudy(const std::string& request_id, const v1::Study& given,
                                             double now_s) {
  return impl_->Write([&] { return impl_->Create(request_id, given, now_s, /*reuse_unfinished=*/false); });
}

absl::StatusOr<v1::Study> Store::CreateOrReuseStudy(const std::string& request_id, const v1::Study& given,
                                                    double now_s) {
  return impl_->Write([&] { return impl_->Create(request_id, given, now_s, /*reuse_unfinished=*/true); });
}

absl::StatusOr<v1::Study> Store::Impl::Create(const std::string& request_id, const v1::Study& given,
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

absl::Status Store::Impl::CheckLimitsOf(const std::string& owner) {
  const std::int64_t open =
      limits_.open_studies > 0
          ? One<std::int64_t>("SELECT count(*) FROM turns WHERE owner = ? AND open = 1", owner)
          : 0;
  return CheckMayCreate(owner, limits_, open, limits_.bytes > 0 ? BytesOf(owner) : 0);
}

std::int64_t Store::Impl::BytesOf(std::int64_t study) {
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

std::int64_t Store::Impl::BytesOf(const std::string& owner) {
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

void Store::Impl::AddTurn(std::int64_t id, const v1::Study& study) {
  Execute("INSERT INTO turns (study, owner, weight, open, running) VALUES (?, ?, ?, ?, ?)", id, study.owner(),
          study.weight() > 0 ? study.weight() : 1.0, !IsEnd(study.state()),
          study.state() == v1::STUDY_STATE_RUNNING);
}

void Store::Impl::SetTurnWeight(std::int64_t id, double weight) {
  const auto turn = Find<double, double>("SELECT use, weight FROM turns WHERE study = ?", id);
  const double use = turn ? ForNewWeight(std::get<0>(*turn), std::get<1>(*turn), weight) : kNoUse;
  Execute("UPDATE turns SET use = ?, weight = ? WHERE study = ?", use, weight, id);
  change_.work = true;
}

absl::StatusOr<std::optional<v1::Study>> Store::CreatedBy(const std::string& request_id) {
  return impl_->Read([&] {
    const auto subject = impl_->FindRequest(request_id, kCreate);
    return subject ? impl_->FindStudy(std::stoll(*subject)) : std::nullopt;
  });
}

absl::StatusOr<v1::Study> Store::GetStudy(std::int64_t id) {
  return impl_->Read([&]() -> absl::StatusOr<v1::Study> {
    if (auto study = impl_->FindStudy(id)) return *std::move(study);
    return impl_->StudyNotFound(id);
  });
}

absl::StatusOr<std::vector<v1::Study>> Store::ListStudies(std::int64_t before, const ListLimit& limit) {
  return impl_->Read([&] {
    std::vector<v1::Study> studies;
    auto rows = impl_->Rows<std::int64_t, v1::StudyState, v1::Study>(
        "SELECT id, state, study FROM studies WHERE ?1 = 0 OR id < ?1 ORDER BY id DESC LIMIT ?2", before,
        limit.count);
    std::size_t bytes = 0;
    while (!limit.Reached(studies.size(), bytes)) {
      auto row = rows.Next();
      if (!row) break;
      bytes += studies.emplace_back(std::apply(Impl::StudyOf, *std::move(row))).ByteSizeLong();
    }
    return studies;
  });
}

std::optional<v1::Study> Store::Impl::FindUnfinished(const std::string& fingerprint) {
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

absl::StatusOr<std::vector<std::int64_t>> Store::StudiesInState(v1::StudyState state) {
  return impl_->Read(
      [&] { return impl_->All<std::int64_t>("SELECT id FROM studies WHERE state = ? ORDER BY id", state); });
}

absl::StatusOr<v1::Study> Store::Impl::WriteStudy(v1::Study study, v1::StudyState before) {
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
  Touch(id);
  return study;
}

absl::StatusOr<v1::Study> Store::ModifyStudy(std::int64_t id,
                                             const std::function<absl::Status(v1::Study&)>& edit,
                                             const StudyEdit& extra) {
  return impl_->Write([&]() -> absl::StatusOr<v1::Study> {
    std::optional<v1::Study> study = impl_->FindStudy(id);
    if (!study) return impl_->StudyNotFound(id);
    if (const auto known = impl_->FindRequest(extra.request_id, kModify)) {
      if (!IsOf(*known, id, extra)) return impl_->RequestIdReused(extra.request_id);
      return *study;
    }
    if (impl_->RequestIdTaken(extra.request_id)) return impl_->RequestIdReused(extra.request_id);
    v1::Study edited = *study;
    AUTOCFG_RETURN_IF_ERROR(edit(edited));
    // Fields that identify the study do not change.
    edited.set_name(study->name());
    *edited.mutable_spec() = study->spec();
    edited.set_fingerprint(study->fingerprint());
    edited.set_create_time_s(study->create_time_s());
    edited.set_owner(study->owner());
    edited.set_weight(extra.weight.value_or(study->weight()));
    if (extra.weight) impl_->SetTurnWeight(id, *extra.weight);
    impl_->RememberRequest(extra.request_id, kModify, SubjectOf(id, extra));
    impl_->Execute("UPDATE studies SET wall_s = wall_s + ?, plan_cpu_s = plan_cpu_s + ? WHERE id = ?",
                   extra.add_wall_s, extra.add_plan_cpu_s, id);
    return impl_->WriteStudy(std::move(edited), study->state());
  });
}

absl::StatusOr<StudyUsage> Store::Usage(std::int64_t id) {
  return impl_->Read([&]() -> absl::StatusOr<StudyUsage> {
    const auto usage = impl_->Find<double, double, double>(
        R"sql(
          SELECT wall_s, plan_cpu_s,
              (SELECT IFNULL(SUM(s.device_s), 0)
               FROM jobs j JOIN shares s ON s.job = j.id WHERE j.study = studies.id)
          FROM studies
          WHERE id = ?)sql",
        id);
    if (!usage) return impl_->StudyNotFound(id);
    return Make<StudyUsage>(*usage);
  });
}

absl::Status Store::DeleteStudy(std::int64_t id, const std::string& request_id) {
  return impl_->Write([&]() -> absl::Status {
    const std::string subject = fmt::format("{}", id);
    if (const auto known = impl_->FindRequest(request_id, kDelete)) {
      return *known == subject ? absl::OkStatus() : impl_->RequestIdReused(request_id);
    }
    if (impl_->RequestIdTaken(request_id)) return impl_->RequestIdReused(request_id);
    const std::optional<v1::Study> study = impl_->FindStudy(id);
    if (!study) return impl_->StudyNotFound(id);
    if (study->state() == v1::STUDY_STATE_RUNNING) {
      return absl::FailedPreconditionError(
          fmt::format("{} is running; cancel or pause it first", study->name()));
    }
    impl_->EraseStudy(id);
    impl_->RememberRequest(request_id, kDelete, subject);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::int64_t> Store::ChangeCursor(std::int64_t id) {
  return impl_->Read([&]() -> absl::StatusOr<std::int64_t> {
    if (const auto change = impl_->Find<std::int64_t>("SELECT change FROM studies WHERE id = ?", id))
      return *change;
    return impl_->StudyNotFound(id);
  });
}

absl::StatusOr<StudyChanges> Store::ChangesAfter(std::int64_t id, std::int64_t after,
                                                 const ListLimit& limit) {
  return impl_->Read([&]() -> absl::StatusOr<StudyChanges> {
    std::optional<v1::Study> study = impl_->FindStudy(id);
    if (!study) return impl_->StudyNotFound(id);
    StudyChanges changes;
    changes.study = *std::move(study);
    changes.cursor = impl_->One<std::int64_t>("SELECT change FROM studies WHERE id = ?", id);
    Impl::TrialRows rows =
        impl_->SelectTrials("study = ? AND change > ? ORDER BY change LIMIT ?", id, after, limit.count);
    changes.trials = impl_->ReadTrials(id, rows, limit);
    changes.more = !rows.Ended();
    return changes;
  });
}

}  // namespace autocfg::server
