// Part of the contract of Store: op times that outlive their study, and calibrations that are reused wholly
// or in part, or dropped.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "server/store/op_times_key.h"
#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

class StoreCalibrationSuite : public StoreSuite {
 protected:
  static v1::Inventory Gpus(int gpus, const std::string& build = "0.1.0+abc") {
    v1::Inventory inventory;
    inventory.set_device_kind("cuda");
    inventory.set_device_fingerprint("GPU X");
    inventory.set_driver("570");
    inventory.set_build_id(build);
    inventory.set_slots(gpus);
    for (int i = 0; i < gpus; ++i) inventory.add_gpus()->set_index(i);
    return inventory;
  }
  WorkerSession Add(const std::string& id, const v1::Inventory& inventory) {
    v1::RegisterWorkerRequest request;
    request.set_worker("workers/" + id);
    request.set_boot_id(fmt::format("boot{}", ++boots_));
    *request.mutable_inventory() = inventory;
    const auto epoch = store_->RegisterWorker(request, 100);
    EXPECT_TRUE(epoch.ok()) << epoch.status();
    return {request.worker(), *epoch};
  }
  static v1::OpDesc Op(int size) {
    v1::OpDesc op;
    op.set_kind("gelu");
    op.add_dims(size);
    return op;
  }
  static v1::CalibrateSpec Spec(const std::vector<int>& sizes, double budget_s = 10) {
    v1::CalibrateSpec spec;
    for (const int size : sizes) *spec.add_ops() = Op(size);
    spec.set_time_budget_s(budget_s);
    return spec;
  }
  static v1::Job GpuJob(const v1::CalibrateSpec& spec, int ranks) {
    v1::Job job;
    job.set_ranks(ranks);
    job.set_device("cuda");
    *job.mutable_calibrate() = spec;
    return job;
  }
  // Returns the ops' times as pairs of size and seconds.
  static std::vector<std::pair<int, double>> Times(const Store::Calibration& calibration) {
    std::vector<std::pair<int, double>> times;
    for (const v1::OpTime& time : calibration.result.ops())
      times.emplace_back(static_cast<int>(time.op().dims(0)), time.seconds());
    return times;
  }
  static v1::ReportTrialRequest Timed(const Lease& lease, double unit, std::int64_t overhead) {
    v1::ReportTrialRequest report = ReportOf(lease, v1::OUTCOME_MEASURED);
    report.clear_measurement();
    v1::CalibrateResult& result = *report.mutable_calibration();
    for (const v1::OpDesc& op : lease.job.calibrate().ops()) {
      v1::OpTime& time = *result.add_ops();
      *time.mutable_op() = op;
      time.set_seconds(unit * static_cast<double>(op.dims(0)));
      time.set_host_s(unit / 4);
    }
    result.set_device_overhead_bytes(overhead);
    return report;
  }
  // Measures a study's calibration on these workers, and ends it.
  std::int64_t Calibrate(const v1::Job& job, const std::vector<WorkerSession>& workers, double unit = 1,
                         std::int64_t overhead = 0, const Store::Calibration& reused = {}) {
    const std::int64_t id = NewRunning();
    EXPECT_TRUE(store_->EnqueueCalibration(id, job, 2, reused).ok());
    const Assignment given = GiveOut(workers, {}, now_);
    EXPECT_EQ(given.leases.size(), workers.size());
    for (const Lease& lease : given.leases)
      EXPECT_TRUE(store_->Report(Timed(lease, unit, overhead), now_ + 1).ok());
    EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_MEASURED);
    now_ += 10;
    return id;
  }
  Store::Calibration Find(const OpTimesKey& key, const v1::CalibrateSpec& spec) {
    auto found = store_->FindOpTimes(key, spec, now_);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *std::move(found) : Store::Calibration();
  }
  static OpTimesKey KeyOf(const v1::Inventory& inventory, int ranks) {
    const std::vector<MachineShare> shares = {{inventory, ranks}};
    const auto key = OpTimesKeyOf(shares, false);
    EXPECT_TRUE(key);
    return key.value_or(OpTimesKey());
  }
  using Pairs = std::vector<std::pair<int, double>>;

  int boots_ = 0;
  double now_ = 200;
};

