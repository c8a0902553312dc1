// Searches of described clusters, as a user sees them: by prediction, emulated, and by slices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/plan/plan_options.h"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class DescribedSearchTest : public testing::Test {
 protected:
  Finished Search(std::vector<std::string> more) const {
    std::vector<std::string> args = {"search", "--db", home_ / "search.db"};
    args.insert(args.end(), more.begin(), more.end());
    return RunAutocfg(home_, args);
  }

  const ScratchDirectory home_;
};

TEST_F(DescribedSearchTest, PredictOnlyNeedsNoHardware) {
  const std::vector<std::string> question = {"--predict-only", "--model",        "llama2-7b", "--cluster",
                                             "h100-sxm:2x8",   "--global-batch", "64"};
  const auto best_file = home_ / "best.json";
  auto args = question;
  args.insert(args.end(), {"--json", "--output", best_file});
  const auto finished = Search(args);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer, Json::parse(ReadWhole(best_file)));
  EXPECT_EQ(answer["best"]["provenance"], "predicted");
  EXPECT_EQ(answer["best"]["measured"], nullptr);
  EXPECT_EQ(answer["device"], nullptr);
  const auto& counts = answer["counts"];
  EXPECT_EQ(counts["enumerated"], counts["illegal"].get<int>() + counts["out_of_memory"].get<int>() +
                                      counts["predicted"].get<int>());
  EXPECT_GT(counts["predicted"], 0);
  EXPECT_EQ(counts["measured"], 0);
  EXPECT_EQ(answer["search"]["device_s"], 0);

  // The prediction of the best plan equals that of `predict`, including the interval.
  const auto predicted =
      RunAutocfg(home_, {"predict", "--model", "llama2-7b", "--cluster", "h100-sxm:2x8", "--global-batch",
                         "64", "--plan", answer["best"]["plan_text"], "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const Json alone = Json::parse(predicted.out);
  for (const char* key :
       {"step_time_s", "step_time_low_s", "step_time_high_s", "tokens_per_s_per_gpu", "mfu"}) {
    const double value = answer["best"]["predicted"][key];
    EXPECT_NEAR(value, alone[key].get<double>(), 1e-6 * value) << key;
  }
  EXPECT_EQ(answer["best"]["predicted"]["memory_bytes"], alone["memory_bytes"]);

  const auto text = Search(question);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, testing::Not(HasSubstr("measur")));
  EXPECT_THAT(text.out, HasSubstr("next: " + BuildPath("bin/autocfg explain")));
}

