// Traces, slices and emulated runs of `autocfg train`, as a user sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr const char* kLlama =
    R"({"name": "small-llama", "layers": 4, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn_hidden": 96, "vocab": 256, "max_seq_len": 32,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false})";

class TrainTest : public testing::Test {
 protected:
  TrainTest() : model_(home_.Write("model.json", kLlama)) {}

  std::vector<std::string> Train(const std::string& plan, std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"train",          "--model", model_,    "--plan", plan,
                                     "--global-batch", "8",       "--steps", "2"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Finished Run(const std::vector<std::string>& args) const { return RunAutocfg(home_, args); }

  // Returns the names of a trace's actions by rank, without idle time.
  std::map<int, std::multiset<std::string>> Actions(const std::string& file) const {
    std::map<int, std::multiset<std::string>> actions;
    const Json trace = Json::parse(ReadWhole(file));
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == "X" && event["name"] != "idle")
        actions[event["pid"].get<int>()].insert(event["name"].get<std::string>());
    }
    return actions;
  }

  const ScratchDirectory home_;
  const std::string model_;
};

TEST_F(TrainTest, LlamaTakesTheSameStepsUnderEveryPlan) {
  const auto one = Run(Train("mbs=2", {"--json", "--precision", "fp64"}));
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const auto losses = Json::parse(one.out)["losses"];
  ASSERT_EQ(losses.size(), 2u);
  for (const char* plan :
       {"pp=2,vpp=2,mbs=2", "tp=2,pp=2,mbs=1,split=1+3,recompute=full:1", "pp=2,split=auto,mbs=1"}) {
    const auto other = Run(Train(plan, {"--json", "--precision", "fp64"}));
    ASSERT_EQ(other.exit_code, 0) << plan << ": " << other.err;
    const Json result = Json::parse(other.out);
    for (int i = 0; i < 2; ++i)
      EXPECT_NEAR(result["losses"][i].get<double>(), losses[i].get<double>(), 1e-9) << plan;
    EXPECT_EQ(result["plan"].get<std::string>().find("auto"), std::string::npos) << "what ran is complete";
    EXPECT_EQ(result["slice"], nullptr);
  }
}

