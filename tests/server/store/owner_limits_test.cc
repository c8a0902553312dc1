// What the limits of an owner refuse, and what waits for them.
#include <string>

#include "server/store/sqlite/sqlite_store.h"
#include "server/store/turns/fair_share.h"
#include "tests/conformance/store_fixture.h"

namespace autocfg::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OwnerLimitsTest : public StoreSuite {
 protected:
  void Open(const OwnerLimits& limits) {
    auto store = OpenMemoryStore({.owners = limits});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  absl::StatusOr<v1::Study> Create(const std::string& owner, const std::string& request_id = "",
                                   bool reuse = false) {
    v1::Study study;
    study.set_fingerprint("f of " + owner);
    study.set_owner(owner);
    return reuse ? store_->CreateOrReuseStudy(request_id, study, 100)
                 : store_->CreateStudy(request_id, study, 100);
  }
  std::int64_t RunningOf(const std::string& owner) {
    const auto study = Create(owner);
    EXPECT_TRUE(study.ok()) << study.status();
    SetState(Id(*study), v1::STUDY_STATE_RUNNING);
    return Id(*study);
  }
};
INSTANTIATE_TEST_SUITE_P(Memory, OwnerLimitsTest,
                         testing::Values(StoreMaker{
                             "Memory", [] { return std::shared_ptr<Store>(*OpenMemoryStore()); }}),
                         StoreMakerName);

TEST_P(OwnerLimitsTest, OpenStudiesOfAnOwnerAreLimited) {
  Open({.open_studies = 2});
  const auto first = Create("me", "request");
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(Create("me").ok());
  const absl::Status refused = Create("me").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_FALSE(IsNoSpace(refused)) << "it is no full disk";
  EXPECT_EQ(
      refused.message(),
      "me has 2 studies that have not ended, the most that this coordinator allows an owner; wait until "
      "one ends, or cancel one");
  EXPECT_TRUE(Create("you").ok()) << "another owner";
  EXPECT_EQ(Create("me", "request")->name(), first->name()) << "a repeated request creates none";
  EXPECT_TRUE(Create("me", "", /*reuse=*/true).ok()) << "nor does one that joins a study";
  SetState(Id(*first), v1::STUDY_STATE_CANCELLED);
  EXPECT_TRUE(Create("me").ok());
}

TEST_P(OwnerLimitsTest, StoredBytesOfAnOwnerAreLimited) {
  Open({.bytes = 20'000});
  const std::int64_t id = RunningOf("me");
  const std::int64_t epoch = Register();
  Enqueue(id, "tp=1");
  EXPECT_TRUE(Create("me").ok());
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, std::string(20'000, 'x')).ok());
  const absl::Status refused = Create("me").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("delete some"));
  EXPECT_TRUE(Create("you").ok());
  SetState(id, v1::STUDY_STATE_CANCELLED);
  for (int i = 0; i < 2; ++i)
    EXPECT_FALSE(Create("me").ok()) << "ended studies count too, counted anew and from before";
  // A pruning removes the log.
  ASSERT_TRUE(SetStudyState(*store_, id, v1::STUDY_STATE_CANCELLED).ok());
  ASSERT_TRUE(store_->DeleteStudy(id).ok());
  EXPECT_TRUE(Create("me").ok());
}

TEST_P(OwnerLimitsTest, DetailsThatArePrunedDoNotCount) {
  Open({.bytes = 20'000});
  const std::int64_t id = RunningOf("me");
  const std::int64_t epoch = Register();
  Enqueue(id, "tp=1");
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, std::string(20'000, 'x')).ok());
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r"), 201).ok());
  ASSERT_TRUE(store_
                  ->ModifyStudy(id,
                                [](v1::Study& study) {
                                  study.set_state(v1::STUDY_STATE_DONE);
                                  study.set_end_time_s(300);
                                  study.mutable_best()->set_plan_text("tp=1");
                                  return absl::OkStatus();
                                })
                  .ok());
  EXPECT_FALSE(Create("me").ok());
  ASSERT_EQ(store_->Prune({.studies_s = 10}, 1000)->reduced.size(), 1u);
  EXPECT_TRUE(Create("me").ok());
}

TEST_P(OwnerLimitsTest, DevicesOfAnOwnerAreLimited) {
  Open({.devices = 4});
  const std::int64_t first = RunningOf("me"), second = RunningOf("me"), third = RunningOf("me");
  const std::int64_t other = RunningOf("you");
  Enqueue(first, "tp=2", 0, 2);
  Enqueue(second, "tp=3", 0, 3);
  Enqueue(third, "tp=1");
  const WorkerSession a = Join("a", 16), b = Join("b", 16);
  const Assignment given = GiveOut({a, b});
  ASSERT_THAT(Shares(given), ElementsAre("a:2"));
  EXPECT_EQ(given.leases[0].key.study, first);
  EXPECT_FALSE(given.waits) << "it keeps no slots of others";
  EXPECT_THAT(Waits({a, b}),
              ElementsAre(fmt::format("{}: its next job needs 3 devices, and its owner, me, uses 2 of the 4 "
                                      "that this coordinator allows at once; it waits for the owner's other "
                                      "jobs",
                                      second),
                          fmt::format("{}: its next job needs 1 device, and its owner, me, uses 2 of the 4 "
                                      "that this coordinator allows at once; it waits for the owner's other "
                                      "jobs",
                                      third)))
      << "the small one does not pass: it would do so for ever";
  Enqueue(other, "tp=4", 0, 4);
  EXPECT_THAT(Shares(GiveOut({a, b})), ElementsAre("a:4")) << "another owner";
  ASSERT_TRUE(store_->Report(ReportOf(given.leases[0], v1::OUTCOME_MEASURED), 201).ok());
  EXPECT_THAT(Shares(GiveOut({a, b})), ElementsAre("a:3", "b:1"));
  EXPECT_THAT(Waits({}, {a, b}), IsEmpty());
}

TEST_P(OwnerLimitsTest, JobOfMoreDevicesThanAllowedSaysSoAndHoldsUpNoOther) {
  Open({.devices = 4});
  const std::int64_t large = RunningOf("me"), small = RunningOf("me");
  Enqueue(large, "tp=8", 0, 8);
  Enqueue(small, "tp=1");
  const WorkerSession a = Join("a", 16);
  EXPECT_THAT(Shares(GiveOut({a})), ElementsAre("a:1"));
  EXPECT_THAT(Waits({a}), ElementsAre(fmt::format("{}: its next job needs 8 devices, and this coordinator "
                                                  "allows 4 at once to its owner, me; narrow the search to "
                                                  "fewer ranks, or ask the coordinator's administrator for "
                                                  "more",
                                                  large)));
  // A slice runs in as many copies as are allowed.
  v1::Job slice = TrainJob(16);
  slice.set_fewer_ranks(true);
  EnqueueJob(RunningOf("you"), "pp=2", slice);
  EXPECT_THAT(Shares(GiveOut({Join("b", 16)})), ElementsAre("b:4"));
}

TEST_P(OwnerLimitsTest, NoLimitIsTheDefault) {
  Open({});
  for (int i = 0; i < 20; ++i) {
    const std::int64_t id = RunningOf("me");
    Enqueue(id, "tp=1");
  }
  const WorkerSession a = Join("a", 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(GiveOut({a}).leases.size(), 1u);
}

}  // namespace
}  // namespace autocfg::server