// A coordinator without workers predicts too, without asking any.
TEST_F(DescribedSearchTest, PredictOnlyNeedsNoWorkers) {
  const std::string address = "unix:" + home_ / "head.sock";
  const ProgramProcess server(home_, {"--listen", address, "--db", home_ / "head.db"}, "/dev/null",
                              "autocfg-server");
  for (int i = 0; i < 1000 && server.err_so_far().find("listening on ") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto ask = [&](const std::string& cluster) {
    return RunAutocfg(home_, {"search", "--coordinator", address, "--predict-only", "--model", "llama2-7b",
                              "--cluster", cluster, "--global-batch", "64", "--json"});
  };
  const auto finished = ask("h100-sxm:2x8");
  ASSERT_EQ(finished.exit_code, 0) << finished.err << server.err_so_far();
  const Json there = Json::parse(finished.out);
  EXPECT_EQ(there["best"]["provenance"], "predicted");
  EXPECT_EQ(there["device"], nullptr);
  const auto here = Search({"--predict-only", "--model", "llama2-7b", "--cluster", "h100-sxm:2x8",
                            "--global-batch", "64", "--json"});
  ASSERT_EQ(here.exit_code, 0) << here.err;
  EXPECT_EQ(there["best"], Json::parse(here.out)["best"]);
  // It is answered without the coordinator, which keeps a study of it only if it is asked to.
  EXPECT_EQ(there["study"], nullptr);
  const auto studies = [&] {
    return Json::parse(RunAutocfg(home_, {"studies", "--coordinator", address, "--json"}).out).size();
  };
  EXPECT_EQ(studies(), 0u);
  EXPECT_EQ(RunAutocfg(home_, {"search", "--coordinator", address, "--predict-only", "--save", "--model",
                               "llama2-7b", "--cluster", "h100-sxm:2x8", "--global-batch", "64"})
                .exit_code,
            0);
  EXPECT_EQ(studies(), 1u);
  // A local cluster needs a calibration by workers, so it is rejected without them.
  const auto local = ask("local");
  EXPECT_EQ(local.exit_code, 2) << local.err;
  EXPECT_THAT(local.err, HasSubstr("no worker offers cpu (it has no workers that take jobs)"));
}

// A prediction of the coordinator's own workers is a study there while it runs.
TEST_F(DescribedSearchTest, PredictionsOfWorkersLeaveNoStudy) {
  const std::string address = "unix:" + home_ / "head.sock";
  const ProgramProcess server(home_, {"--listen", address, "--db", home_ / "head.db"}, "/dev/null",
                              "autocfg-server");
  const ProgramProcess worker(home_, {"--coordinator", address, "--slots", "2"}, "/dev/null",
                              "autocfg-worker");
  const auto model = home_.Write(
      "model.json",
      R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})");
  const auto ask = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"search", "--coordinator", address, "--predict-only", "--cluster",
                                     "local",  "--model",       model,   "--global-batch", "4",
                                     "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return RunAutocfg(home_, args);
  };
  Finished first = ask({});
  for (int i = 0; i < 100 && first.exit_code != 0; ++i) {  // until both have started
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first = ask({});
  }
  ASSERT_EQ(first.exit_code, 0) << first.err << server.err_so_far() << worker.err_so_far();
  EXPECT_EQ(Json::parse(first.out)["study"], nullptr);
  const auto studies = [&] {
    return Json::parse(RunAutocfg(home_, {"studies", "--coordinator", address, "--json"}).out).size();
  };
  EXPECT_EQ(studies(), 0u);
  const Finished rejected = ask({"--rejected", home_ / "r.csv"});
  EXPECT_EQ(rejected.exit_code, 0) << rejected.err;
  EXPECT_TRUE(std::filesystem::exists(home_ / "r.csv"));
  EXPECT_EQ(studies(), 0u);
  const Finished saved = ask({"--save"});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  EXPECT_TRUE(Json::parse(saved.out)["study"].is_string());
  EXPECT_EQ(studies(), 1u);
}

// Returns the counts of the rows of a file of rejected plans, by reason.
Json RejectedRows(const std::string& path) {
  std::istringstream rows(ReadWhole(path));
  std::string row;
  std::getline(rows, row);
  EXPECT_THAT(row, testing::StartsWith("tp,pp,dp,micro_batch,"));
  Json counts = Json::object();
  while (std::getline(rows, row)) {
    std::istringstream fields(row);
    std::string field;
    for (std::size_t i = 0; i <= PlanOptions().size(); ++i) std::getline(fields, field, ',');
    counts[field] = counts.value(field, 0) + 1;
  }
  return counts;
}

// The file has a row for each plan that the answer counts, also where nothing fits.
TEST_F(DescribedSearchTest, RejectedPlansAreWritten) {
  for (const auto& [cluster, exit_code] : {std::pair("h100-sxm:1x8", 0), std::pair("h100-sxm:1x1", 1)}) {
    const auto finished =
        Search({"--predict-only", "--model", "llama2-7b", "--cluster", cluster, "--global-batch", "64",
                "--space", "recompute=none,full", "--space", "mbs=1,2", "--space", "zero=0,1", "--space",
                "tp=1,3", "--rejected", home_ / "rejected.csv", "--json"});
    ASSERT_EQ(finished.exit_code, exit_code) << finished.err;
    const Json answer = Json::parse(finished.out);
    EXPECT_EQ(RejectedRows(home_ / "rejected.csv"), answer["rejected"]);
    EXPECT_GT(answer["rejected"]["out_of_memory"], 0);
    EXPECT_EQ(answer["rejected"]["ranks_not_divisible"], 1);
  }
}

