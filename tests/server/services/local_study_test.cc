// Studies of `local` that leave its groups to the coordinator.
#include "gmock/gmock.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

v1::SearchSpec SpecOfLocal() {
  v1::SearchSpec spec = SmallSpec();
  spec.mutable_cluster()->clear_groups();
  return spec;
}

v1::Inventory CpuInventory(std::int64_t slots) {
  v1::Inventory inventory;
  inventory.set_hostname("one");
  inventory.set_device_kind("cpu");
  inventory.set_slots(slots);
  inventory.set_physical_cores(2);
  inventory.set_memory_bytes(10 * kGiB);
  return inventory;
}

class LocalStudyTest : public StudyServiceTest {
 protected:
  grpc::Status CreateAs(const std::string& request_id, const v1::SearchSpec& spec, v1::Study* study) {
    v1::CreateStudyRequest request;
    request.set_request_id(request_id);
    *request.mutable_spec() = spec;
    return Call(studies_, &v1::StudyService::Stub::CreateStudy, request, study);
  }
};

TEST_F(LocalStudyTest, LocalIsTheSlotsOfTheWorkers) {
  const FakeWorker worker(coordinator_->address(), CpuInventory(4), FakeWorker::ByFormula);
  const v1::Study study = Create(SpecOfLocal());
  ASSERT_EQ(study.spec().cluster().groups_size(), 1);
  const v1::NodeGroup& group = study.spec().cluster().groups(0);
  EXPECT_EQ(group.nodes(), 1);
  EXPECT_EQ(group.gpus_per_node(), 4);
  EXPECT_EQ(group.ranks_per_core(), 2);
  EXPECT_EQ(group.device().kind(), "cpu");
  EXPECT_EQ(group.device().memory_bytes(), 2 * kGiB);  // 80% of 10 GiB, for 4 ranks
  EXPECT_EQ(study.spec().device(), "cpu");
  ASSERT_TRUE(Start(study.name()).ok());
  EXPECT_EQ(Finish(study.name()).state(), v1::STUDY_STATE_DONE);
}

TEST_F(LocalStudyTest, WithoutWorkersItSaysWhatToDo) {
  ExpectRefused(
      SpecOfLocal(), grpc::StatusCode::FAILED_PRECONDITION,
      "spec.cluster: local has no groups, and no worker offers cpu (it has no workers that take jobs); "
      "start autocfg-worker");
  const FakeWorker worker(coordinator_->address(), CpuInventory(4), FakeWorker::ByFormula);
  v1::SearchSpec on_gpus = SpecOfLocal();
  on_gpus.set_device("cuda");
  ExpectRefused(on_gpus, grpc::StatusCode::FAILED_PRECONDITION, "no worker offers cuda");
  v1::SearchSpec paced = SpecOfLocal();
  paced.set_device("paced");
  ExpectRefused(paced, grpc::StatusCode::INVALID_ARGUMENT,
                "spec.device: 'paced' is no device of a local cluster");
}

TEST_F(LocalStudyTest, ARepeatedRequestGetsItsStudyThoughTheWorkersChanged) {
  v1::Study first;
  {
    FakeWorker worker(coordinator_->address(), CpuInventory(4), FakeWorker::ByFormula);
    ASSERT_TRUE(CreateAs("r1", SpecOfLocal(), &first).ok());
    worker.Stop();
  }
  v1::Study again;
  const grpc::Status status = CreateAs("r1", SpecOfLocal(), &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.name(), first.name());
  v1::SearchSpec other = SpecOfLocal();
  other.set_exhaustive(true);
  EXPECT_EQ(CreateAs("r1", other, &again).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

// The engine's file narrows what the study leaves open, and a repeated request is narrowed as the first was.
TEST_F(LocalStudyTest, AnEngineNarrowsTheSpaceOfAStudy) {
  v1::SearchSpec spec = SpecOfLocal();
  spec.clear_space();
  spec.mutable_cluster()->set_engine("trainer-x");
  v1::SpaceAxis& own = *spec.add_space();
  own.set_name("mbs");
  own.add_values("2");
  v1::Inventory inventory = CpuInventory(4);
  v1::Engine& engine = *inventory.add_engines();
  engine.set_name("trainer-x");
  engine.set_format("autocfg");
  for (const char* axis : {"pp=1", "mbs=1", "tp<=2"}) engine.add_space(axis);
  v1::Study study;
  {
    FakeWorker worker(coordinator_->address(), inventory, FakeWorker::ByFormula);
    ASSERT_TRUE(CreateAs("r1", spec, &study).ok());
    worker.Stop();
  }
  ASSERT_EQ(study.spec().space_size(), 3);
  EXPECT_EQ(study.spec().space(0).name(), "mbs");
  EXPECT_EQ(study.spec().space(0).values(0), "2");
  EXPECT_EQ(study.spec().space(1).name(), "pp");
  EXPECT_EQ(study.spec().space(2).name(), "tp");
  EXPECT_EQ(study.spec().space(2).values(0), "<=2");
  v1::Study again;
  const grpc::Status status = CreateAs("r1", spec, &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.name(), study.name());
  spec.mutable_cluster()->set_engine("");
  const FakeWorker worker(coordinator_->address(), inventory, FakeWorker::ByFormula);
  EXPECT_EQ(Create(spec).spec().space_size(), 1) << "autocfg's own engine";
}

}  // namespace
}  // namespace autocfg::server