TEST_P(StoreCalibrationSuite, TimesAreKeyedByTheirDependencies) {
  const WorkerSession worker = Add("a", Gpus(2));
  const std::int64_t id = Calibrate(GpuJob(Spec({1, 2, 3}), 2), {worker}, 0.5, 4096);
  EXPECT_EQ((*store_->GetCalibration(id))->reused_ops, 0);
  const OpTimesKey key = KeyOf(Gpus(2), 2);
  const Store::Calibration found = Find(key, Spec({3, 7, 1}));
  EXPECT_EQ(Times(found), (Pairs{{3, 1.5}, {1, 0.5}}));
  EXPECT_EQ(found.reused_ops, 2);
  for (const v1::OpTime& time : found.result.ops()) EXPECT_EQ(time.host_s(), 0.125);
  EXPECT_EQ(found.result.device_overhead_bytes(), 4096);
  EXPECT_TRUE(Times(Find(key, Spec({7}))).empty());
  EXPECT_EQ(Find(key, Spec({7})).result.device_overhead_bytes(), 0);

  v1::Inventory other = Gpus(2, "0.1.0+def");
  EXPECT_TRUE(Times(Find(KeyOf(other, 2), Spec({1}))).empty()) << "another build";
  other = Gpus(2);
  other.set_device_fingerprint("GPU Y");
  EXPECT_TRUE(Times(Find(KeyOf(other, 2), Spec({1}))).empty());
  other = Gpus(2);
  other.set_driver("575");
  EXPECT_TRUE(Times(Find(KeyOf(other, 2), Spec({1}))).empty());
  EXPECT_TRUE(Times(Find(KeyOf(Gpus(2), 1), Spec({1}))).empty()) << "another number of ranks";
  EXPECT_TRUE(Times(Find(KeyOf(Gpus(1), 2), Spec({1}))).empty()) << "two ranks on one GPU";
  OpTimesKey spanning = key;
  spanning.workers = 2;
  EXPECT_TRUE(Times(Find(spanning, Spec({1}))).empty());

  // Op times outlive the study.
  SetState(id, v1::STUDY_STATE_CANCELLED);
  ASSERT_TRUE(store_->DeleteStudy(id, "").ok());
  EXPECT_EQ(Times(Find(key, Spec({2}))), (Pairs{{2, 1}}));
}

// The overhead measured with a communicator covers only the communicators of its own calibration.
TEST_P(StoreCalibrationSuite, CommunicationIsReusedFromOneCalibrationOnly) {
  const WorkerSession worker = Add("a", Gpus(2));
  const OpTimesKey key = KeyOf(Gpus(2), 2);
  // one compute op, and a sum over each of these groups
  const auto spec = [](const std::vector<int>& groups) {
    v1::CalibrateSpec made = Spec({9});
    for (const int group : groups) {
      v1::OpDesc& op = *made.add_ops();
      op.set_kind("all_reduce_sum");
      op.set_group(group == 1 ? "tensor" : "data");
      op.add_dims(group);
    }
    return made;
  };
  Calibrate(GpuJob(spec({1}), 2), {worker}, 1, 1000);
  EXPECT_EQ(Times(Find(key, spec({1}))), (Pairs{{9, 9}, {1, 1}}));
  EXPECT_EQ(Times(Find(key, spec({1, 2}))), (Pairs{{9, 9}})) << "the other is not known: both are timed anew";
  Calibrate(GpuJob(spec({2}), 2), {worker}, 1, 2000);
  EXPECT_EQ(Times(Find(key, spec({1, 2}))), (Pairs{{9, 9}})) << "known, from two calibrations";
  Calibrate(GpuJob(spec({1, 2}), 2), {worker}, 1, 3000);
  const Store::Calibration found = Find(key, spec({1, 2}));
  EXPECT_EQ(Times(found), (Pairs{{9, 9}, {1, 1}, {2, 2}}));
  EXPECT_EQ(found.result.device_overhead_bytes(), 3000);
}

