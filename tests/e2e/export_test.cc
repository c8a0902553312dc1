// `autocfg export` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ExportVerb : public testing::Test {
 protected:
  ExportVerb() : best_(home_ / "best.json") {
    const Finished search =
        RunAutocfg(home_, {"search", "--model", "llama3-8b", "--cluster", "h100-sxm:2x8", "--global-batch",
                           "64", "--seq-len", "4096", "--space", "zero=0,1", "--space", "schedule=1f1b",
                           "--space", "p2p_overlap=0", "--predict-only", "--output", best_, "--save"});
    EXPECT_EQ(search.exit_code, 0) << search.err;
  }
  Finished Export(std::vector<std::string> words) const {
    words.insert(words.begin(), "export");
    return RunAutocfg(home_, words);
  }
  const ScratchDirectory home_;
  const std::string best_;
};

TEST_F(ExportVerb, FilesOfASearchAndOfItsStudyAreAlike) {
  const Finished file = Export({"--input", best_, "--to", "megatron"});
  ASSERT_EQ(file.exit_code, 0) << file.err;
  EXPECT_THAT(file.out, AllOf(HasSubstr("# step time: "), HasSubstr(", predicted (90% interval "),
                              HasSubstr("\n--num-layers 32\n"), HasSubstr("# next best plan: ")));
  const Finished study = Export({"--study", "1", "--to", "megatron"});
  ASSERT_EQ(study.exit_code, 0) << study.err;
  const auto options = [](const std::string& text) { return text.substr(text.find("\n# model\n")); };
  EXPECT_EQ(options(study.out), options(file.out));
  EXPECT_THAT(study.out, HasSubstr("# study: studies/1\n"));
}

TEST_F(ExportVerb, ASearchProposesItAndSaysWhatAFrameworkCannotExpress) {
  const std::vector<std::string> question = {
      "search",   "--model",   "llama3-8b", "--cluster",      "h100-sxm:2x8", "--global-batch",
      "64",       "--seq-len", "4096",      "--predict-only", "--output",     home_ / "next.json",
      "--engine", "megatron",  "--space"};
  const auto asked = [&](const std::string& space, const std::string& another) {
    std::vector<std::string> words = question;
    words.insert(words.end(), {space, "--space", another});
    return RunAutocfg(home_, words);
  };
  const Finished good = asked("pp=1", "mbs=1");
  ASSERT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(Unwrapped(good.out), HasSubstr("export --input " + (home_ / "next.json") + " --to megatron"));
  const Finished bad = asked("pp=2", "schedule=zb-h1");
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err, HasSubstr("framework_cannot_express"));
  // A model that no file of it can say leaves a note: it would leave no plan.
  const Finished unnamed =
      RunAutocfg(home_, {"search", "--model", "gpt2-124m", "--cluster", "h100-sxm:1x8", "--global-batch",
                         "64", "--predict-only", "--engine", "torchtitan"});
  ASSERT_EQ(unnamed.exit_code, 0) << unnamed.err;
  EXPECT_THAT(unnamed.err, HasSubstr("note: torchtitan cannot express model=gpt2-124m"));
}

TEST_F(ExportVerb, TheLineThatStartsItNamesTheWrittenFile) {
  const std::string plain = home_ / "mine.args", spaced = home_ / "my plan.args";
  ASSERT_EQ(Export({"--input", best_, "--to", "megatron", "--output", plain}).exit_code, 0);
  EXPECT_THAT(ReadWhole(plain), HasSubstr(plain + ")"));
  EXPECT_THAT(ReadWhole(plain), testing::Not(HasSubstr("megatron.args")));
  ASSERT_EQ(Export({"--input", best_, "--to", "megatron", "--output", spaced}).exit_code, 0);
  EXPECT_THAT(ReadWhole(spaced), HasSubstr("'" + spaced + "')"));
}

