#include "proto/answer/study_export.h"

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/answer/answer.h"
#include "proto/convert/spec_convert.h"

namespace autocfg {

ExportEvidence EvidenceFor(const v1::Candidate& best, const v1::Candidate* runner_up, bool emulated) {
  const v1::Prediction& predicted = best.predicted();
  ExportEvidence evidence;
  evidence.measured = MeasuredWhole(best);
  evidence.emulated = evidence.measured && emulated;
  evidence.step_time_s = RankedSeconds(best);
  evidence.engine = "autocfg";
  evidence.capacity_bytes = predicted.memory_bytes().capacity();
  if (evidence.measured) {
    const v1::Measurement& measured = best.measured();
    evidence.low_s = measured.median_step_time_s() - measured.ci95_s();
    evidence.high_s = measured.median_step_time_s() + measured.ci95_s();
    evidence.device = measured.device_fingerprint();
    evidence.build = measured.build_id();
    evidence.memory_bytes = measured.planned_memory_bytes() + measured.device_overhead_bytes();
    if (!measured.engine().empty()) {
      evidence.engine = measured.engine();
      if (!measured.engine_version().empty()) evidence.engine += " " + measured.engine_version();
      evidence.memory_bytes = measured.peak_memory_bytes();
    }
  } else {
    evidence.low_s = predicted.step_time_low_s();
    evidence.high_s = predicted.step_time_high_s();
    evidence.memory_bytes = predicted.memory_bytes().total();
  }
  if (runner_up != nullptr) {
    evidence.runner_up = runner_up->plan_text();
    evidence.runner_up_step_time_s = RankedSeconds(*runner_up);
  }
  return evidence;
}

absl::StatusOr<ExportedRun> ExportedRunOf(const v1::Study& study) {
  if (!study.has_best()) {
    const bool ended = study.state() == v1::STUDY_STATE_DONE || study.state() == v1::STUDY_STATE_FAILED ||
                       study.state() == v1::STUDY_STATE_CANCELLED;
    return absl::FailedPreconditionError(
        ended ? fmt::format("{} has ended without a plan; export another study", study.name())
              : fmt::format("{} has no plan yet; wait for it, or export another study", study.name()));
  }
  ExportedRun run;
  AUTOCFG_ASSIGN_OR_RETURN(run.model, FromProto(study.spec().model()));
  AUTOCFG_ASSIGN_OR_RETURN(run.cluster, FromProto(study.spec().cluster()));
  AUTOCFG_ASSIGN_OR_RETURN(run.workload, FromProto(study.spec().workload()));
  AUTOCFG_ASSIGN_OR_RETURN(run.plan, FromProto(study.best().plan()));
  run.evidence = EvidenceFor(study.best(), nullptr, study.spec().device() == Name(EngineDevice::kPaced));
  if (!run.cluster.engine.name.empty()) run.evidence.engine = EngineText(run.cluster.engine);
  run.evidence.study = study.name();
  if (study.spec().has_memory_margin()) run.memory_margin = study.spec().memory_margin();
  return run;
}

}  // namespace autocfg