TEST_P(StoreCalibrationSuite, AllTimesOfAKey) {
  const WorkerSession worker = Add("a", Gpus(2));
  const OpTimesKey key = KeyOf(Gpus(2), 2);
  const auto all = [&](const OpTimesKey& of) {
    const auto found = store_->AllOpTimes(of, now_);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : Store::Calibration();
  };
  EXPECT_TRUE(Times(all(key)).empty());
  Calibrate(GpuJob(Spec({1, 2}, 2), 2), {worker}, 1, 100);
  Calibrate(GpuJob(Spec({2, 3}), 2), {worker}, 10, 50);
  const Store::Calibration found = all(key);
  EXPECT_EQ(Times(found), (Pairs{{1, 1}, {2, 20}, {3, 30}})) << "of every calibration, the newest";
  EXPECT_EQ(found.reused_ops, 3);
  EXPECT_EQ(found.result.device_overhead_bytes(), 100);
  EXPECT_EQ(found.result.ops(0).host_s(), 0.25);
  EXPECT_TRUE(Times(all(KeyOf(Gpus(2), 1))).empty());
  EXPECT_TRUE(Times(all(KeyOf(Gpus(2, "0.1.0+def"), 2))).empty());
  now_ += 366.0 * 24 * 3600;
  EXPECT_TRUE(Times(all(key)).empty());
}

TEST_P(StoreCalibrationSuite, TimesExpireAfterAYear) {
  const WorkerSession worker = Add("a", Gpus(1));
  const OpTimesKey key = KeyOf(Gpus(1), 1);
  constexpr double kDay = 24 * 3600;
  Calibrate(GpuJob(Spec({1}), 1), {worker});
  now_ += 300 * kDay;
  Calibrate(GpuJob(Spec({2}), 1), {worker});
  EXPECT_EQ(Times(Find(key, Spec({1, 2}))).size(), 2u);
  now_ += 100 * kDay;
  EXPECT_EQ(Times(Find(key, Spec({1, 2}))), (Pairs{{2, 2}})) << "though nothing was measured since";
  // Expired times do not hide times measured with a shorter budget either.
  Calibrate(GpuJob(Spec({1, 3}, 2), 1), {worker}, 5);
  EXPECT_EQ(Times(Find(key, Spec({1, 2, 3}, 2))), (Pairs{{1, 5}, {2, 2}, {3, 15}}));
}

TEST_P(StoreCalibrationSuite, CommunicationExpiresAfterAYear) {
  const WorkerSession worker = Add("a", Gpus(2));
  const OpTimesKey key = KeyOf(Gpus(2), 2);
  v1::CalibrateSpec spec;
  v1::OpDesc& op = *spec.add_ops();
  op.set_kind("all_reduce_sum");
  op.set_group("data");
  op.add_dims(7);
  spec.set_time_budget_s(10);
  Calibrate(GpuJob(spec, 2), {worker});
  EXPECT_EQ(Times(Find(key, spec)).size(), 1u);
  now_ += 400.0 * 24 * 3600;
  EXPECT_EQ(Times(Find(key, spec)).size(), 0u);
}

TEST_P(StoreCalibrationSuite, TimesOfAShorterBudgetAreNotReused) {
  const WorkerSession worker = Add("a", Gpus(1));
  const OpTimesKey key = KeyOf(Gpus(1), 1);
  Calibrate(GpuJob(Spec({1, 2}, 2), 1), {worker}, 1);
  EXPECT_TRUE(Times(Find(key, Spec({1, 2}, 10))).empty());
  EXPECT_EQ(Times(Find(key, Spec({1, 2}, 2))), (Pairs{{1, 1}, {2, 2}}));
  Calibrate(GpuJob(Spec({2, 3}, 10), 1), {worker}, 2);
  EXPECT_EQ(Times(Find(key, Spec({1, 2, 3}, 2))), (Pairs{{1, 1}, {2, 4}, {3, 6}})) << "the newest";
  Calibrate(GpuJob(Spec({2}, 2), 1), {worker}, 3);
  EXPECT_EQ(Times(Find(key, Spec({2}, 2))), (Pairs{{2, 4}})) << "nor replace them";
  Calibrate(GpuJob(Spec({2}, 10), 1), {worker}, 4);
  EXPECT_EQ(Times(Find(key, Spec({2}, 10))), (Pairs{{2, 8}}));
}