TEST_F(ExportVerb, OwnFormIsReadAgain) {
  ASSERT_EQ(Export({"--input", best_, "--to", "autocfg", "--output", home_ / "again.json"}).exit_code, 0);
  const Finished before = RunAutocfg(home_, {"predict", "--input", best_, "--json"});
  const Finished after = RunAutocfg(home_, {"predict", "--input", home_ / "again.json", "--json"});
  ASSERT_EQ(after.exit_code, 0) << after.err;
  EXPECT_EQ(after.out, before.out);
}

TEST_F(ExportVerb, AMeasurementOfTheFileIsTheEvidence) {
  nlohmann::json answer = nlohmann::json::parse(ReadWhole(best_));
  answer["best"]["measured"] = {{"step_time_s", 2.0},
                                {"ci95_s", 0.1},
                                {"build_id", "0.1.0+abc"},
                                {"device_fingerprint", "NVIDIA H100"},
                                {"planned_memory_bytes", 1e9},
                                {"device_overhead_bytes", 0},
                                {"slice", false},
                                {"emulated", false}};
  const auto header = [&] {
    return Export({"--input", home_.Write("measured.json", answer.dump()), "--to", "megatron"}).out;
  };
  EXPECT_THAT(header(), HasSubstr("# step time: 2 s, measured (95% interval 1.9 s to 2.1 s), of the engine "
                                  "autocfg, on NVIDIA H100, by autocfg 0.1.0+abc\n"));
  answer["best"]["measured"]["emulated"] = true;
  EXPECT_THAT(header(), HasSubstr("# step time: 2 s, emulated"));
  answer["best"]["measured"]["slice"] = true;  // of one rank alone
  EXPECT_THAT(header(), HasSubstr(", predicted (90% interval "));
}

TEST_F(ExportVerb, ASlurmScriptIsAShellScript) {
  const std::string script = home_ / "run.sbatch";
  const Finished done = Export(
      {"--input", best_, "--to", "sbatch", "--engine", "megatron", "--tokens", "1T", "--output", script});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("wrote " + script));
  EXPECT_EQ(std::system(("bash -n " + script).c_str()), 0);
}

TEST_F(ExportVerb, BadInputIsNamed) {
  struct Case {
    std::vector<std::string> words;
    std::string said;
  };
  const std::vector<Case> cases = {
      {{"--to", "megatron"}, "give --input FILE or --study ID"},
      {{"--to", "megatron", "--input", best_, "--study", "1"}, "give --input FILE or --study ID"},
      {{"--to", "megatorn", "--input", best_},
       "--to: unknown target 'megatorn'; expected megatron, megatron-bridge, nemo, "},
      {{"--to", "sbatch", "--input", best_},
       "name it with --engine megatron, megatron-bridge, nemo, deepspeed or torchtitan\n"},
      {{"--to", "megatron", "--engine", "nemo", "--input", best_}, "--engine is for --to sbatch"},
      {{"--to", "sbatch", "--engine", "x", "--input", best_},
       "--engine: unknown target 'x'; expected megatron, megatron-bridge, nemo, deepspeed or torchtitan\n"},
      {{"--to", "sbatch", "--engine", "autocfg", "--input", best_}, "a batch script cannot start autocfg"},
      {{"--to", "megatron", "--input", home_ / "none.json"}, "none.json"},
      {{"--to", "megatron", "--study", "7"}, "7"},
      {{"--to", "megatron", "--input", best_, "--tokens", "many"}, "--tokens"},
      {{"--to", "megatron", "--input", best_, "--output", Missing("/nonexistent/x")}, "--output"}};
  for (const Case& bad : cases) {
    const Finished done = Export(bad.words);
    EXPECT_EQ(done.exit_code, 2) << done.err;
    EXPECT_THAT(done.err, HasSubstr(bad.said));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
}

TEST_F(ExportVerb, ARefusalNamesThePlansOption) {
  const Finished done = Export({"--input", best_, "--to", "torchtitan"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.err, HasSubstr("torchtitan cannot express "));
}

}  // namespace
}  // namespace autocfg::cli
