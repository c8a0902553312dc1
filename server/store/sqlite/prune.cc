// What is deleted for good: studies, the details of old ones, and rows that nobody needs any more.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr double kOpTimesPrunedSeconds = 365.0 * 24 * 3600;  // no key keeps them longer
constexpr double kUsesForgottenSeconds = 90.0 * 24 * 3600;   // of owners: long decayed
constexpr int kRequestsPerStep = 2000;                       // so that other writes wait for a moment only
constexpr int kPagesGivenBack = 1024;                        // 4 MiB

absl::Status DryRun() { return absl::CancelledError("a dry run"); }

}  // namespace

std::vector<Store::Impl::EndedStudy> Store::Impl::ReadEnded() {
  static_assert(kStudyEndStates.size() == 3, "one parameter of the query each");
  std::vector<EndedStudy> ended;
  for (const auto& [id, study, reduced] :
       Rows<std::int64_t, v1::Study, bool>("SELECT id, study, reduced FROM studies WHERE state IN (?, ?, ?)",
                                           kStudyEndStates[0], kStudyEndStates[1], kStudyEndStates[2])) {
    ended.push_back({.id = id,
                     .end_s = study.end_time_s() > 0 ? study.end_time_s() : study.create_time_s(),
                     .has_result = study.has_best(),
                     .reduced = reduced});
  }
  std::sort(ended.begin(), ended.end(), [](const EndedStudy& a, const EndedStudy& b) {
    return std::pair(a.end_s, a.id) < std::pair(b.end_s, b.id);
  });
  return ended;
}

std::int64_t Store::Impl::BytesInUse() {
  return (db().execAndGet("PRAGMA page_count").getInt64() -
          db().execAndGet("PRAGMA freelist_count").getInt64()) *
         db().execAndGet("PRAGMA page_size").getInt64();
}

void Store::Impl::ForgetReports(std::int64_t study) {
  Execute(
      R"sql(
        DELETE FROM requests INDEXED BY reports_by_lease
        WHERE kind = 'report'
            AND CAST(CASE instr(subject, '/')
              WHEN 0 THEN subject
              ELSE substr(subject, 1, instr(subject, '/') - 1) END AS TEXT)
            IN (SELECT s.lease_id FROM jobs j JOIN shares s ON s.job = j.id WHERE j.study = ?))sql",
      study);
}

void Store::Impl::ReduceStudy(std::int64_t id) {
  ForgetReports(id);
  Execute(
      R"sql(
        DELETE FROM trial_logs
        WHERE id IN
          (SELECT l.id FROM jobs j CROSS JOIN attempts a ON a.job = j.id
           CROSS JOIN trial_logs l ON l.job = a.job AND l.attempt = a.number WHERE j.study = ?))sql",
      id);
  Execute(
      "UPDATE shares SET out_of_memory = NULL WHERE out_of_memory IS NOT NULL AND job IN (SELECT id FROM "
      "jobs WHERE study = ?)",
      id);
  Execute("UPDATE studies SET reduced = 1 WHERE id = ?", id);
  Execute("UPDATE turns SET bytes = NULL WHERE study = ?", id);
}

void Store::Impl::EraseStudy(std::int64_t id) {
  Touch(id);
  change_.work = true;
  ForgetReports(id);
  Execute("DELETE FROM studies WHERE id = ?", id);
}

bool Store::Impl::PruneRows(const RetentionLimits& limits, double now_s, Pruned& pruned) {
  Execute("UPDATE workers SET gone_s = ? WHERE active = 0 AND gone_s IS NULL", now_s);
  if (limits.workers_s > 0) {
    pruned.workers += Execute(
        R"sql(
          DELETE FROM workers
          WHERE active = 0 AND gone_s < ?
              AND NOT EXISTS (SELECT 1 FROM shares s WHERE s.worker = workers.worker))sql",
        now_s - limits.workers_s);
  }
  Execute("DELETE FROM owners WHERE started_s < ? AND owner NOT IN (SELECT owner FROM turns WHERE open = 1)",
          now_s - kUsesForgottenSeconds);
  Execute("DELETE FROM results WHERE measured_s < ?", now_s - kOpTimesPrunedSeconds);
  pruned.op_times += Execute("DELETE FROM op_times WHERE measured_s < ?", now_s - kOpTimesPrunedSeconds);
  const int seen = Execute(
      R"sql(
        UPDATE requests
        SET seen_s = ?
        WHERE request_id IN (SELECT request_id FROM requests WHERE seen_s IS NULL LIMIT ?))sql",
      now_s, kRequestsPerStep);
  int gone = 0;
  if (limits.requests_s > 0) {
    gone = Execute(
        R"sql(
          DELETE FROM requests
          WHERE request_id IN (SELECT request_id FROM requests WHERE seen_s < ? LIMIT ?))sql",
        now_s - limits.requests_s, kRequestsPerStep);
  }
  pruned.requests += gone;
  return seen == kRequestsPerStep || gone == kRequestsPerStep;
}