TEST_P(StoreCalibrationSuite, UnidentifiedBuildsAndDevicesAreNotKept) {
  for (const char* build : {"0.1.0+abc-dirty", "0.1.0+unknown", ""}) {
    const v1::Inventory inventory = Gpus(1, build);
    Calibrate(GpuJob(Spec({1}), 1), {Add("a", inventory)});
    const std::vector<MachineShare> shares = {{inventory, 1}};
    EXPECT_FALSE(OpTimesKeyOf(shares, false)) << build;
    OpTimesKey key = KeyOf(Gpus(1), 1);
    key.build_id = build;
    EXPECT_TRUE(Times(Find(key, Spec({1}))).empty()) << build;
  }
}

TEST_P(StoreCalibrationSuite, TimesOfACpuAreKeptForADay) {
  v1::Inventory cpu = Gpus(1);
  cpu.clear_gpus();
  cpu.set_device_kind("cpu");
  cpu.set_hostname("here");
  v1::Job job = GpuJob(Spec({1}, 20), 1);
  job.set_device("cpu");
  Calibrate(job, {Add("c", cpu)}, 7);
  const OpTimesKey key = KeyOf(cpu, 1);
  EXPECT_EQ(Times(Find(key, Spec({1}))), (Pairs{{1, 7}}));
  EXPECT_TRUE(Times(Find(KeyOf(Gpus(1), 1), Spec({1}))).empty()) << "no times of a GPU";
  now_ += 25.0 * 3600;
  EXPECT_TRUE(Times(Find(key, Spec({1}))).empty());
  // A time that does not hold any more is replaced, also by one of a smaller budget.
  *job.mutable_calibrate() = Spec({1}, 10);
  Calibrate(job, {Add("c", cpu)}, 8);
  EXPECT_EQ(Times(Find(key, Spec({1}))), (Pairs{{1, 8}}));
}

TEST_P(StoreCalibrationSuite, DifferingWorkersKeepNothing) {
  const WorkerSession a = Add("a", Gpus(2));
  const WorkerSession b = Add("b", Gpus(1));
  Calibrate(GpuJob(Spec({1}), 3), {a, b}, 1, 7);
  const std::vector<MachineShare> alike = {{Gpus(2), 2}, {Gpus(1), 1}};
  EXPECT_EQ(Times(Find(*OpTimesKeyOf(alike, false), Spec({1}))), (Pairs{{1, 1}})) << "alike, they do";
  EXPECT_TRUE(Times(Find(KeyOf(Gpus(3), 3), Spec({1}))).empty()) << "not for one worker";
  for (const auto& other : {Gpus(1, "0.1.0+def"), Gpus(1, "0.1.0+abc-dirty")}) {
    Calibrate(GpuJob(Spec({2}), 3), {a, Add("b", other)});
    const std::vector<MachineShare> mixed = {{Gpus(2), 2}, {other, 1}};
    EXPECT_FALSE(OpTimesKeyOf(mixed, false));
    EXPECT_TRUE(Times(Find(*OpTimesKeyOf(alike, false), Spec({2}))).empty());
  }
}