// The summary below the table is the median of the steps after the first.
TEST_F(TrainTest, TableMatchesItsSummary) {
  const auto finished =
      Run({"train", "--model", model_, "--plan", "dp=2", "--global-batch", "8", "--steps", "4"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  std::istringstream lines(finished.out);
  std::vector<std::string> rates;  // tokens per second, the last column of a step's row
  std::string said;
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kSummary = "tokens per second: ";
    if (line.starts_with(kSummary))
      said = line.substr(kSummary.size(), line.find(' ', kSummary.size()) - kSummary.size());
    const auto first = line.find_first_not_of(' ');
    if (first != std::string::npos && first > 0 && line[first] >= '2' && line[first] <= '4')
      rates.push_back(line.substr(line.find_last_of(' ') + 1));
  }
  ASSERT_EQ(rates.size(), 3u) << finished.out;
  std::sort(rates.begin(), rates.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  EXPECT_EQ(rates[1], said) << finished.out;
}

TEST_F(TrainTest, TraceHasTheSimulatedActions) {
  const auto plan = "tp=1,pp=2,dp=1,vpp=2,mbs=2";
  ASSERT_EQ(Run(Train(plan, {"--trace", home_ / "ran.json", "--json"})).exit_code, 0);
  const auto predicted = Run({"predict", "--model", model_, "--cluster", "a100-80gb-sxm:1x8",
                              "--global-batch", "8", "--plan", plan, "--trace", home_ / "simulated.json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const auto ran = Actions(home_ / "ran.json");
  EXPECT_EQ(ran.size(), 2u);
  EXPECT_EQ(ran, Actions(home_ / "simulated.json"));
}

TEST_F(TrainTest, SliceRunsOneRankAndIsMarked) {
  const auto finished =
      Run(Train("tp=2,pp=2,dp=2,mbs=1", {"--slice", "1,1", "--trace", home_ / "slice.json"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(Unwrapped(finished.out),
              HasSubstr("one of its 8 ranks ran alone, a slice: tensor 1, pipeline 1"));
  EXPECT_THAT(finished.out, testing::Not(HasSubstr("tokens per second")));
  EXPECT_EQ(Actions(home_ / "slice.json").size(), 1u);
  const Json other = Json::parse(ReadWhole(home_ / "slice.json"))["otherData"];
  EXPECT_EQ(other["slice"], (Json{{"tensor", 1}, {"pipeline", 1}}));
  EXPECT_EQ(other["kind"], "measured");
  EXPECT_EQ(other["device"], "cpu");
  const auto json = Run(Train("tp=2,pp=2,dp=2,mbs=1", {"--slice", "1,1", "--json"}));
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const Json result = Json::parse(json.out);
  EXPECT_EQ(result["slice"], (Json{{"tensor", 1}, {"pipeline", 1}}));
  EXPECT_EQ(result["tokens_per_s"], nullptr);
  EXPECT_EQ(result["step_time_s"].size(), 2u);
  const auto whole = Run(Train("tp=2,pp=2,dp=2,mbs=1", {"--device", "dry", "--json"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_LE(result["planned_memory_bytes"], Json::parse(whole.out)["planned_memory_bytes"]);
}

// The dry device computes nothing. Its planned memory in two-byte types equals the prediction.
TEST_F(TrainTest, DryDevicePlansEveryPrecision) {
  const auto plan = "tp=2,pp=2,dp=2,mbs=1";
  for (const char* precision : {"bf16", "fp16", "fp32"}) {
    const auto dry = Run(Train(plan, {"--device", "dry", "--precision", precision, "--json"}));
    ASSERT_EQ(dry.exit_code, 0) << dry.err;
    const auto predicted = Run({"predict", "--model", model_, "--cluster", "a100-80gb-sxm:1x8",
                                "--global-batch", "8", "--precision", precision, "--plan", plan, "--json"});
    ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
    const Json result = Json::parse(dry.out);
    const Json memory = Json::parse(predicted.out)["memory_bytes"];
    EXPECT_EQ(result["planned_memory_bytes"].get<std::int64_t>(),
              memory["total"].get<std::int64_t>() - memory["device_overhead"].get<std::int64_t>())
        << precision;
    EXPECT_EQ(result["peak_memory_bytes"], result["planned_memory_bytes"]) << precision;
  }
}

TEST_F(TrainTest, Bf16InputSaysWhereItRuns) {
  const std::string best = home_ / "best.json";
  ASSERT_EQ(Run({"search", "--predict-only", "--model", model_, "--cluster", "a100-80gb-sxm:1x2",
                 "--global-batch", "4", "--output", best})
                .exit_code,
            0);
  const auto refused = Run({"train", "--input", best, "--steps", "1"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_TRUE(refused.err.starts_with("autocfg: --input: " + best + ": ")) << refused.err;
  for (const char* part : {"workload is bf16", "not supported yet", "--device paced", "dry"})
    EXPECT_THAT(refused.err, HasSubstr(part));
  for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{
           {"--device", "paced"}, {"--device", "dry"}, {"--precision", "fp32"}}) {
    std::vector<std::string> args = {"train", "--input", best, "--steps", "1"};
    args.insert(args.end(), how.begin(), how.end());
    const auto ran = Run(args);
    EXPECT_EQ(ran.exit_code, 0) << how[1] << ": " << ran.err;
  }
}

TEST_F(TrainTest, PacedRunTakesThePredictedTime) {
  const auto plan = "tp=2,pp=2,dp=2,vpp=2,mbs=1,recompute=full";
  for (const char* precision : {"bf16", "fp32"}) {
    const auto ran = Run(Train(plan, {"--device", "paced", "--cluster", "a100-80gb-sxm:1x8", "--precision",
                                      precision, "--json", "--trace", home_ / "t.json"}));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const auto predicted = Run({"predict", "--model", model_, "--cluster", "a100-80gb-sxm:1x8",
                                "--global-batch", "8", "--precision", precision, "--plan", plan, "--json"});
    ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
    const Json result = Json::parse(ran.out);
    const double seconds = Json::parse(predicted.out)["step_time_s"];
    EXPECT_NEAR(result["step_time_s"][1].get<double>(), seconds, 0.02 * seconds) << precision;
    EXPECT_EQ(result["device"], "paced");
    EXPECT_EQ(result["cluster"], "a100-80gb-sxm:1x8");
    EXPECT_EQ(result["losses"], Json::array()) << "nothing is computed";
    EXPECT_EQ(Actions(home_ / "t.json").size(), 8u);
    const Json other = Json::parse(ReadWhole(home_ / "t.json"))["otherData"];
    EXPECT_EQ(other["kind"], "emulated");
    EXPECT_EQ(other["cluster"], "a100-80gb-sxm:1x8");
    EXPECT_EQ(other["slice"], nullptr);
  }
  const auto text = Run(Train(plan, {"--device", "paced"}));
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.err, HasSubstr("note: no --cluster is given; emulating a100-80gb-sxm:1x8"));
  EXPECT_THAT(text.out, HasSubstr("emulated: every op took its modelled time"));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("measured")));
}

TEST_F(TrainTest, ErrorsOfRanksAreOneLineWithoutNotes) {
  const std::string weights = home_.Write("wrong.safetensors", "no weights at all");
  for (const char* device : {"paced", "cpu"}) {
    const auto finished = Run(Train("tp=1,schedule=gpipe,mbs=8", {"--device", device, "--init", weights}));
    EXPECT_EQ(finished.exit_code, 2) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("wrong.safetensors"));
  }
}

TEST_F(TrainTest, PacedRunChecksTheEmulatedMemory) {
  const auto finished = Run({"train", "--model", "gpt3-175b", "--plan", "tp=8", "--global-batch", "1",
                             "--steps", "1", "--device", "paced", "--cluster", "a100-80gb-sxm:1x8"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.err,
              testing::ContainsRegex("does not fit: plan tp=8,.* needs [0-9.]+ GiB a rank, [0-9.]+ GiB more "
                                     "than the 78.0 GiB that a rank may use: "));
}

}  // namespace
}  // namespace autocfg::cli