absl::Status Store::Impl::PruneInSteps(const RetentionLimits& limits, double now_s, Pruned& pruned,
                                       const std::function<absl::Status(const PruneStep&)>& run) {
  std::vector<EndedStudy> ended;
  AUTOCFG_RETURN_IF_ERROR(run([&] {
    pruned.bytes_before = BytesInUse();
    ended = ReadEnded();
  }));
  for (bool more = true; more;) {
    AUTOCFG_RETURN_IF_ERROR(run([&] { more = PruneRows(limits, now_s, pruned); }));
  }
  // The study may have been deleted since it was read; an ended one does not change its state.
  const auto reduce = [&](EndedStudy& study) {
    study.reduced = true;
    return run([&, id = study.id] {
      if (!CheckStudy(id).ok()) return;
      ReduceStudy(id);
      pruned.reduced.push_back(id);
    });
  };
  const auto erase = [&](const EndedStudy& study) {
    return run([&, id = study.id] {
      if (!CheckStudy(id).ok()) return;
      EraseStudy(id);
      std::erase(pruned.reduced, id);
      pruned.deleted.push_back(id);
    });
  };
  std::vector<EndedStudy> kept;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const bool old = limits.studies_s > 0 && ended[i].end_s < now_s - limits.studies_s;
    const bool surplus = limits.studies > 0 && static_cast<std::int64_t>(ended.size() - i) > limits.studies;
    if ((old || surplus) && !ended[i].has_result) {
      AUTOCFG_RETURN_IF_ERROR(erase(ended[i]));
      continue;
    }
    if ((old || surplus) && !ended[i].reduced) {
      AUTOCFG_RETURN_IF_ERROR(reduce(ended[i]));
    }
    kept.push_back(ended[i]);
  }
  const auto too_large = [&]() -> absl::StatusOr<bool> {
    AUTOCFG_RETURN_IF_ERROR(run([&] { pruned.bytes_after = BytesInUse(); }));
    return limits.bytes > 0 && pruned.bytes_after > limits.bytes;
  };
  const auto while_too_large = [&](const auto& applies, const auto& act) -> absl::Status {
    for (EndedStudy& study : kept) {
      if (!applies(study)) continue;
      AUTOCFG_ASSIGN_OR_RETURN(const bool large, too_large());
      if (!large) break;
      AUTOCFG_RETURN_IF_ERROR(act(study));
    }
    return absl::OkStatus();
  };
  AUTOCFG_RETURN_IF_ERROR(while_too_large([](const EndedStudy& study) { return !study.reduced; }, reduce));
  AUTOCFG_RETURN_IF_ERROR(while_too_large([](const EndedStudy& study) { return !study.has_result; }, erase));
  AUTOCFG_RETURN_IF_ERROR(while_too_large([](const EndedStudy& study) { return study.has_result; }, erase));
  return too_large().status();
}

absl::StatusOr<Pruned> Store::Prune(const RetentionLimits& limits, double now_s, bool dry_run) {
  Pruned pruned;
  if (!dry_run) {
    AUTOCFG_RETURN_IF_ERROR(impl_->PruneInSteps(
        limits, now_s, pruned, [this](const Impl::PruneStep& step) { return impl_->Write(step); }));
    return pruned;
  }
  // One transaction that is rolled back.
  const absl::Status status = impl_->Write([&]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(impl_->PruneInSteps(limits, now_s, pruned, [](const Impl::PruneStep& step) {
      step();
      return absl::OkStatus();
    }));
    return DryRun();
  });
  if (status != DryRun()) return status;
  return pruned;
}

absl::StatusOr<bool> Store::GiveBackSpace(bool all) {
  constexpr int kIncremental = 2;
  const auto incremental = [this] {
    return impl_->db().execAndGet("PRAGMA auto_vacuum").getInt() == kIncremental;
  };
  bool small_steps = false;
  absl::StatusOr<bool> more = impl_->Write([&]() -> absl::StatusOr<bool> {
    small_steps = incremental();
    const std::int64_t unused = impl_->db().execAndGet("PRAGMA freelist_count").getInt64();
    if (!small_steps || unused == 0) return false;
    impl_->db().exec(fmt::format("PRAGMA incremental_vacuum({})",
                                 all ? unused : std::min<std::int64_t>(unused, kPagesGivenBack)));
    return !all && unused > kPagesGivenBack;
  });
  if (!more.ok() || small_steps || !all) return more;
  return impl_->Read([this]() -> absl::StatusOr<bool> {  // outside a transaction
    impl_->db().exec("PRAGMA auto_vacuum = INCREMENTAL");
    impl_->db().exec("VACUUM");
    return false;
  });
}

}  // namespace autocfg::server
