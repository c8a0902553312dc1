// A job of an engine, from its lease to its report: shell scripts in place of a framework.
#include "worker/jobs/engine_job.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/convert/trainer_convert.h"
#include "tests/cli/program.h"
#include "tests/worker/launch_helpers.h"
#include "worker/jobs/job_runner.h"
#include "worker/jobs/slots.h"

namespace autocfg::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

v1::Job EngineJob(const ParallelPlan& plan = ParallelPlan{{.dp = 2}}) {
  ModelSpec model;
  model.layers = 2;
  model.hidden = 32;
  model.heads = 2;
  model.vocab = 64;
  FillDefaults(model, 16);
  v1::Job job;
  job.set_name("studies/1/trials/1");
  job.set_ranks(static_cast<int>(RankCount(plan)));
  job.set_device("cpu");
  job.set_engine("toy");
  job.set_time_limit_s(60);
  *job.mutable_train() = MakeTrainSpec({model, {4, 16, *ParsePrecision("bf16")}, plan});
  job.mutable_train()->set_steps(4);
  job.mutable_train()->set_warmup_steps_untimed(2);
  return job;
}

class EngineJobTest : public testing::Test {
 protected:
  EngineJobTest() {
    inventory_.set_slots(4);
    inventory_.set_build_id("build");
    inventory_.set_device_fingerprint("some CPU");
    inventory_.set_hostname("here");
    inventory_.set_physical_cores(4);
  }
  // Offers an engine whose script gets the placeholders as its arguments.
  void Offer(const std::string& script, const std::vector<std::string>& more = {}, const char* start = "node",
             const char* format = "autocfg") {
    nlohmann::ordered_json json = {{"name", "toy"},
                                   {"version", "7"},
                                   {"format", format},
                                   {"start", start},
                                   {"command", {"/bin/sh", "-c", script, "sh"}},
                                   {"environment", {{"WORD", "{steps}+{warmup_steps}+{timed_steps}"}}},
                                   {"limits", {{"start_s", 20}}},
                                   {"log",
                                    {{"step", {{"pattern", "step (\\d+)"}}},
                                     {"step_time", {{"pattern", "time (\\d+)"}, {"unit", "ms"}}},
                                     {"loss", {{"pattern", "loss (\\S+)"}}},
                                     {"peak_memory", {{"pattern", "peak (\\d+)"}, {"unit", "B"}}}}}};
    for (const std::string& word : more) json["command"].push_back(word);
    auto engine = ParseEngineFile(json.dump(), home_.path());
    ASSERT_TRUE(engine.ok()) << engine.status();
    offer_.engines = {*std::move(engine)};
  }
  JobReport Run(const v1::Job& job, const v1::Share* share = nullptr, const LaunchHooks& hooks = {}) {
    v1::LeaseWorkResponse lease;
    *lease.mutable_job() = job;
    if (share != nullptr) *lease.mutable_share() = *share;
    std::vector<int> slots;
    for (int i = 0; i < SlotsToTake(lease, inventory_); ++i) slots.push_back(i);
    ProcessLauncher launcher("/no/trainer", FindSupervisor(), allowance_);
    return RunJob(lease, inventory_, {}, {0, 1, 2, 3}, slots, launcher, hooks, kGpuPatience, &offer_);
  }

  const ScratchDirectory home_;
  v1::Inventory inventory_;
  EngineOffer offer_;
  JobAllowance allowance_;
};

constexpr const char* kSteps =
    "for i in 1 2 3 4; do echo step $i time \"$i\"0 loss 4.$i peak \"$i\"000; done";