// A tighter margin leaves fewer plans.
TEST_F(DescribedSearchTest, PlansLeaveTheMemoryMargin) {
  const auto with = [&](const std::string& margin) {
    const auto finished = Search({"--predict-only", "--model", "llama2-7b", "--cluster", "h100-sxm:1x8",
                                  "--global-batch", "64", "--space", "recompute=none,full", "--space",
                                  "mbs=1,2,4", "--memory-margin", margin, "--json"});
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return Json::parse(finished.out);
  };
  const Json none = with("0"), half = with("50%");
  EXPECT_EQ(none["memory_margin"], 0);
  EXPECT_EQ(half["memory_margin"], 0.5);
  EXPECT_LT(half["counts"]["predicted"], none["counts"]["predicted"]);
  EXPECT_EQ(half["counts"]["enumerated"], none["counts"]["enumerated"]);
  const auto& memory = half["best"]["predicted"]["memory_bytes"];
  EXPECT_LE(memory["total"].get<double>(), 0.5 * memory["capacity"].get<double>());
}

// The reasons are consistent with the answer's plans.
TEST_F(DescribedSearchTest, SaysWhyTheBestPlanIsTheBest) {
  const auto finished = Search({"--predict-only", "--model", "llama2-7b", "--cluster", "h100-sxm:2x8",
                                "--global-batch", "64", "--space", "recompute=none,full", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  const double best_s = answer["best"]["predicted"]["step_time_s"];
  const Json& why = answer["why"];
  EXPECT_EQ(why["runner_up"]["plan"], answer["runners_up"][0]["plan"]);
  EXPECT_NEAR(why["lead"].get<double>(), why["runner_up"]["step_time_s"].get<double>() / best_s - 1, 1e-12);
  EXPECT_GE(why["lead"], 0);
  const Json& most = why["matters_most"];
  EXPECT_GE(most["costs"].get<double>(), why["lead"].get<double>() - 1e-9);
  EXPECT_THAT(most["because"].get<std::string>(), HasSubstr(most["option"].get<std::string>() + "="));
  const auto alternative = RunAutocfg(home_, {"predict", "--model", "llama2-7b", "--cluster", "h100-sxm:2x8",
                                              "--global-batch", "64", "--plan", most["plan_text"], "--json"});
  ASSERT_EQ(alternative.exit_code, 0) << alternative.err;
  EXPECT_NEAR(Json::parse(alternative.out)["step_time_s"].get<double>() / best_s - 1,
              most["costs"].get<double>(), 1e-3);

  const Json& front = answer["pareto_memory"];
  ASSERT_GT(front.size(), 3u);
  EXPECT_LE(front.size(), 20u);
  EXPECT_EQ(front[0]["step_time_s"], best_s);
  for (std::size_t i = 1; i < front.size(); ++i) {
    EXPECT_GT(front[i]["step_time_s"], front[i - 1]["step_time_s"]);
    EXPECT_LT(front[i]["total_memory_bytes"], front[i - 1]["total_memory_bytes"]);
  }
}

TEST_F(DescribedSearchTest, PredictOnlyOfThisMachineCalibratesOnly) {
  const auto model = home_.Write(
      "model.json",
      R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})");
  const auto finished =
      Search({"--predict-only", "--model", model, "--cluster", "local:1x2", "--global-batch", "4", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["best"]["provenance"], "predicted");
  EXPECT_GT(answer["best"]["predicted"]["step_time_s"], 0);
  EXPECT_EQ(answer["counts"]["measured"], 0);
}

// Assumptions and caveats are also in the JSON answer.
TEST_F(DescribedSearchTest, NotesAreInTheAnswer) {
  const auto model = home_.Write(
      "model.json",
      R"({"name": "scaled", "layers": 2, "hidden": 64, "heads": 2, "vocab": 128, "max_seq_len": 16,
      "position": "rope", "rope_scaling": "llama3"})");
  const auto cluster = home_.Write(
      "cluster.json", R"({"device": {"name": "toy", "memory_bytes": 80000000000, "memory_bytes_per_s": 1e12,
      "flops_per_s": {"fp32": 1e13}}, "nodes": 1, "gpus_per_node": 2, "intra_node_bytes_per_s": 1e11})");
  const auto finished =
      Search({"--predict-only", "--model", model, "--cluster", cluster, "--global-batch", "4", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["search"]["stopped"], nullptr);
  for (const char* part : {"toy is taken for a CPU", "a100-80gb-sxm are assumed",
                           "rope_scaling llama3 changes neither time nor memory"}) {
    EXPECT_THAT(answer["notes"].dump(), HasSubstr(part));
    EXPECT_THAT(finished.err, HasSubstr(part));
  }
}

