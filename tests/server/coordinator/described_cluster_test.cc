// Studies of clusters other than this machine: predict-only, emulated, and in slices.
#include <algorithm>
#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/spec_convert.h"
#include "search/text/cluster_json.h"
#include "server/studies/search_problem.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

class DescribedCluster : public CoordinatorFixture {
 protected:
  // The small model on eight GPUs.
  static v1::SearchSpec OnGpus() {
    v1::SearchSpec spec = SmallSpec();
    *spec.mutable_cluster() = ToProto(*PresetCluster("a100-80gb-sxm:2x4"));
    spec.mutable_workload()->set_precision("");
    return spec;
  }
  // The small model on three machines of two CPUs.
  static v1::SearchSpec OnMachines() {
    v1::SearchSpec spec = SmallSpec();
    v1::ClusterSpec& cluster = *spec.mutable_cluster();
    cluster.set_name("three");
    cluster.set_local(false);
    v1::NodeGroup& group = *cluster.mutable_groups(0);
    group.set_nodes(2);
    group.set_gpus_per_node(2);
    group.set_intra_node_bytes_per_s(4e9);
    group.set_inter_node_bytes_per_s(1e9);
    group.set_inter_node_latency_s(1e-5);
    return spec;
  }
  v1::Study Run(const v1::SearchSpec& spec) {
    const v1::Study created = Create(spec);
    EXPECT_TRUE(Start(created.name()).ok());
    return Finish(created.name());
  }
};

// The engine of the cluster narrows the search, whoever asks for it.
TEST_F(DescribedCluster, AFrameworksEngineLeavesThePlansThatItsFilesExpress) {
  Open();
  v1::SearchSpec spec = OnGpus();
  spec.set_predict_only(true);
  const auto rejected = [](const v1::Study& study) {
    const auto& counts = study.counts().rejected();
    const auto found = counts.find("framework_cannot_express");
    return found == counts.end() ? 0 : found->second;
  };
  EXPECT_EQ(rejected(Run(spec)), 0);
  spec.mutable_cluster()->set_engine("torchtitan");
  const v1::Study study = Run(spec);
  EXPECT_EQ(study.state(), v1::STUDY_STATE_DONE) << study.message();
  EXPECT_GT(rejected(study), 0);
  EXPECT_TRUE(study.best().plan().tp() == 1 || study.best().plan().sequence_parallel());
}

TEST_F(DescribedCluster, GpuClustersAreMeasuredInSlicesOnEqualGpus) {
  v1::SearchSpec spec = OnGpus();
  spec.set_device("cuda");
  spec.set_machine_ranks(1);
  const auto problem = ParseSearchSpec(spec);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(EvidenceOf(*problem), Evidence::kSlices);
  EXPECT_TRUE(NeedsCalibration(*problem));
  EXPECT_EQ(problem->options.measurable_ranks, 1);
  EXPECT_EQ(PrecisionText(problem->workload.precision), "bf16");
  EXPECT_EQ(SpecFingerprint(ToProto(*problem)), SpecFingerprint(ToProto(*ParseSearchSpec(ToProto(*problem)))))
      << "the normal form";
  spec.set_machine_ranks(0);
  EXPECT_EQ(ParseSearchSpec(spec)->options.measurable_ranks, 4);
  EXPECT_NE(SpecFingerprint(ToProto(*problem)), SpecFingerprint(ToProto(*ParseSearchSpec(spec))));
}

// As the command line and request lines do (search/question/defaults.h).
TEST_F(DescribedCluster, PredictedDevicesWithoutBf16TakeFp16) {
  v1::SearchSpec spec = OnGpus();
  *spec.mutable_cluster() = ToProto(*PresetCluster("v100-32gb-sxm:2x4"));
  spec.set_predict_only(true);
  const auto problem = ParseSearchSpec(spec);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(PrecisionText(problem->workload.precision), "fp16");
}

TEST_F(DescribedCluster, LocalGpuClusterIsMeasuredOnGpus) {
  v1::SearchSpec spec = OnGpus();
  spec.mutable_cluster()->set_local(true);
  const auto problem = ParseSearchSpec(spec);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->device, EngineDevice::kCuda);
  EXPECT_EQ(EvidenceOf(*problem), Evidence::kTrials);
  EXPECT_EQ(PrecisionText(problem->workload.precision), "bf16");
  spec.set_device("cpu");
  EXPECT_THAT(std::string(ParseSearchSpec(spec).status().message()),
              HasSubstr("spec.cluster: its devices are GPUs"));
}