TEST_P(StoreCalibrationSuite, TimesWithAConcurrentJobAreNotKept) {
  const WorkerSession worker = Add("a", Gpus(3));
  const std::int64_t id = NewRunning();
  const std::int64_t other = NewRunning();
  v1::Job beside = TrainJob();
  beside.set_device("cuda");
  EnqueueJob(other, "tp=1", beside);
  const Lease trial = GiveOut({worker}).leases.at(0);
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(Spec({1}), 2), 2, {}).ok());
  const Lease calibration = GiveOut({worker}, {}, 201).leases.at(0);
  ASSERT_TRUE(store_->Report(ReportOf(trial, v1::OUTCOME_MEASURED), 202).ok());
  ASSERT_TRUE(store_->Report(Timed(calibration, 1, 0), 203).ok());
  EXPECT_TRUE((*store_->GetCalibration(id)).has_value());
  const OpTimesKey key = KeyOf(Gpus(3), 2);
  EXPECT_TRUE(Times(Find(key, Spec({1}))).empty());
  now_ = 210;
  Calibrate(GpuJob(Spec({1}), 2), {worker});
  EXPECT_EQ(Times(Find(key, Spec({1}))).size(), 1u) << "alone, they are";
}

TEST_P(StoreCalibrationSuite, CalibrationMergesReusedAndMeasuredTimes) {
  const WorkerSession worker = Add("a", Gpus(1));
  Calibrate(GpuJob(Spec({1, 2}), 1), {worker}, 1, 100);
  const OpTimesKey key = KeyOf(Gpus(1), 1);
  const std::int64_t id = NewRunning();
  const Store::Calibration reused = Find(key, Spec({1, 2}));
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(Spec({3}), 1), 2, reused).ok());
  EXPECT_FALSE((*store_->GetCalibration(id)).has_value()) << "not before the rest is measured";
  const Lease lease = GiveOut({worker}, {}, 300).leases.at(0);
  ASSERT_EQ(lease.job.calibrate().ops_size(), 1);
  ASSERT_TRUE(store_->Report(Timed(lease, 10, 50), 301).ok());
  const Store::Calibration whole = **store_->GetCalibration(id);
  EXPECT_EQ(Times(whole), (Pairs{{3, 30}, {1, 1}, {2, 2}}));
  EXPECT_EQ(whole.reused_ops, 2);
  EXPECT_EQ(whole.result.device_overhead_bytes(), 100);
  EXPECT_EQ(Times(Find(key, Spec({1, 2, 3}))), (Pairs{{1, 1}, {2, 2}, {3, 30}}));
  EXPECT_EQ(Find(key, Spec({3})).result.device_overhead_bytes(), 50);
}

// Of a calibration that is stopped, what its worker has said remains: for its own next attempt, and for other
// studies.
TEST_P(StoreCalibrationSuite, NextAttemptLeavesOutWhatWasTimed) {
  const v1::Inventory inventory = Gpus(2);
  WorkerSession worker = Add("a", inventory);
  const OpTimesKey key = KeyOf(inventory, 2);
  v1::CalibrateSpec spec = Spec({1, 2, 3});
  v1::OpDesc& sum = *spec.add_ops();
  sum.set_kind("all_reduce_sum");
  sum.set_group("tensor");
  sum.set_group_size(2);
  sum.add_dims(4);
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(spec, 2), 3, {}).ok());
  const Lease first = GiveOut({worker}, {}, now_).leases.at(0);
  EXPECT_EQ(first.job.calibrate().ops_size(), 4);
  v1::CalibrateResult timed = Timed(first, 1, 50).calibration();
  timed.mutable_ops()->erase(timed.ops().begin() + 2);  // 3 is not timed yet
  ASSERT_TRUE(store_->KeepTimedOps(first.lease_id, first.fencing_token, timed, now_ + 1).ok());
  EXPECT_EQ(Times(Find(key, spec)), (Pairs{{1, 1}, {2, 2}})) << "communication is timed in one calibration";
  EXPECT_FALSE((*store_->GetCalibration(id)).has_value());

  // Its worker begins anew, as after a kill -9.
  worker = Add("a", inventory);
  const Lease second = GiveOut({worker}, {}, now_ + 2).leases.at(0);
  EXPECT_EQ(second.attempt, 2);
  ASSERT_EQ(second.job.calibrate().ops_size(), 2);
  EXPECT_EQ(second.job.calibrate().ops(0).dims(0), 3);
  EXPECT_EQ(second.job.calibrate().ops(1).kind(), "all_reduce_sum");
  ASSERT_TRUE(store_->Report(Timed(second, 10, 80), now_ + 3).ok());
  const Store::Calibration whole = **store_->GetCalibration(id);
  EXPECT_EQ(Times(whole), (Pairs{{3, 30}, {4, 40}, {1, 1}, {2, 2}}));
  EXPECT_EQ(whole.reused_ops, 2);
  EXPECT_EQ(whole.result.device_overhead_bytes(), 80);
}