TEST_F(DescribedSearchTest, NothingFitsWithoutHardware) {
  const auto finished = Search(
      {"--predict-only", "--model", "gpt3-175b", "--cluster", "v100-32gb-sxm:1x8", "--global-batch", "8"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.err, HasSubstr("nothing fits"));
  EXPECT_THAT(finished.err, HasSubstr("note: predicted in fp16, since v100-32gb-sxm has no bf16"));
}

TEST_F(DescribedSearchTest, PacedSearchOf64Ranks) {
  const auto cluster =
      home_.Write("cluster.json",
                  R"({"name": "eight nodes", "device": "a100-80gb-sxm", "nodes": 8, "gpus_per_node": 8})");
  const auto finished =
      Search({"--device", "paced", "--model", "gpt2-124m", "--cluster", cluster, "--global-batch", "64",
              "--max-trials", "2", "--space", "mbs=1", "--json", "--output", home_ / "best.json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["best"]["provenance"], "measured");
  EXPECT_EQ(answer["best"]["measured"]["emulated"], true);
  EXPECT_EQ(answer["workload"]["precision"], "bf16");
  const auto& plan = answer["best"]["plan"];
  EXPECT_EQ(plan["tp"].get<int>() * plan["pp"].get<int>() * plan["dp"].get<int>(), 64);
  const double predicted = answer["best"]["predicted"]["step_time_s"];
  EXPECT_NEAR(answer["best"]["measured"]["step_time_s"].get<double>(), predicted, 0.05 * predicted);
  // On a virtual clock, the recorded step is like every other.
  double parts_s = 0;
  for (const auto& [part, seconds] : answer["best"]["measured"]["breakdown_s"].items())
    parts_s += seconds.get<double>();
  const double measured = answer["best"]["measured"]["step_time_s"];
  EXPECT_NEAR(parts_s, measured, 1e-9 * measured);
  const Json compute = answer["best"]["predicted"]["breakdown_s"]["compute"];
  EXPECT_NEAR(answer["best"]["measured"]["breakdown_s"]["compute"].get<double>(), compute.get<double>(),
              0.05 * predicted);
  // The plan runs from the file on the same cluster.
  const auto ran = RunAutocfg(
      home_, {"train", "--input", home_ / "best.json", "--steps", "2", "--device", "paced", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["cluster"], "eight nodes");
}

TEST_F(DescribedSearchTest, LargerPlansAreMeasuredBySlices) {
  const auto model = home_.Write(
      "model.json",
      R"({"name": "smallest", "layers": 4, "hidden": 64, "heads": 4, "vocab": 128, "max_seq_len": 32})");
  const auto cluster = home_.Write(
      "cluster.json",
      R"({"name": "two of these", "device": {"name": "cpu", "kind": "cpu", "memory_bytes": 1000000000},
      "nodes": 4, "gpus_per_node": 1, "inter_node_bytes_per_s": 1e9, "inter_node_latency_s": 1e-5})");
  const auto finished =
      Search({"--model", model, "--cluster", cluster, "--global-batch", "16", "--max-trials", "3", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("of larger plans, one rank alone is measured: a slice"));
  EXPECT_THAT(finished.err, HasSubstr("of a100-80gb-sxm are assumed: efficiency.inter_node 0.8"));
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["counts"]["measured"], 3);
  EXPECT_EQ(answer["best"]["provenance"], "predicted") << "what a slice took is no step time of the plan";
  if (answer["best"]["measured"] != nullptr) {
    EXPECT_EQ(answer["best"]["measured"]["slice"], true) << answer["best"];
  }
  double last = answer["best"]["predicted"]["step_time_s"];
  ASSERT_FALSE(answer["runners_up"].empty());
  for (const Json& other : answer["runners_up"]) {
    EXPECT_EQ(other["provenance"], "predicted");
    const double seconds = other["predicted"]["step_time_s"];
    EXPECT_GE(seconds, last * (1 - 1e-9)) << other["plan_text"];
    last = seconds;
  }
}

// The answer says that the search was cut short, since a better plan may exist.
TEST_F(DescribedSearchTest, StopsAtMaxTrials) {
  const auto model = home_.Write(
      "model.json",
      R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})");
  const auto finished = Search({"--model", model, "--cluster", "local:1x2", "--global-batch", "4",
                                "--exhaustive", "--max-trials", "1", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["search"]["stopped"], "max_trials");
  EXPECT_EQ(answer["search"]["plans_left"], answer["counts"]["predicted"].get<int>() - 1);
  EXPECT_THAT(finished.err, HasSubstr("note: --max-trials 1 ended the search with "));
  EXPECT_THAT(answer["notes"].dump(), HasSubstr("--max-trials 1 ended the search with "));
}

// With more ranks per node than this machine has cores, no more copies of a slice run than there are cores.
// More would measure their contention.
TEST_F(DescribedSearchTest, SlicesDoNotExceedTheCores) {
  const std::size_t cores = worker::PhysicalCores().size();
  const auto model = home_.Write(
      "model.json",
      R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})");
  const auto cluster = home_.Write(
      "cluster.json",
      fmt::format(
          R"({{"device": {{"name": "cpu", "kind": "cpu", "memory_bytes": 1000000000}}, "nodes": 2, "gpus_per_node": {},
      "intra_node_bytes_per_s": 1e10, "intra_node_latency_s": 1e-6, "inter_node_bytes_per_s": 1e9, "inter_node_latency_s": 1e-5}})",
          2 * cores));
  const auto finished = Search({"--model", model, "--cluster", cluster, "--global-batch",
                                fmt::to_string(8 * cores), "--max-trials", "1", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr(fmt::format("in place of a node's {}", 2 * cores)));
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["counts"]["measured"], 1);
  std::vector<Json> listed = answer["runners_up"];
  listed.push_back(answer["best"]);
  for (const Json& candidate : listed) {
    if (candidate["measured"] != nullptr) {
      EXPECT_EQ(candidate["measured"]["ranks_per_core"], 1) << candidate;
    }
  }
}