TEST_F(EngineJobTest, ACommandAboveTheAllowanceOfTheWorkerFails) {
  allowance_.processes = 2;
  Offer("for i in 1 2 3; do sleep 60 & done; wait");
  const JobReport report = Run(EngineJob());
  EXPECT_EQ(report.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(report.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(report.message, HasSubstr(" processes, above its limit of 2; start fewer"));
}

TEST_F(EngineJobTest, ReportsWhatTheLogSaysWithItsOrigin) {
  Offer(std::string(
            "test -s \"$1\" || exit 9; grep -q '\"dp\": 2' \"$1\" || exit 8; test \"$2\" = 2 || exit 7; "
            "test \"$WORD\" = 4+2+2 || exit 6; test \"$PWD/best.json\" = \"$1\" || exit 5; ") +
            kSteps,
        {"{file}", "{ranks}"});
  const JobReport report = Run(EngineJob());
  ASSERT_EQ(report.outcome, v1::OUTCOME_MEASURED) << report.message;
  ASSERT_TRUE(report.measurement);
  const v1::Measurement& m = *report.measurement;
  EXPECT_THAT(std::vector<double>(m.step_time_s().begin(), m.step_time_s().end()),
              ElementsAre(testing::DoubleEq(0.03), testing::DoubleEq(0.04)));
  EXPECT_DOUBLE_EQ(m.median_step_time_s(), 0.035);
  EXPECT_EQ(m.engine(), "toy");
  EXPECT_EQ(m.engine_version(), "7");
  EXPECT_EQ(m.build_id(), "build");
  EXPECT_EQ(m.device_fingerprint(), "some CPU");
  EXPECT_EQ(m.peak_memory_bytes(), 4000);
  EXPECT_DOUBLE_EQ(m.first_loss(), 4.1);
  EXPECT_DOUBLE_EQ(m.last_loss(), 4.4);
  EXPECT_GT(m.device_s(), 0);
  EXPECT_EQ(m.ranks_per_core(), 1);
}

TEST_F(EngineJobTest, ItsProcessesBelongToTheTraceOfTheJob) {
  Offer(std::string("case \"$TRACEPARENT\" in 00-4bf92f3577b34da6a3ce929d0e0e4736-*-01) ;; *) exit 9;; esac; "
                    "case \"$TRACEPARENT\" in *00f067aa0ba902b7*) exit 8;; esac; ") +
        kSteps);
  v1::Job job = EngineJob();
  job.set_trace_parent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  const JobReport report = Run(job);
  EXPECT_EQ(report.outcome, v1::OUTCOME_MEASURED) << report.message;
}

TEST_F(EngineJobTest, OncePerRankTheSlowestTells) {
  Offer(
      "echo \"$1 $2 $3\" >&2; echo step 3 time 1$2 loss $1 peak 1$1; echo step 4 time 2$2; test \"$3\" != 0",
      {"{rank}", "{local_rank}", "{master_port}"}, "rank");
  const JobReport report = Run(EngineJob());
  ASSERT_EQ(report.outcome, v1::OUTCOME_MEASURED) << report.message;
  EXPECT_THAT(report.measurement->step_time_s(),
              ElementsAre(testing::DoubleEq(0.011), testing::DoubleEq(0.021)));
  EXPECT_EQ(report.measurement->peak_memory_bytes(), 11);
}

TEST_F(EngineJobTest, FlagsBecomeArguments) {
  Offer(
      "echo \"$@\" >\"$0\"; while test \"$1\" != --global-batch-size; do shift; done; test \"$2\" = 4 || "
      "exit 3; " +
          std::string(kSteps),
      {}, "node", "megatron");
  offer_.engines[0].command[3] = home_ / "words";
  offer_.engines[0].command.emplace_back("{arguments}");
  const JobReport report = Run(EngineJob());
  EXPECT_EQ(report.outcome, v1::OUTCOME_MEASURED) << report.message << report.log;
  EXPECT_THAT(ReadWhole(home_ / "words"), AllOf(HasSubstr("--num-layers 2 "), testing::Not(HasSubstr("#"))));
}

// What a coordinator sends must not become more than the plan: a name that breaks out of its comment would be
// a flag of the framework.
TEST_F(EngineJobTest, ANameCannotBecomeAFlag) {
  Offer("for word; do test \"$word\" != --load || exit 3; done; grep -q '^--load' megatron.args && exit 4; " +
            std::string(kSteps),
        {"{arguments}"}, "node", "megatron");
  v1::Job job = EngineJob();
  job.mutable_train()->mutable_model()->set_name("x\n--load /evil");
  JobReport report = Run(job);
  EXPECT_EQ(report.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(report.message, HasSubstr("name has a control character"));
  job.mutable_train()->mutable_model()->set_name("x --load /evil");
  report = Run(job);
  EXPECT_EQ(report.outcome, v1::OUTCOME_MEASURED) << report.message << report.log;
  job.mutable_train()->mutable_model()->set_rope_scaling("x\n--load");
  EXPECT_EQ(Run(job).outcome, v1::OUTCOME_FAILED);
  job = EngineJob();
  job.mutable_train()->mutable_model()->set_layers(-1);
  EXPECT_EQ(Run(job).failure, v1::FAILURE_KIND_OWN);
}

TEST_F(EngineJobTest, WhatItCannotExpressFailsByName) {
  Offer(kSteps, {}, "node", "torchtitan");
  const JobReport report = Run(EngineJob());
  EXPECT_EQ(report.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(report.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(report.message, HasSubstr("engine toy: torchtitan cannot express"));
}

TEST_F(EngineJobTest, ALogWithoutStepsFailsWithItsEnd) {
  Offer("echo nothing to see");
  const JobReport report = Run(EngineJob());
  EXPECT_EQ(report.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(report.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(report.message,
              AllOf(HasSubstr("its log tells of no timed step"), HasSubstr("nothing to see")));
  EXPECT_EQ(report.log, "nothing to see\n");
  EXPECT_THAT(report.message, Not(HasSubstr("autocfg trials"))) << "who shows it says how to see the log";
}

TEST_F(EngineJobTest, ALogOfTooFewStepsSaysHowManyAreNeeded) {
  Offer("echo step 1 time 1; echo step 2 time 1");
  EXPECT_THAT(Run(EngineJob()).message,
              HasSubstr("its log tells of no timed step: it tells of 2 steps, and the first 2 are not timed; "
                        "have it take {steps} steps, here 4; last line: step 2 time 1"));
  Offer("for i in 1 2 3 4; do echo step $i time 0; done");
  EXPECT_THAT(Run(EngineJob()).message, HasSubstr("no timed step: 4 times or rates that it tells of are 0"));
}

TEST_F(EngineJobTest, AFailureBringsTheEndOfTheLog) {
  Offer("echo some words; echo the last words; exit 3", {}, "rank");
  const JobReport report = Run(EngineJob());
  EXPECT_EQ(report.outcome, v1::OUTCOME_FAILED);
  EXPECT_THAT(report.message, HasSubstr("exit status 3: the last words"));
  EXPECT_THAT(report.log, AllOf(HasSubstr("rank 0:\nsome words\nthe last words\n"), HasSubstr("rank 1:\n")));
}

TEST_F(EngineJobTest, AnEngineThatIsNotOfferedIsRefused) {
  Offer(kSteps);
  v1::Job job = EngineJob();
  for (const char* name : {"other", "../toy", "/bin/sh"}) {
    job.set_engine(name);
    const JobReport report = Run(job);
    EXPECT_EQ(report.outcome, v1::OUTCOME_REFUSED);
    EXPECT_THAT(report.message, HasSubstr("does not offer engine"));
  }
  job.set_engine("toy");
  job.mutable_train()->mutable_slice();
  EXPECT_THAT(Run(job).message, HasSubstr("whole plans alone"));
  job.mutable_calibrate();
  EXPECT_EQ(Run(job).outcome, v1::OUTCOME_FAILED);
}

// Two shares on two threads, with a rendezvous between them: each is a node of its own.
TEST_F(EngineJobTest, SharesAgreeOnTheFirstNodesAddress) {
  Offer("echo \"node $1 of $2 at $3:$4 from $5, $6 here\" >\"$7/node$1\"; test $1 = 0 || { " +
            std::string(kSteps) + "; }",
        {"{node_rank}", "{nodes}", "{master_address}", "{master_port}", "{first_rank}", "{ranks_per_node}",
         home_.path()});
  offer_.address = "10.1.2.3";
  absl::Mutex mutex;
  std::vector<std::string> cards;
  const auto hook = [&](const std::string&, std::int64_t,
                        const std::vector<std::string>& values) -> absl::StatusOr<std::vector<std::string>> {
    absl::MutexLock lock(&mutex);
    cards.insert(values.front().find("\"first_rank\":0") != std::string::npos ? cards.begin() : cards.end(),
                 values.begin(), values.end());
    mutex.Await(absl::Condition(
        +[](std::vector<std::string>* all) { return all->size() == 3; }, &cards));
    return cards;
  };
  LaunchHooks hooks;
  hooks.exchange = {.run = hook, .cancel = [] {}};
  const v1::Job job = EngineJob(ParallelPlan{{.dp = 4}});
  v1::Job three = job;
  three.set_ranks(3);
  v1::Share first, second;
  first.set_ranks(2);
  second.set_first_rank(2);
  second.set_ranks(1);
  JobReport one;
  std::thread other([&] { one = Run(three, &first, hooks); });
  const JobReport two = Run(three, &second, hooks);
  other.join();
  EXPECT_EQ(one.outcome, v1::OUTCOME_MEASURED) << one.message;
  ASSERT_TRUE(one.measurement);
  EXPECT_EQ(one.measurement->step_time_s_size(), 0) << "the other's log tells";
  EXPECT_EQ(two.outcome, v1::OUTCOME_MEASURED) << two.message;
  EXPECT_EQ(two.measurement->step_time_s_size(), 2);
  EXPECT_THAT(ReadWhole(home_ / "node0"),
              AllOf(HasSubstr("node 0 of 2 at 10.1.2.3:"), HasSubstr("from 0, 2 here")));
  const std::string there = ReadWhole(home_ / "node1");
  EXPECT_THAT(there, HasSubstr("from 2, 1 here"));
  const std::string where = " at " + there.substr(there.find("10.1.2.3:"), 14);
  EXPECT_THAT(ReadWhole(home_ / "node0"), HasSubstr(where)) << "the same port";
}

TEST_F(EngineJobTest, AShareWhoseOthersDoNotComeFailsAsTheirPeer) {
  Offer(kSteps);
  LaunchHooks hooks;
  hooks.exchange = {.run =
                        [](const std::string&, std::int64_t, const std::vector<std::string>&) {
                          return absl::StatusOr<std::vector<std::string>>(
                              absl::DeadlineExceededError("1 of 2 shares did not join"));
                        },
                    .cancel = [] {}};
  v1::Share share;
  share.set_ranks(1);
  const JobReport report = Run(EngineJob(), &share, hooks);
  EXPECT_EQ(report.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(report.failure, v1::FAILURE_KIND_PEER);
  EXPECT_THAT(report.message, HasSubstr("did not join"));
}

TEST_F(EngineJobTest, ACancelledJobEndsItsProcesses) {
  Offer("echo step 1 time 1; touch \"$1/started\"; sleep 60", {home_.path()});
  std::atomic<bool> cancel{false};
  LaunchHooks hooks;
  hooks.cancel = &cancel;
  std::thread cancels([&] {
    while (!std::filesystem::exists(home_ / "started"))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cancel = true;
  });
  const JobReport report = Run(EngineJob(), nullptr, hooks);
  cancels.join();
  EXPECT_EQ(report.outcome, v1::OUTCOME_CANCELLED);
}

}  // namespace
}  // namespace autocfg::worker