TEST_F(DescribedCluster, PredictOnlyStudyNeedsNoWorker) {
  Open();
  v1::SearchSpec spec = OnGpus();
  spec.set_predict_only(true);
  const v1::Study study = Run(spec);
  ASSERT_EQ(study.state(), v1::STUDY_STATE_DONE) << study.message();
  EXPECT_EQ(study.spec().workload().precision(), "bf16");
  EXPECT_TRUE(Trials(study.name()).empty());
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.provenance(), "predicted");
  EXPECT_FALSE(answer.best().has_measured());
  EXPECT_GT(answer.best().predicted().step_time_s(), 0);
  EXPECT_EQ(answer.best().plan().tp() * answer.best().plan().pp() * answer.best().plan().dp(), 8);
  EXPECT_EQ(answer.counts().measured(), 0);
  EXPECT_EQ(answer.counts().enumerated(),
            answer.counts().illegal() + answer.counts().out_of_memory() + answer.counts().predicted());
  for (const v1::Candidate& other : answer.runners_up()) {
    EXPECT_GE(other.predicted().step_time_s() * (1 + 1e-9), answer.best().predicted().step_time_s())
        << other.plan_text();
  }
}

TEST_F(DescribedCluster, PredictOnlyStudyTakesTheNamedValues) {
  Open();
  v1::SearchSpec spec = OnGpus();
  for (const auto& [name, value] : {std::pair{"tp", "2"}, {"pp", "2"}, {"scatter_gather", "1"}}) {
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(name);
    axis.add_values(value);
  }
  spec.set_predict_only(true);
  const v1::Study study = Run(spec);
  ASSERT_EQ(study.state(), v1::STUDY_STATE_DONE) << study.message();
  EXPECT_TRUE(Recommend(study.name()).best().plan().scatter_gather());
}

TEST_F(DescribedCluster, EmulatedStudySendsPacedJobsWithoutCalibration) {
  Open();
  FakeWorker worker(coordinator_->address(), FakeWorker::ByFormula, "boot", 8);
  v1::SearchSpec spec = OnGpus();
  spec.set_device("paced");
  spec.set_max_trials(3);
  const v1::Study study = Run(spec);
  ASSERT_EQ(study.state(), v1::STUDY_STATE_DONE) << study.message();
  for (const auto& [job, runs] : worker.runs()) EXPECT_THAT(job, testing::Not(HasSubstr("calibration")));
  EXPECT_GE(Trials(study.name()).size(), 3u);
  EXPECT_EQ(Recommend(study.name()).provenance(), "measured");
}

TEST_F(DescribedCluster, PlansLargerThanAMachineAreMeasuredInSlices) {
  Open();
  std::atomic<int> slices = 0, whole = 0;
  FakeWorker worker(
      coordinator_->address(),
      [&](const v1::Job& job) {
        v1::ReportTrialRequest report = FakeWorker::ByFormula(job);
        if (job.has_calibrate()) {
          int groups = 0;
          for (const v1::OpDesc& op : job.calibrate().ops()) {
            EXPECT_LE(op.group_size(), 2) << op.kind() << " of more ranks than the machine has";
            groups += op.group_size() > 1;
          }
          EXPECT_GT(groups, 0) << "communication within the machine is measured";
          return report;
        }
        EXPECT_EQ(job.ranks(), 2);
        (job.train().has_slice() ? slices : whole) += 1;
        report.mutable_measurement()->set_slice(job.train().has_slice());
        return report;
      },
      "boot", 2);
  v1::SearchSpec spec = OnMachines();
  spec.set_max_trials(4);
  const v1::Study study = Run(spec);
  ASSERT_EQ(study.state(), v1::STUDY_STATE_DONE) << study.message();
  EXPECT_EQ(whole, 0);  // a search uses all ranks
  EXPECT_GE(slices, 1);
  const v1::Recommendation answer = Recommend(study.name());
  EXPECT_EQ(answer.provenance(), "predicted");
  EXPECT_GT(answer.counts().measured(), 0);
  const auto shown = [](const v1::Candidate& candidate) { return candidate.has_measured(); };
  EXPECT_TRUE(shown(answer.best()) ||
              std::any_of(answer.runners_up().begin(), answer.runners_up().end(), shown));
  for (const v1::Candidate& candidate : answer.runners_up()) {
    EXPECT_EQ(candidate.measured().slice(), candidate.has_measured()) << candidate.plan_text();
  }
}

TEST_F(DescribedCluster, LimitErrorsNameTheirValues) {
  Open();
  v1::SearchSpec spec = OnGpus();
  spec.set_device("paced");
  *spec.mutable_cluster() = ToProto(*PresetCluster("a100-80gb-sxm:16x8"));
  grpc::Status status = CreateStatus(spec);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("128 ranks are too many to be emulated here; use at most 64"));
  *spec.mutable_cluster() = ToProto(*PresetCluster("a100-80gb-sxm:8x8"));
  spec.mutable_workload()->set_global_batch(1 << 16);
  status = CreateStatus(spec);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("too many to be emulated"));
  spec.set_device("");
  status = CreateStatus(spec);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("predict_only"));
}

}  // namespace
}  // namespace autocfg::server