TEST_P(StoreCalibrationSuite, ANextAttemptElsewhereTimesAll) {
  const WorkerSession worker = Add("a", Gpus(2));
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(Spec({1, 2}), 2), 3, {}).ok());
  const Lease first = GiveOut({worker}, {}, now_).leases.at(0);
  const v1::CalibrateResult timed = Timed(first, 1, 50).calibration();
  ASSERT_TRUE(store_->KeepTimedOps(first.lease_id, first.fencing_token, timed, now_ + 1).ok());
  // One op is left for the result, which has the memory beside the tensors.
  const Lease again = GiveOut({Add("a", Gpus(2))}, {}, now_ + 2).leases.at(0);
  EXPECT_EQ(again.job.calibrate().ops_size(), 1);
  // Another build times every op itself, also those that were left out before.
  const Lease other = GiveOut({Add("a", Gpus(2, "0.1.0+def"))}, {}, now_ + 3).leases.at(0);
  EXPECT_EQ(other.job.calibrate().ops_size(), 2);
  ASSERT_TRUE(store_->Report(Timed(other, 7, 80), now_ + 4).ok());
  const Store::Calibration whole = **store_->GetCalibration(id);
  std::set<std::pair<int, double>> times;
  for (const auto& time : Times(whole)) times.insert(time);
  EXPECT_EQ(times, (std::set<std::pair<int, double>>{{1, 7}, {2, 14}}));
  EXPECT_EQ(whole.reused_ops, 0);
}

TEST_P(StoreCalibrationSuite, TimedOpsAreThoseOfAHeldCalibration) {
  const WorkerSession worker = Add("a", Gpus(2));
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(Spec({1}), 2), 3, {}).ok());
  const Lease lease = GiveOut({worker}, {}, now_).leases.at(0);
  v1::CalibrateResult timed = Timed(lease, 1, 0).calibration();
  EXPECT_EQ(store_->KeepTimedOps(lease.lease_id, lease.fencing_token + 1, timed, now_).code(),
            absl::StatusCode::kFailedPrecondition);
  *timed.mutable_ops(0)->mutable_op() = Op(9);
  EXPECT_EQ(store_->KeepTimedOps(lease.lease_id, lease.fencing_token, timed, now_).code(),
            absl::StatusCode::kInvalidArgument)
      << "the job does not ask for it";
  EXPECT_TRUE(Times(Find(KeyOf(Gpus(2), 2), Spec({1, 9}))).empty());
  const std::int64_t trial = NewRunning();
  v1::Job train = TrainJob();
  train.set_device("cuda");
  EnqueueJob(trial, "tp=1", train);
  const Lease of_trial = GiveOut({Add("b", Gpus(4))}, {}, now_).leases.at(0);
  EXPECT_EQ(store_->KeepTimedOps(of_trial.lease_id, of_trial.fencing_token, timed, now_).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(StoreCalibrationSuite, TimedOpsOfSharesAreNotKept) {
  const WorkerSession a = Add("a", Gpus(1));
  const WorkerSession b = Add("b", Gpus(1));
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(Spec({1}), 2), 3, {}).ok());
  const Assignment given = GiveOut({a, b}, {}, now_);
  ASSERT_EQ(given.leases.size(), 2u);
  const Lease& lease = given.leases.front();
  EXPECT_TRUE(
      store_->KeepTimedOps(lease.lease_id, lease.fencing_token, Timed(lease, 1, 0).calibration(), now_).ok());
  const std::vector<MachineShare> shares = {{Gpus(1), 1}, {Gpus(1), 1}};
  EXPECT_TRUE(Times(Find(*OpTimesKeyOf(shares, false), Spec({1}))).empty());
}

