// Lists of values in `autocfg search --predict-only`: the questions that they make, and refused lists.
#include "cli/question/question_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/subject.h"
#include "tests/cli/one_clear_line.h"

namespace autocfg::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SearchArgs Args() {
  SearchArgs args;
  args.model = "gpt2-124m";
  args.cluster = "h100-sxm:1x8";
  args.global_batch = "64";
  args.predict_only = true;
  return args;
}

// "CLUSTER NODES BATCH SEQ_LEN" of each question.
std::vector<std::string> Summary(const SearchArgs& args) {
  std::vector<std::string> lines;
  const auto questions = QuestionsOf(args);
  EXPECT_TRUE(questions.ok()) << questions.status();
  if (!questions.ok()) return lines;
  for (const SearchArgs& one : *questions)
    lines.push_back(one.cluster + " " + one.nodes + " " + one.global_batch + " " + one.seq_len);
  return lines;
}

TEST(QuestionsOf, KeepsASingleQuestionAsItIs) {
  EXPECT_THAT(Summary(Args()), ElementsAre("h100-sxm:1x8  64 "));
  SearchArgs measured = Args();
  measured.cluster = "local";
  measured.predict_only = false;
  EXPECT_THAT(Summary(measured), ElementsAre("local  64 "));
}

TEST(QuestionsOf, CombinesAllListsTheLastOneFastest) {
  SearchArgs args = Args();
  args.cluster = "h100-sxm:1x8,a100-80gb-sxm";
  args.nodes = "1,4";
  args.global_batch = "64,128";
  args.seq_len = "512";
  EXPECT_THAT(Summary(args),
              ElementsAre("h100-sxm:1x8  64 512", "h100-sxm:1x8  128 512", "h100-sxm:4x8  64 512",
                          "h100-sxm:4x8  128 512", "a100-80gb-sxm:1x8  64 512", "a100-80gb-sxm:1x8  128 512",
                          "a100-80gb-sxm:4x8  64 512", "a100-80gb-sxm:4x8  128 512"));
}

TEST(QuestionsOf, KeepsTheNodesOfWhatIsNoPreset) {
  const ScratchDirectory home;
  SearchArgs args = Args();
  args.cluster = home.Write("mine, and yours.json", "{}");
  args.nodes = "1,2";
  EXPECT_THAT(Summary(args), ElementsAre(args.cluster + " 1 64 ", args.cluster + " 2 64 "));
}

TEST(QuestionsOf, AnswersAtMostSoMany) {
  SearchArgs args = Args();
  args.nodes = "1,2,3,4,5,6,7,8";
  args.global_batch = "1,2,3,4,5,6,7,8";
  EXPECT_EQ(Summary(args).size(), kMostQuestions);
  args.seq_len = "1,2";
  const auto more = QuestionsOf(args);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(more.status().message()),
              HasSubstr("the lists make 128 questions (8 of --nodes, 8 of --global-batch, 2 of --seq-len)"));
}