TEST_F(DescribedSearchTest, RejectsUnsupportedClusters) {
  const auto says = [&](std::vector<std::string> args, int code, const char* part) {
    const auto finished = Search(std::move(args));
    EXPECT_EQ(finished.exit_code, code) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(part));
    EXPECT_EQ(finished.out, "");
  };
  const auto shared = home_.Write(
      "shared.json", R"({"device": "a100-80gb-sxm", "nodes": 1, "gpus_per_node": 2, "ranks_per_core": 4})");
  says(
      {"--predict-only", "--model", "gpt2-124m", "--cluster", shared, "--global-batch", "4"}, 2,
      "ranks_per_core is 4, but each rank of a described cluster has a core or GPU of its own; leave it out");
  const auto bare = home_.Write(
      "bare.json",
      R"({"device": {"memory_bytes": 80000000000, "flops_per_s": {"bf16": 3e14}}, "nodes": 1, "gpus_per_node": 2})");
  says({"--predict-only", "--model", "gpt2-124m", "--cluster", bare, "--global-batch", "4"}, 2,
       "is missing, which predictions need");
  says({"--device", "paced", "--model", "gpt2-124m", "--cluster", "a100-80gb-sxm:16x8", "--global-batch",
        "512"},
       2, "--cluster");
  says({"--model", "gpt2-124m", "--cluster", "a100-80gb-sxm:1x8", "--global-batch", "8"}, 2,
       "--predict-only");
  EXPECT_FALSE(std::filesystem::exists(home_ / "search.db"));
}

}  // namespace
}  // namespace autocfg::cli