TEST_P(StoreCalibrationSuite, NoJobIfAllTimesAreReused) {
  const std::int64_t id = NewRunning();
  Store::Calibration reused;
  *reused.result.add_ops()->mutable_op() = Op(1);
  reused.result.mutable_ops(0)->set_seconds(4);
  reused.result.set_device_overhead_bytes(9);
  reused.reused_ops = 1;
  const std::int64_t cursor = Cursor(id);
  ASSERT_TRUE(store_->ReuseCalibration(id, reused).ok());
  EXPECT_GT(Cursor(id), cursor);
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_UNSPECIFIED);
  reused.result.mutable_ops(0)->set_seconds(5);
  ASSERT_TRUE(store_->ReuseCalibration(id, reused).ok());
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(Spec({1}), 1), 2, {}).ok());
  EXPECT_TRUE(GiveOut({Add("a", Gpus(1))}).leases.empty());
  const Store::Calibration kept = **store_->GetCalibration(id);
  EXPECT_EQ(Times(kept), (Pairs{{1, 4}})) << "it has one";
  EXPECT_EQ(kept.reused_ops, 1);
  EXPECT_EQ(kept.result.device_overhead_bytes(), 9);
  const std::int64_t ended = NewRunning();
  SetState(ended, v1::STUDY_STATE_CANCELLED);
  EXPECT_EQ(store_->ReuseCalibration(ended, reused).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->ReuseCalibration(12345, reused).code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreCalibrationSuite, DroppedCalibrationIsMeasuredAgain) {
  const WorkerSession worker = Add("a", Gpus(2));
  const std::int64_t id = Calibrate(GpuJob(Spec({1}), 1), {worker});
  const double used_s = store_->Usage(id)->device_s;
  ASSERT_TRUE(store_->DropCalibration(id).ok());
  ASSERT_TRUE(store_->DropCalibration(id).ok());
  EXPECT_FALSE((*store_->GetCalibration(id)).has_value());
  EXPECT_TRUE(GiveOut({worker}, {}, 300).leases.empty());
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(Spec({2, 3}), 2), 2, {}).ok());
  ASSERT_TRUE(store_->EnqueueCalibration(id, GpuJob(Spec({4}), 2), 2, {}).ok()) << "it is queued";
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_QUEUED);
  const Lease lease = GiveOut({worker}, {}, 301).leases.at(0);
  EXPECT_EQ(lease.attempt, 2);
  EXPECT_EQ(lease.ranks, 2);
  ASSERT_EQ(lease.job.calibrate().ops_size(), 2);
  ASSERT_TRUE(store_->Report(Timed(lease, 1, 0), 302).ok());
  EXPECT_EQ(Times(**store_->GetCalibration(id)), (Pairs{{2, 2}, {3, 3}}));
  EXPECT_GT(store_->Usage(id)->device_s, used_s) << "what was used stays used";
  EXPECT_EQ(store_->DropCalibration(12345).code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, LostCalibrationIsRequeuedWithAllAttempts) {
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  const std::int64_t epoch = Register();
  const auto lose = [&] {
    Take(epoch);
    ASSERT_EQ(store_->ExpireLeases(300)->size(), 1u);
  };
  lose();
  lose();
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_LOST);
  EXPECT_FALSE(Take(epoch));
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_QUEUED);
  lose();
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_QUEUED);
  lose();
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_LOST);
  // A failed calibration stays failed.
  const std::int64_t other = NewRunning("g");
  ASSERT_TRUE(store_->EnqueueCalibration(other, CalibrateJob(), 2, {}).ok());
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->Report(Ended(lease, epoch, "failed", v1::OUTCOME_FAILED, "no"), 201).ok());
  ASSERT_TRUE(store_->EnqueueCalibration(other, CalibrateJob(), 2, {}).ok());
  EXPECT_EQ(store_->CalibrationState(other)->first, v1::TRIAL_STATE_FAILED);
}

}  // namespace autocfg::server