TEST(QuestionsOf, RefusesTheSameQuestionTwice) {
  const auto refusal = [](const SearchArgs& args) {
    const auto questions = QuestionsOf(args);
    EXPECT_EQ(questions.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(questions.status().message());
  };
  SearchArgs args = Args();
  args.seq_len = "512,1k,1024";
  EXPECT_EQ(refusal(args), "--seq-len: 1k and 1024 are the same; list one of them");
  args = Args();
  args.nodes = "1,01";
  EXPECT_EQ(refusal(args), "--nodes: 1 and 01 are the same; list one of them");
  args = Args();
  args.cluster = "a100-80gb-sxm,h100-sxm,h100-sxm:1x8";
  EXPECT_EQ(refusal(args), "--cluster: h100-sxm and h100-sxm:1x8 are the same; list one of them");
  args.nodes = "4";
  EXPECT_EQ(refusal(args), "--cluster: h100-sxm and h100-sxm:1x8 are the same; list one of them");
  args.cluster = "h100-sxm:1x8,h100-sxm:2x8";
  args.nodes = "1,2";
  EXPECT_EQ(refusal(args),
            "--cluster: h100-sxm:1x8 and h100-sxm:2x8 are the same at each number of --nodes, which replaces "
            "theirs; list one of them, or leave out --nodes");
  args.cluster = "h100-sxm:1x8,h100-sxm:2x4";
  EXPECT_EQ(Summary(args).size(), 4u);
  args.nodes = "";
  EXPECT_THAT(Summary(args), ElementsAre("h100-sxm:1x8  64 ", "h100-sxm:2x4  64 "));
}

TEST(IsOfOneQuestion, TellsWorkloadsFromTheRest) {
  EXPECT_TRUE(IsOfOneQuestion(base::InvalidArgument("workload", "seq_len is too long")));
  EXPECT_TRUE(IsOfOneQuestion(base::InvalidArgument("--space", "no sizes make up the ranks")));
  EXPECT_FALSE(IsOfOneQuestion(base::InvalidArgument("--cluster", "unknown")));
  EXPECT_FALSE(IsOfOneQuestion(absl::InvalidArgumentError("workload: only as text")));
}

std::vector<std::string> Command(std::vector<std::string> more) {
  std::vector<std::string> args = {"search", "--model", "gpt2-124m", "--cluster", "h100-sxm:1x8"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Lists, AreRefusedWithoutPredictOnly) {
  ExpectOneClearLine(Command({"--global-batch", "8,16"}), 2,
                     {"--global-batch: 8,16 is a list; add --predict-only"});
  ExpectOneClearLine(Command({"--global-batch", "8", "--nodes", "1,2"}), 2,
                     {"--nodes: 1,2", "--predict-only"});
  ExpectOneClearLine(Command({"--global-batch", "8", "--seq-len", "64,128"}), 2,
                     {"--seq-len", "--predict-only"});
}

TEST(Lists, WithBadValuesAreOneClearLine) {
  const auto refuse = [](std::vector<std::string> more, const std::vector<std::string>& says) {
    more.emplace_back("--predict-only");
    ExpectOneClearLine(Command(std::move(more)), 2, says);
  };
  refuse({"--global-batch", "8,"}, {"--global-batch: 8, has an empty value"});
  refuse({"--global-batch", "8,16,8"}, {"--global-batch: 8 is listed twice"});
  refuse({"--global-batch", "8", "--seq-len", "1k,1024"}, {"--seq-len: 1k and 1024 are the same"});
  refuse({"--global-batch", "8,many"}, {"--global-batch: invalid value 'many'"});
  refuse({"--global-batch", "8", "--nodes", "1,0"}, {"--nodes: invalid value '0'"});
  refuse({"--global-batch", "8", "--nodes", "0"}, {"--nodes: invalid value '0'"});
  refuse({"--global-batch", "8", "--nodes", "1,2", "--precision", "fp17"}, {"fp17"});
  refuse({"--global-batch", "8", "--nodes", ""}, {"--nodes: it is empty"});
  // Every combination has the same fault.
  refuse({"--global-batch", "8", "--seq-len", "2048,4096"},
         {"workload: seq_len is 2048", "reach only to 1024"});
  ExpectOneClearLine({"search", "--model", "gpt2-124m", "--predict-only", "--cluster",
                      "h100-sxm:1x8,h200:1x8", "--global-batch", "8"},
                     2, {"h200", "h200-sxm"});
  ExpectOneClearLine({"search", "--model", "gpt2-124m", "--predict-only", "--cluster",
                      "h100-sxm:1x8,h100-sxm:2x8", "--nodes", "1,2", "--global-batch", "8"},
                     2, {"--cluster: h100-sxm:1x8 and h100-sxm:2x8", "--nodes"});
  ExpectOneClearLine(
      {"search", "--model", "gpt2-tiny", "--cluster", "local:1x2", "--nodes", "2", "--global-batch", "8"}, 2,
      {"--nodes: --cluster local", "h100-sxm:1x8"});
}

}  // namespace
}  // namespace autocfg::cli
