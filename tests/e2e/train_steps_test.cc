// A training run as a trainer shows it: its log, its trace, and its end by Ctrl-C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/one_clear_line.h"
#include "tests/cli/program.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr const char* kSteppedModel =
    R"({"name": "m", "layers": 4, "hidden": 32, "heads": 4, "vocab": 64, "max_seq_len": 16})";

class TrainSteps : public testing::Test {
 protected:
  TrainSteps() : model_(home_.Write("model.json", kSteppedModel)) {}
  std::vector<std::string> Words(const std::string& plan, const std::string& steps,
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"train", "--model",        model_, "--plan",  plan,  "--precision",
                                     "fp64",  "--global-batch", "8",    "--steps", steps, "--device",
                                     "cpu"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Finished Train(const std::string& plan, const std::string& steps, std::vector<std::string> more) const {
    return RunAutocfg(home_, Words(plan, steps, std::move(more)));
  }
  static std::vector<std::string> LinesOf(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  const ScratchDirectory home_;
  const std::string model_;
  const std::string ckpt_ = home_ / "ckpt";
};

TEST_F(TrainSteps, LogHasARowForEachStepInBothFormats) {
  const auto csv = home_ / "log.csv", jsonl = home_ / "log.jsonl";
  const auto finished = Train("tp=2,dp=2", "3", {"--json", "--log", jsonl});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  const auto rows = LinesOf(ReadWhole(jsonl));
  ASSERT_EQ(rows.size(), 3u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json row = Json::parse(rows[i]);
    EXPECT_EQ(row["step"], i + 1);
    EXPECT_EQ(row["loss"], answer["losses"][i]);
    EXPECT_EQ(row["grad_norm"], answer["grad_norms"][i]);
    EXPECT_NEAR(row["tokens_per_s"].get<double>() * row["step_time_s"].get<double>(), 8 * 16, 1e-6);
    EXPECT_GT(row["model_flops_per_s_per_gpu"], 0);
    EXPECT_TRUE(row["mfu"].is_null()) << "the peak of a CPU is not known";
    EXPECT_GT(row["memory_bytes"], answer["peak_memory_bytes"]) << "there is memory beside the arena";
    EXPECT_LE(row["memory_bytes"], answer["peak_memory_bytes"].get<std::int64_t>() +
                                       answer["device_overhead_bytes"].get<std::int64_t>());
  }
  ASSERT_EQ(Train("tp=2,dp=2", "2", {"--log", csv, "--checkpoint", ckpt_}).exit_code, 0);
  ASSERT_EQ(Train("tp=1", "4", {"--log", csv, "--resume", ckpt_}).exit_code, 0);
  const auto cells = LinesOf(ReadWhole(csv));
  ASSERT_EQ(cells.size(), 5u) << "a header, and the rows of both runs";
  EXPECT_EQ(cells[0],
            "step,loss,grad_norm,step_time_s,tokens_per_s,model_flops_per_s_per_gpu,mfu,memory_bytes");
  for (std::size_t i = 1; i < cells.size(); ++i) {
    EXPECT_TRUE(cells[i].starts_with(std::to_string(i) + ",")) << cells[i];
    EXPECT_EQ(std::count(cells[i].begin(), cells[i].end(), ','), 7) << cells[i];
  }
}

// The log of the run that has steps stays as it is.
TEST_F(TrainSteps, LogOfARunThatIsRefusedIsLeftAlone) {
  const auto log = home_ / "log.csv";
  ASSERT_EQ(Train("tp=1", "2", {"--checkpoint", ckpt_, "--log", log}).exit_code, 0);
  const std::string before = ReadWhole(log);
  ASSERT_EQ(LinesOf(before).size(), 3u);
  EXPECT_EQ(Train("tp=1", "4", {"--checkpoint", ckpt_, "--log", log}).exit_code, 2) << "without --resume";
  EXPECT_EQ(ReadWhole(log), before);
  const auto notes = home_.Write("notes.csv", "my notes");
  EXPECT_EQ(Train("tp=1", "2", {"--resume", ckpt_, "--log", notes}).exit_code, 2) << "all steps are done";
  EXPECT_EQ(ReadWhole(notes), "my notes");
  const auto fresh = home_ / "new.csv";
  EXPECT_EQ(Train("tp=1", "4", {"--checkpoint", ckpt_, "--log", fresh}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(fresh));
  ASSERT_EQ(Train("tp=1", "3", {"--resume", ckpt_, "--log", notes}).exit_code, 0);
  EXPECT_TRUE(ReadWhole(notes).starts_with("my notes\n3,")) << ReadWhole(notes);
  ASSERT_EQ(Train("tp=1", "1", {"--log", log}).exit_code, 0);
  EXPECT_EQ(LinesOf(ReadWhole(log)).size(), 2u) << "begun anew";
}

TEST_F(TrainSteps, ResumedLogHasNoRowThatWasCutOff) {
  for (const bool csv : {true, false}) {
    const std::string checkpoint = ckpt_ + (csv ? "1" : "2");
    const auto log = home_ / (csv ? "log.csv" : "log.jsonl");
    ASSERT_EQ(Train("tp=1", "2", {"--checkpoint", checkpoint, "--log", log}).exit_code, 0);
    const std::string whole = ReadWhole(log);
    std::ofstream(log, std::ios::app) << (csv ? "3,4.6" : R"({"step": 3, "lo)");
    ASSERT_EQ(Train("tp=1", "3", {"--resume", checkpoint, "--log", log}).exit_code, 0);
    const std::string resumed = ReadWhole(log);
    EXPECT_TRUE(resumed.starts_with(whole)) << resumed;
    EXPECT_EQ(LinesOf(resumed).size(), LinesOf(whole).size() + 1) << resumed;
  }
}

TEST_F(TrainSteps, NohupKeepsARunWhoseTerminalCloses) {
  const auto log = home_ / "log.csv";
  const auto before = std::signal(SIGHUP, SIG_IGN);  // inherited, as under nohup
  ProgramProcess run(home_, Words("tp=1", "1000000", {"--log", log}));
  std::signal(SIGHUP, before);
  const auto rows = [&] { return std::filesystem::exists(log) ? LinesOf(ReadWhole(log)).size() : 0; };
  while (run.running() && rows() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  run.Signal(SIGHUP);
  const std::size_t seen = rows();
  while (run.running() && rows() < seen + 50) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(run.running()) << run.err_so_far();
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait().exit_code, 130);
}

TEST_F(TrainSteps, PacedRunsLogTheShareOfTheEmulatedPeak) {
  const auto log = home_ / "log.jsonl";
  const auto finished =
      RunAutocfg(home_, {"train", "--model", model_, "--plan", "dp=2", "--steps", "2", "--device", "paced",
                         "--cluster", "a100-80gb-sxm:1x8", "--log", log});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json row = Json::parse(LinesOf(ReadWhole(log)).at(1));
  EXPECT_TRUE(row["loss"].is_null());
  EXPECT_GT(row["mfu"], 0);
  EXPECT_LT(row["mfu"], 1);
}

TEST_F(TrainSteps, TableShowsMemory) {
  const auto finished = Train("tp=1", "2", {});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const std::string header = LinesOf(finished.out).at(0), row = LinesOf(finished.out).at(1);
  for (const char* column : {"step", "loss", "grad norm", "time", "memory", "MFU", "tokens/s"})
    EXPECT_THAT(header, HasSubstr(column));
  EXPECT_THAT(row, HasSubstr("iB"));
}

// Ctrl-C ends the run after its step, with a checkpoint, from which it continues as if it had not ended.
TEST_F(TrainSteps, InterruptedRunSavesAndContinues) {
  const auto log = home_ / "log.jsonl";
  ProgramProcess run(home_, Words("tp=2", "1000000", {"--checkpoint", ckpt_, "--log", log}));
  while (run.running() && (!std::filesystem::exists(log) || LinesOf(ReadWhole(log)).size() < 3))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  run.Signal(SIGINT);
  const Finished finished = run.Wait();
  EXPECT_EQ(finished.exit_code, 130) << finished.err;
  const auto rows = LinesOf(ReadWhole(log));
  const std::string done = std::to_string(rows.size());
  EXPECT_TRUE(std::filesystem::exists(ckpt_ + "/step-" + done));
  EXPECT_THAT(finished.err, HasSubstr("interrupted after step " + done + " of 1000000; saved " + ckpt_ +
                                      "/step-" + done + "; continue with --resume " + ckpt_));
  EXPECT_THAT(finished.err, HasSubstr("interrupt again to end at once"));
  const std::string more = std::to_string(rows.size() + 1);
  const auto resumed = Train("tp=1", more, {"--resume", ckpt_, "--json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const auto whole = Train("tp=1", more, {"--json"});
  EXPECT_NEAR(Json::parse(resumed.out)["losses"].at(0).get<double>(),
              Json::parse(whole.out)["losses"].back().get<double>(), 1e-9);
}

// A second Ctrl-C does not wait for the step, which takes minutes.
TEST_F(TrainSteps, SecondInterruptEndsAtOnce) {
  const auto log = home_ / "log.jsonl";
  const auto model = home_.Write(
      "wide.json",
      R"({"name": "w", "layers": 8, "hidden": 1024, "heads": 8, "vocab": 4096, "max_seq_len": 512})");
  ProgramProcess run(home_, {"train", "--model", model, "--plan", "mbs=1", "--steps", "5", "--device", "cpu",
                             "--global-batch", "256", "--checkpoint", ckpt_, "--log", log});
  while (run.running() && RanksOf(run.pid()).empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::vector<pid_t> processes = Descendants(run.pid());
  run.Signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  run.Signal(SIGINT);  // as programs do that signal a process and then its group
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_TRUE(run.running()) << "it waits for its step: " << run.err_so_far();
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(std::chrono::seconds(20)).exit_code, 128 + SIGINT);
  EXPECT_TRUE(AllEnd(processes, std::chrono::seconds(20)));
}

TEST_F(TrainSteps, TraceHasTheRanksAndStepsAskedFor) {
  const auto file = home_ / "trace.json";
  const auto finished =
      Train("tp=2,pp=2", "4", {"--trace", file, "--trace-steps", "3", "--trace-ranks", "0,3"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json trace = Json::parse(ReadWhole(file));
  std::set<int> ranks, steps;
  std::map<std::pair<int, int>, double> ends;
  for (const auto& event : trace["traceEvents"]) {
    ASSERT_TRUE(event["name"].is_string() && event["pid"].is_number() && event["tid"].is_number()) << event;
    if (event["ph"] == "M") continue;
    ASSERT_EQ(event["ph"], "X");
    const std::pair lane(event["pid"].get<int>(), event["tid"].get<int>());
    ranks.insert(lane.first);
    const double begin = event["ts"];
    EXPECT_GE(begin, ends[lane] - 1e-6) << "events of a lane do not overlap: " << event;
    ends[lane] = begin + event["dur"].get<double>();
    if (event["name"] != "idle") steps.insert(event["args"]["step"].get<int>());
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 3}));
  EXPECT_EQ(steps, (std::set<int>{2, 3, 4}));
}

TEST_F(TrainSteps, TraceGoesToStandardOutputAndAllElseToStandardError) {
  const auto finished = Train("tp=1", "2", {"--trace", "-"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_FALSE(Json::parse(finished.out)["traceEvents"].empty());
  EXPECT_THAT(finished.err, HasSubstr("tokens per second"));
  const auto predicted =
      RunAutocfg(home_, {"predict", "--model", "gpt2-124m", "--cluster", "h100-sxm:1x8", "--global-batch",
                         "16", "--plan", "tp=2,dp=4", "--trace", "-", "--trace-ranks", "1"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  std::set<int> ranks;
  const Json trace = Json::parse(predicted.out);
  for (const auto& event : trace["traceEvents"]) ranks.insert(event["pid"].get<int>());
  EXPECT_EQ(ranks, std::set<int>{1});
  EXPECT_THAT(predicted.err, HasSubstr("step time"));
}

// GPT-3 on 768 GPUs.
TEST_F(TrainSteps, TracesOfManyRanksKeepToASize) {
  const auto file = home_ / "trace.json";
  const auto finished = RunAutocfg(
      home_, {"predict", "--model", "gpt3-175b", "--cluster", "a100-80gb-sxm:96x8", "--global-batch", "1536",
              "--plan", "tp=8,pp=12,dp=8,mbs=1,recompute=full", "--trace", file});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_LT(std::filesystem::file_size(file), 20u << 20);
  EXPECT_THAT(finished.err,
              HasSubstr("--trace: 12 of the 768 ranks, each of another stage of the pipeline; give "
                        "--trace-ranks R,... or all for others"));
}

TEST_F(TrainSteps, BadOptionsAreOneClearLine) {
  const auto refuse = [&](std::vector<std::string> more, const std::vector<std::string>& says) {
    SCOPED_TRACE(more[0] + " " + more[1]);
    ExpectOneClearLine(Words("tp=2", "4", std::move(more)), 2, says);
  };
  const std::string trace = home_ / "t.json";
  refuse({"--log", "steps.txt"}, {"--log: 'steps.txt' does not end in .csv or .jsonl", "give such a name"});
  refuse({"--log", "-"}, {"--log: '-' does not end in .csv or .jsonl"});
  refuse({"--log", Missing("/nonexistent/a.csv")},
         {Missing("--log: /nonexistent/a.csv"), "existing directory"});
  refuse({"--log", home_ / "a.csv", "--save", home_ / "a.csv"}, {"--log", "is also the file of --save"});
  refuse({"--log", home_ / "a.csv", "--trace", home_ / "a.csv"}, {"--log", "is also the file of --trace"});
  refuse({"--trace-steps", "2"}, {"--trace-steps: no trace is asked for; give --trace FILE too"});
  refuse({"--trace-ranks", "0"}, {"--trace-ranks: no trace is asked for; give --trace FILE too"});
  refuse({"--trace", trace, "--trace-steps", "0"}, {"--trace-steps: invalid value '0'", "from 1 to 4"});
  refuse({"--trace", trace, "--trace-steps", "5"}, {"--trace-steps: invalid value '5'", "from 1 to 4"});
  refuse({"--trace", trace, "--trace-ranks", "2"}, {"--trace-ranks: invalid value '2'", "from 0 to 1"});
  refuse({"--trace", trace, "--trace-ranks", "0,0"}, {"--trace-ranks: 0 is listed twice; list it once"});
  refuse({"--trace", trace, "--trace-ranks", "0,"}, {"--trace-ranks: invalid value ''", "or all"});
  refuse({"--trace", trace, "--trace-ranks", "every"}, {"--trace-ranks: invalid value 'every'", "or all"});
  refuse({"--trace", "-", "--json"}, {"--trace: - is standard output, which --json takes"});
  refuse({"--trace", trace, "--trace-ranks", "0", "--slice", "0,0"}, {"--trace-ranks: a slice"});
}

}  // namespace
}  // namespace autocfg::cli
