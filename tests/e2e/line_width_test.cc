// The text that each verb prints for people fits 80 columns, with long names, large sizes and long plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

// Returns the lines that are too wide. A word that leaves no room beside it may stand behind a title or an
// indent of at most 26 columns, which is that of `doctor`.
std::vector<std::string> TooWide(const std::string& text) {
  std::vector<std::string> wide;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (ColumnsOf(line) <= kLineColumns) continue;
    const std::string words = line.ends_with(" \\") ? line.substr(0, line.size() - 2) : line;
    if (words.find_last_of(' ') > 26 || words.find(' ') == std::string::npos) wide.push_back(line);
  }
  return wide;
}

class LineWidthTest : public testing::Test {
 protected:
  // Runs the verb. Its standard output must have lines, none of which is too wide.
  std::string ExpectFits(const std::vector<std::string>& args, int exit_code = 0) {
    const auto finished = RunAutocfg(home_, args);
    const std::string shown = fmt::format("{} {}", args.front(), args.back());
    EXPECT_EQ(finished.exit_code, exit_code) << shown << ": " << finished.err;
    EXPECT_GT(finished.out.size(), 40u) << shown;
    EXPECT_THAT(TooWide(finished.out), testing::IsEmpty()) << shown;
    return finished.out;
  }

  const ScratchDirectory home_;
  const std::string database_ = home_ / "a.db";
  // A long name, and sizes of three and more digits.
  const std::string model_ = home_.Write(
      "a-model-with-quite-a-long-name-of-forty-letters.json",
      R"({"name": "a-model-with-quite-a-long-name-of-forty-letters", "layers": 126, "hidden": 16384,)"
      R"("heads": 128, "kv_heads": 8, "ffn_hidden": 53248, "vocab": 128256, "max_seq_len": 8192,)"
      R"("activation": "swiglu", "norm": "rmsnorm", "position": "rope"})");
};

TEST_F(LineWidthTest, TheRuleFindsWideLines) {
  const std::string word(100, 'a');
  EXPECT_THAT(TooWide("plan: " + word + "\n" + std::string(80, 'a') + "\n        --plan " + word + " \\\n"),
              testing::IsEmpty());
  EXPECT_EQ(TooWide("plan: " + word + "  (predicted)\n" + std::string(40, 'a') + " " + word + "\n").size(),
            2u);
}

TEST_F(LineWidthTest, HelpOfEveryVerb) {
  const std::string all = ExpectFits({"--help"});
  std::istringstream lines(all.substr(all.find("Subcommands:")));
  std::string line;
  std::getline(lines, line);
  int verbs = 0;
  while (std::getline(lines, line)) {
    if (!line.starts_with("  ") || line.starts_with("   ")) continue;
    ExpectFits({line.substr(2, line.find(' ', 2) - 2), "--help"});
    ++verbs;
  }
  EXPECT_GT(verbs, 15) << all;
}

TEST_F(LineWidthTest, Predictions) {
  const std::vector<std::string> question = {"--model",        model_,           "--cluster",
                                             "h100-sxm:256x8", "--global-batch", "2048"};
  const auto with = [&](const std::string& verb, std::vector<std::string> more) {
    std::vector<std::string> args = {verb};
    args.insert(args.end(), question.begin(), question.end());
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  ExpectFits(with("search", {"--predict-only", "--pareto", "--tokens", "15T", "--price-per-gpu-hour", "2.10",
                             "--mtbf-hours", "50000", "--output", home_ / "best.json"}));
  const std::string plan =
      "tp=8,pp=64,dp=4,mbs=1,schedule=zb-h1,split=1+2x62+1,sp=1,zero=1,tp_overlap=2,grad_overlap=1";
  ExpectFits(with("predict", {"--plan", plan}));
  ExpectFits(with("explain", {"--plan", plan}));
  ExpectFits(
      with("explain", {"--plan", "tp=8,pp=14,dp=16,mbs=1,recompute=full,sp=1,zero=1", "--against", plan}));
  ExpectFits(with("explain", {"--plan", "tp=8,pp=126,dp=2,mbs=1"}), 1);  // does not fit, with notes
  ExpectFits({"explain", "--input", home_ / "best.json"});
  ExpectFits({"size", "--gpus", "2048", "--days", "100", "--cluster", "h100-sxm", "--tokens", "15T",
              "--price-per-gpu-hour", "2.10", "--save", home_ / "sized.json"});
}

TEST_F(LineWidthTest, SeveralQuestions) {
  const std::vector<std::string> more = {"search",    "--predict-only", "--model",
                                         "llama3-8b", "--space",        "mbs=1"};
  const auto with = [&](std::vector<std::string> args) {
    args.insert(args.begin(), more.begin(), more.end());
    return args;
  };
  ExpectFits(with({"--cluster", "h100-sxm:32x8", "--nodes", "16,32", "--global-batch", "512,1024"}));
  const std::string text = ExpectFits(
      with({"--cluster", "h100-sxm:128x8,a100-80gb-sxm:128x8", "--global-batch", "512,3", "--seq-len",
            "4k,8k", "--tokens", "15T", "--price-per-gpu-hour", "2.10", "--mtbf-hours", "50000"}));
  EXPECT_THAT(text, testing::HasSubstr("a100-80gb-sxm:128x8"));
}

TEST_F(LineWidthTest, MeasuredSearchesAndTheirLists) {
  const std::string best = home_ / "best.json";
  ExpectFits({"search", "--model", "gpt2-tiny", "--cluster", "local:1x2", "--global-batch", "8", "--seq-len",
              "32", "--max-trials", "2", "--space", "pp=2", "--space", "vpp=2", "--db", database_, "--output",
              best});
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"studies", "--db", database_},
        {"trials", "--db", database_},
        {"watch", "--db", database_},
        {"explain", "--input", best},
        {"explain", "--study", "1/trials/1", "--db", database_},
        {"train", "--input", best, "--steps", "2"},
        {"db", "backup", "--db", database_, "--output", home_ / "b.db"},
        {"doctor", "--db", database_},
        {"models"},
        {"clusters"}})
    ExpectFits(args);
}

TEST_F(LineWidthTest, Workers) {
  const std::string address = "unix:" + home_ / "head.sock";
  const ProgramProcess server(home_, {"--listen", address, "--db", database_}, "/dev/null", "autocfg-server");
  const ProgramProcess worker(home_, {"--coordinator", address, "--name", "a-node-with-a-long-name-117"},
                              "/dev/null", "autocfg-worker");
  const auto listed = [&] {
    return RunAutocfg(home_, {"workers", "--coordinator", address}).out.find("a-node-with") !=
           std::string::npos;
  };
  for (int i = 0; i < 300 && !listed(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ExpectFits({"workers", "--coordinator", address});
  ExpectFits({"workers", "--coordinator", address, "--drain", "a-node-with-a-long-name-117"});
}

TEST_F(LineWidthTest, Calibrate) {
  std::string rows = "layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,dp,iter_time_s\n";
  for (int i = 0; i < 6; ++i)
    rows += fmt::format("{},12288,96,2048,1536,1,8,8,{},{}\n", 96, 8 << i % 3, 60.0 / (1 + i % 3));
  ExpectFits({"calibrate", "--measurements", home_.Write("steps.csv", rows), "--cluster",
              "a100-80gb-sxm:64x8", "--default", "recompute=full,vocab=51200", "--output",
              home_ / "mine.json"});
}

}  // namespace
}  // namespace autocfg::cli
