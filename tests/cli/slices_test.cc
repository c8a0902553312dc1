// How the verbs that list and follow studies show a plan of which a slice was measured: its time is no step
// time of the plan.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/cli/program.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;

class MeasuredSliceTest : public testing::TestWithParam<bool> {
 protected:
  // Makes the database of a study that has ended: its best plan was measured, as a whole or as a slice.
  void SetUp() override {
    const bool slice = GetParam();
    const auto opened = server::OpenSqliteStore(database_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    server::Store& store = **opened;
    v1::Study unnamed;  // as a program on the API makes it
    v1::SearchSpec& spec = *unnamed.mutable_spec();
    spec.mutable_model()->set_layers(2);
    spec.mutable_model()->set_hidden(64);
    spec.mutable_cluster()->set_local(true);
    v1::NodeGroup& group = *spec.mutable_cluster()->add_groups();
    group.set_nodes(1);
    group.set_gpus_per_node(4);
    group.mutable_device()->set_kind("cpu");
    auto study = store.CreateStudy("", unnamed, 100);
    ASSERT_TRUE(study.ok()) << study.status();
    const std::int64_t id = *server::ParseStudyName(study->name());
    ASSERT_TRUE(server::SetStudyState(store, id, v1::STUDY_STATE_RUNNING).ok());

    v1::Trial trial;
    *trial.mutable_plan() = ToProto(*ParsePlanText(kPlan));
    trial.set_plan_text(kPlan);
    v1::Job job;
    job.set_ranks(1);
    job.set_device("cpu");
    job.mutable_train()->set_steps(2);
    job.mutable_train()->set_warmup_steps_untimed(1);
    if (slice) job.mutable_train()->mutable_slice();
    ASSERT_TRUE(store.EnqueueTrial(id, trial, job, 1).ok());
    v1::RegisterWorkerRequest worker;
    worker.set_worker("workers/a");
    worker.set_boot_id("boot");
    worker.mutable_inventory()->set_slots(1);
    worker.mutable_inventory()->set_device_kind("cpu");
    const auto epoch = store.RegisterWorker(worker, 100);
    ASSERT_TRUE(epoch.ok()) << epoch.status();
    const auto leased = store.LeaseJobs({{"workers/a", *epoch}}, {{"workers/a", *epoch}}, 100, 10);
    ASSERT_TRUE(leased.ok()) << leased.status();
    ASSERT_EQ(leased->leases.size(), 1u);

    v1::ReportTrialRequest report;
    report.set_worker("workers/a");
    report.set_session_epoch(*epoch);
    report.set_lease_id(leased->leases[0].lease_id);
    report.set_fencing_token(leased->leases[0].fencing_token);
    report.set_attempt(leased->leases[0].attempt);
    report.set_request_id("report");
    report.set_outcome(v1::OUTCOME_MEASURED);
    report.mutable_measurement()->add_step_time_s(0.25);
    report.mutable_measurement()->set_slice(slice);
    const absl::Status reported = store.Report(report, 101);
    ASSERT_TRUE(reported.ok()) << reported;

    study = store.GetStudy(id);
    ASSERT_TRUE(study.ok()) << study.status();
    const auto measured = store.GetTrial(id, 1);
    ASSERT_TRUE(measured.ok()) << measured.status();
    ASSERT_TRUE(measured->has_measured());
    study->mutable_best()->set_plan_text(kPlan);
    *study->mutable_best()->mutable_plan() = trial.plan();
    *study->mutable_best()->mutable_measured() = measured->measured();
    study->set_state(v1::STUDY_STATE_DONE);
    const absl::Status written = server::ReplaceStudy(store, *study);
    ASSERT_TRUE(written.ok()) << written;
  }

  // Returns the output of `autocfg VERB --db ... ARGS`.
  std::string Output(const std::string& verb, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {verb, "--db", database_};
    args.insert(args.end(), more.begin(), more.end());
    const Finished finished = RunAutocfg(home_, args);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.out;
  }
  // Returns `text` with the mark of a slice behind it if a slice was measured.
  static std::string Marked(const std::string& text) {
    return text + (GetParam() ? " (the slice)" : "") + "  ";
  }

  static constexpr const char* kPlan = "tp=1,pp=1,dp=2,mbs=1";
  const ScratchDirectory home_;
  const std::string database_ = home_ / "slices.db";
};

INSTANTIATE_TEST_SUITE_P(Verbs, MeasuredSliceTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Slice" : "Whole"; });

TEST_P(MeasuredSliceTest, Studies) {
  const std::string text = Output("studies");
  EXPECT_NE(text.find(std::string("  250 ms") + (GetParam() ? " (the slice)" : "") + "\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find(kPlan), std::string::npos) << text;
  EXPECT_NE(text.find("a model of 2 layers, hidden 64 on local, 1x4 cpu, "), std::string::npos) << text;
  const Json best = Json::parse(Output("studies", {"--json"})).at(0).at("best");
  EXPECT_EQ(best["slice"], GetParam());
  EXPECT_EQ(best["provenance"], GetParam() ? "predicted" : "measured");
}

TEST_P(MeasuredSliceTest, Trials) {
  const std::string text = Output("trials");
  EXPECT_NE(text.find(Marked("250 ms +- 250 ms")), std::string::npos) << text;
  EXPECT_EQ(Json::parse(Output("trials", {"--json"})).at(0).at("measured").at("slice"), GetParam());
}

TEST_P(MeasuredSliceTest, Watch) {
  const std::string text = Output("watch");
  EXPECT_NE(text.find(Marked("250 ms +- 250 ms (measured)") + "tp=1"), std::string::npos) << text;
  const Json best = Json::parse(Output("watch", {"--json"})).at("best");
  EXPECT_EQ(best["slice"], GetParam());
  EXPECT_EQ(best["provenance"], GetParam() ? "predicted" : "measured");
}

}  // namespace
}  // namespace autocfg::cli
