#include "cli/study/kept_op_times.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/os/process.h"
#include "base/status_macros.h"
#include "cli/client/study_names.h"
#include "fmt/format.h"
#include "search/plan/cluster/cluster_spec.h"
#include "server/coordinator/database_path.h"
#include "server/store/op_times_key.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_search.h"
#include "server/studies/trial_job.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

// Returns the key under which a search on this machine keeps its op times; nothing if it keeps none.
std::optional<server::OpTimesKey> KeyHere(const GpuList& machine, std::int64_t ranks) {
  const std::vector<server::MachineShare> shares = {{worker::LocalInventory(machine, ranks), ranks}};
  return server::OpTimesKeyOf(shares, /*fewer_ranks=*/false);
}

// Opens the database. Null if there is no such file.
absl::StatusOr<std::unique_ptr<server::Store>> OpenKept(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return nullptr;
  return server::OpenSqliteStoreReadOnly(path);
}

double Now() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

// The calibration of a search that measures nothing.
class KnownCalibration final : public server::OutcomeSource {
 public:
  explicit KnownCalibration(server::Store::Calibration calibration) : calibration_(std::move(calibration)) {}
  absl::StatusOr<std::optional<server::Store::Calibration>> Calibrate(const SearchLoop&) override {
    return std::optional(calibration_);
  }
  absl::StatusOr<std::optional<std::int64_t>> Ask(const TrialRequest&) override {
    return std::optional<std::int64_t>();
  }
  absl::StatusOr<std::optional<v1::Trial>> Await(std::int64_t) override { return std::optional<v1::Trial>(); }
  bool StopNow() override { return false; }

 private:
  const server::Store::Calibration calibration_;
};

}  // namespace

absl::StatusOr<server::Store::Calibration> KeptOpTimes(const std::string& database, const GpuList& machine,
                                                       std::int64_t ranks) {
  const auto key = KeyHere(machine, ranks);
  if (!key) {
    return absl::FailedPreconditionError(
        fmt::format("this build ({}) names no one revision, so its searches keep no op times of this machine",
                    base::BuildId()));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto path, server::DatabasePath(database));
  AUTOCFG_ASSIGN_OR_RETURN(const auto store, OpenKept(path));
  if (store != nullptr) {
    auto kept = store->AllOpTimes(*key, Now());
    if (!kept.ok() || kept->reused_ops > 0) return kept;
  }
  return absl::FailedPreconditionError(fmt::format(
      "{} has no op times of this machine with {} rank{} by this build", path, ranks, ranks == 1 ? "" : "s"));
}

absl::StatusOr<std::optional<v1::Recommendation>> PredictFromKeptOpTimes(const std::string& database,
                                                                         const GpuList& machine,
                                                                         const v1::SearchSpec& spec,
                                                                         const PlanningWatch& watch) {
  using None = std::optional<v1::Recommendation>;
  const auto began = std::chrono::steady_clock::now();
  AUTOCFG_ASSIGN_OR_RETURN(auto problem, server::ParseSearchSpec(spec));
  const auto key = KeyHere(machine, RankCount(problem.cluster));
  const auto path = server::DatabasePath(database);
  if (!key || !path.ok()) return None();
  const auto store = OpenKept(*path);
  if (!store.ok() || *store == nullptr) return None();
  AUTOCFG_ASSIGN_OR_RETURN(auto search, server::StudySearch::Create(problem, {.watch = watch}));
  const v1::Job job = server::CalibrationJob(problem, search.loop().CalibrationOps());
  auto kept = (*store)->FindOpTimes(*key, job.calibrate(), Now());
  if (!kept.ok() || kept->reused_ops < job.calibrate().ops_size()) return None();
  KnownCalibration source(*std::move(kept));
  AUTOCFG_RETURN_IF_ERROR(search.Drive(source));
  v1::Recommendation answer = search.Recommendation();
  answer.set_plan_cpu_s(search.plan_cpu_s());
  answer.set_wall_s(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return std::optional(std::move(answer));
}

std::string NoReuseNote(std::string_view whose, const std::string& build_id) {
  if (server::NamesOneRevision(build_id)) return "";
  return fmt::format(
      "{} ({}) names no one revision of its sources, so each search measures its op times anew; a build of a "
      "committed checkout reuses them",
      whose, build_id);
}

std::string KeptText(const v1::Study& study, const std::string& build_id) {
  std::string what = "has measured nothing yet";
  if (study.counts().measured() > 0) {
    what = "keeps its measurements";
  } else if (study.phase() == "measuring" || study.phase() == "confirming") {
    what = "keeps its op times, and has measured no plan yet";
  } else if (study.calibration_ops_passed() > 0 && server::NamesOneRevision(build_id)) {
    what = fmt::format(
        "has measured no plan yet, and keeps the op times so far ({} of {} ops were timed or left "
        "out)",
        study.calibration_ops_passed(), study.calibration_ops());
  } else if (study.calibration_ops_passed() > 0) {
    what = "has measured no plan yet, and keeps none of its op times: this build names no one revision";
  }
  return fmt::format("study {} {}", LastPart(study.name()), what);
}

}  // namespace autocfg::cli
