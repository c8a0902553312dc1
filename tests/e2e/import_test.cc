// `autocfg import`, and `predict` of a framework's file, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ImportVerb : public testing::Test {
 protected:
  static std::string FileOf(const std::string& name) {
    return SourcePath("tests/search/frameworks/files/" + name);
  }
  Finished Run(const std::vector<std::string>& words) const { return RunAutocfg(home_, words); }
  nlohmann::json JsonOf(std::vector<std::string> words) const {
    words.emplace_back("--json");
    const Finished ended = Run(words);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return nlohmann::json::parse(ended.out, nullptr, /*allow_exceptions=*/false);
  }
  const ScratchDirectory home_;
};

TEST_F(ImportVerb, SaysWhatALaunchScriptIs) {
  const Finished read = Run({"import", FileOf("arrays.txt")});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  EXPECT_THAT(read.out, AllOf(HasSubstr("read: arrays.txt, a file of megatron\n"),
                              HasSubstr("model: llama3-8b, 64 "), HasSubstr("ranks: 32 (4 nodes of 8)\n"),
                              HasSubstr("your plan: tp=4,pp=2,dp=4,mbs=1,sp=1,"), Not(HasSubstr("faster"))));
  EXPECT_THAT(read.err, HasSubstr("are left out"));
}

TEST_F(ImportVerb, OnAClusterNamesAFasterPlanAndTheLinesToChange) {
  const nlohmann::json answer = JsonOf({"import", FileOf("arrays.txt"), "--cluster", "h100-sxm:4x8"});
  ASSERT_TRUE(answer["predicted"]["feasible"]);
  ASSERT_FALSE(answer["faster"].is_null());
  EXPECT_EQ(answer["ignored"][0], (nlohmann::json{{"name", "--train-iters"}, {"line", 49}}));
  EXPECT_LT(answer["faster"]["step_time_ratio"], 1);
  EXPECT_LE(answer["faster"]["step_time_s"], answer["one_change"]["step_time_s"]);
  EXPECT_EQ(answer["predicted"]["engine"], "megatron");
  ASSERT_TRUE(answer["faster"]["changed_lines"].is_array());
  EXPECT_FALSE(answer["faster"]["changed_lines"].empty());

  // The lines, applied by hand, give the plan.
  std::vector<std::string> lines;
  std::ifstream file(FileOf("arrays.txt"));
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::string text;
  const nlohmann::json& changes = answer["faster"]["changed_lines"];
  for (std::size_t i = 0; i < lines.size(); ++i) {
    bool kept = true;
    for (const auto& change : changes) {
      if (change["line"] != i + 1) continue;
      for (const auto& after : change["after"]) text += after.get<std::string>() + "\n";
      if (change["before"].is_null()) continue;
      EXPECT_EQ(change["before"], lines[i]);
      kept = false;
    }
    if (kept) text += lines[i] + "\n";
  }
  std::ofstream(home_ / "changed.sh") << text;
  const nlohmann::json again = JsonOf({"import", home_ / "changed.sh"});
  EXPECT_EQ(again["best"]["plan"], answer["faster"]["plan"]) << "also the chunks of tp_overlap";

  const Finished shown = Run({"import", FileOf("arrays.txt"), "--cluster", "h100-sxm:4x8"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("\none change: "), HasSubstr("\nfaster plan: "),
                               HasSubstr("\nchanged lines of arrays.txt:\n")));
}

TEST_F(ImportVerb, ItsOutputIsReadByTheOtherVerbs) {
  const std::string best = home_ / "imported.json";
  ASSERT_EQ(Run({"import", FileOf("config.yaml"), "--cluster", "h100-sxm:8x8", "--output", best}).exit_code,
            0);
  const std::string plan = "tp=4,pp=4,dp=4,mbs=1,vpp=5,sp=1,zero=1,grad_overlap=1,p2p_overlap=1";
  EXPECT_THAT(Run({"predict", "--input", best}).out, HasSubstr("plan: " + plan));
  EXPECT_THAT(Run({"explain", "--input", best}).out, HasSubstr(plan));
  EXPECT_THAT(Run({"export", "--input", best, "--to", "nemo"}).out,
              HasSubstr("  virtual_pipeline_model_parallel_size: 5\n"));
  const Finished search = Run({"search", "--model", best, "--cluster", "h100-sxm:8x8", "--global-batch",
                               "256", "--predict-only", "--space", "mbs=1", "--space", "tp=4"});
  EXPECT_EQ(search.exit_code, 0) << search.err;
}

TEST_F(ImportVerb, WhatTheLaunchSaysIsRead) {
  std::ofstream(home_ / "run.sh")
      << "torchrun --nnodes $NNODES --nproc-per-node 8 pretrain_gpt.py --num-layers 4 "
         "--hidden-size 256 --num-attention-heads 8 --seq-length 128 "
         "--max-position-embeddings 128 --micro-batch-size 1 --bf16 \"$@\"\n";
  const Finished script =
      Run({"import", home_ / "run.sh", "--env", "NNODES=2", "--", "--tensor-model-parallel-size", "4"});
  EXPECT_EQ(script.exit_code, 0) << script.err;
  EXPECT_THAT(script.out, HasSubstr("your plan: tp=4,pp=1,dp=4,mbs=1\n"));
  for (const std::string verb : {"predict", "explain"}) {
    const Finished same = Run({verb, "--input", home_ / "run.sh", "--cluster", "h100-sxm:2x8", "--env",
                               "NNODES=2", "--", "--tensor-model-parallel-size", "4"});
    EXPECT_EQ(same.exit_code, 0) << same.err;
    EXPECT_THAT(same.out, HasSubstr("tp=4,pp=1,dp=4,mbs=1"));
    const Finished alone = Run({verb, "--env", "NNODES=2"});
    EXPECT_THAT(alone.err, HasSubstr("--env is for --input with a framework's file"));
  }
  std::ofstream(home_ / "ds.json")
      << R"({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                                          "gradient_accumulation_steps": "auto"})";
  std::ofstream(home_ / "train.sh")
      << "BS=2\ndeepspeed --num_gpus 4 train.py --deepspeed ds.json --bf16 True "
         "--per_device_train_batch_size $BS\n";
  const Finished named = Run({"import", home_ / "train.sh", "--model", "gpt2-124m"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(named.out, AllOf(HasSubstr("ranks: 4"), HasSubstr("mbs=2"), HasSubstr("bf16")));
  const Finished wrong = Run({"import", home_ / "run.sh", "--env", "NNODES"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--env: 'NNODES' sets no variable; give NAME=VALUE"));
}

TEST_F(ImportVerb, PredictTakesAFrameworksFile) {
  const Finished predicted = Run({"predict", "--input", FileOf("arrays.txt"), "--cluster", "h100-sxm:4x8"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("plan: tp=4,pp=2,dp=4,mbs=1,sp=1,zero=1,grad_overlap=1"));
  EXPECT_THAT(predicted.err, AllOf(HasSubstr("arrays.txt is read as a file of megatron"),
                                   HasSubstr("autocfg import names the lines to change")));
  const nlohmann::json model =
      JsonOf({"predict", "--input", FileOf("zero3.json"), "--from", "deepspeed", "--model", "llama3-8b",
              "--cluster", "h100-sxm:2x8", "--seq-len", "2048"});
  EXPECT_EQ(model["engine"], "deepspeed");
  EXPECT_EQ(model["plan"]["zero_stage"], 3);
  const Finished without = Run({"predict", "--input", FileOf("arrays.txt")});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("--cluster is missing: a framework's file names none"));
}

TEST_F(ImportVerb, ExplainTakesAFrameworksFile) {
  const std::vector<std::string> asked = {"explain", "--input", FileOf("arrays.txt"), "--cluster",
                                          "h100-sxm:4x8"};
  const Finished explained = Run(asked);
  ASSERT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("plan: tp=4,pp=2,dp=4,mbs=1,sp=1,zero=1,grad_overlap=1"));
  EXPECT_THAT(explained.err, HasSubstr("arrays.txt is read as a file of megatron"));
  EXPECT_EQ(JsonOf(asked)["engine"], "megatron");
  std::vector<std::string> other = asked;
  other.insert(other.end(), {"--plan", "tp=8,pp=1,dp=4,mbs=1"});
  EXPECT_THAT(Run(other).err, HasSubstr("--plan stands in place of the file's plan, tp=4,pp=2,dp=4,"));
  const Finished unknown = Run({"explain", "--input", FileOf("arrays.txt"), "--from", "jax"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--from: unknown framework 'jax'"));
  EXPECT_THAT(Run({"explain", "--from", "nemo"}).err, HasSubstr("--from is for --input"));
}

// A file that leaves the vocabulary to its tokenizer.
TEST_F(ImportVerb, PredictAndExplainTakeTheVocabularyOfAFrameworksFile) {
  std::ifstream whole(FileOf("config.yaml"));
  const std::string file = home_ / "without.yaml";
  std::ofstream without(file);
  for (std::string line; std::getline(whole, line);) {
    if (line.find("override_vocab_size") == std::string::npos) without << line << '\n';
  }
  without.close();
  for (const std::string verb : {"predict", "explain"}) {
    SCOPED_TRACE(verb);
    const std::vector<std::string> asked = {verb, "--input", file, "--cluster", "h100-sxm:8x8"};
    const Finished unknown = Run(asked);
    EXPECT_EQ(unknown.exit_code, 2);
    EXPECT_THAT(unknown.err, HasSubstr("give --vocab"));
    std::vector<std::string> words = asked;
    words.insert(words.end(), {"--vocab", "128256"});
    EXPECT_EQ(Run(words).exit_code, 0) << Run(words).err;
    words.back() = "many";
    EXPECT_THAT(Run(words).err, HasSubstr("--vocab"));
    EXPECT_THAT(Run({verb, "--vocab", "128256"}).err, HasSubstr("--vocab is for --input"));
  }
}

TEST_F(ImportVerb, VerbsThatTakeNoFrameworksFileNameImport) {
  const std::string script = FileOf("arrays.txt"), best = home_ / "best.json";
  const Finished train = Run({"train", "--input", script});
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_THAT(train.err, HasSubstr("arrays.txt is a file of megatron; give a file that autocfg search "
                                   "--output wrote, or what autocfg import "
                                   "--output writes for this one"));
  const Finished search =
      Run({"search", "--model", script, "--cluster", "h100-sxm:4x8", "--global-batch", "8"});
  EXPECT_EQ(search.exit_code, 2);
  EXPECT_THAT(search.err, HasSubstr("a file of megatron, not a model's; autocfg import reads it"));
  ASSERT_EQ(Run({"import", script, "--output", best}).exit_code, 0);
  const Finished answer = Run({"import", best});
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_THAT(answer.err, HasSubstr("best.json: an answer of autocfg, not a framework's file"));
  EXPECT_THAT(Run({"predict", "--input", best, "--vocab", "128256"}).err, HasSubstr("leave --vocab out"));
  const Finished model = Run({"search", "--model", best, "--cluster", "h100-sxm:4x8", "--global-batch", "64",
                              "--predict-only", "--space", "mbs=1", "--space", "tp=4"});
  EXPECT_EQ(model.exit_code, 0) << model.err;
  EXPECT_THAT(model.err, HasSubstr("the model alone is taken; its plan is for the engine megatron"));
}

TEST_F(ImportVerb, EngineAndNodesOfAFileAreKept) {
  const std::string best = home_ / "imported.json";
  ASSERT_EQ(Run({"import", FileOf("arrays.txt"), "--output", best}).exit_code, 0);
  const Finished exported = Run({"export", "--input", best, "--to", "megatron"});
  EXPECT_THAT(exported.out, AllOf(HasSubstr("# cluster: unnamed, 4 nodes of 8 ranks\n"),
                                  HasSubstr("torchrun --nnodes 4 "), HasSubstr(" --nproc-per-node 8 ")));
  const Finished nowhere = Run({"predict", "--input", best});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, AllOf(HasSubstr("--cluster is missing: the file names no cluster; give a preset"),
                                 HasSubstr("h100-sxm:4x8"), Not(HasSubstr("this machine"))));
  EXPECT_EQ(Run({"explain", "--input", best}).err, nowhere.err);
  const std::vector<std::string> asked = {"predict", "--input", best, "--cluster", "h100-sxm:4x8"};
  EXPECT_EQ(JsonOf(asked)["engine"], "megatron");
  std::vector<std::string> own = asked;
  own.insert(own.end(), {"--engine", "autocfg"});
  EXPECT_EQ(JsonOf(own)["engine"], "autocfg");
  EXPECT_EQ(JsonOf({"explain", "--input", best, "--cluster", "h100-sxm:4x8"})["engine"], "megatron");
}

TEST_F(ImportVerb, TheEngineOfASearchIsPredicted) {
  const std::string best = home_ / "best.json";
  ASSERT_EQ(Run({"search", "--model", "llama3-8b", "--cluster", "h100-sxm:1x8", "--global-batch", "64",
                 "--engine", "megatron", "--predict-only", "--space", "mbs=1", "--output", best})
                .exit_code,
            0);
  nlohmann::json answer = nlohmann::json::parse(std::ifstream(best));
  const nlohmann::json predicted = JsonOf({"predict", "--input", best});
  EXPECT_EQ(predicted["engine"], "megatron");
  EXPECT_EQ(predicted["step_time_s"], answer["best"]["predicted"]["step_time_s"]);
  answer["engine"] = "house-engine";
  std::ofstream(best) << answer.dump();
  const Finished unknown = Run({"predict", "--input", best});
  EXPECT_THAT(unknown.err,
              HasSubstr("the plan was found for the engine house-engine; autocfg has no figures"));
}

TEST_F(ImportVerb, AnExportNamesWhatItLacks) {
  const std::string best = home_ / "imported.json";
  ASSERT_EQ(Run({"import", FileOf("zero3.json"), "--model", "llama3-8b", "--output", best}).exit_code, 0);
  const Finished exported = Run({"export", "--input", best, "--to", "deepspeed"});
  EXPECT_EQ(exported.exit_code, 2);
  EXPECT_THAT(exported.err, HasSubstr("does not say on how many nodes its 16 ranks are; write it again with "
                                      "autocfg import --cluster"));
  const Finished script = Run({"export", "--input", FileOf("arrays.txt"), "--to", "megatron"});
  EXPECT_EQ(script.exit_code, 2);
  EXPECT_THAT(
      script.err,
      HasSubstr(
          "is a file of megatron; give a file that autocfg search --output wrote, or what autocfg import "
          "--output writes"));
}

TEST_F(ImportVerb, AdviceIsOnThePlanThatIsAsked) {
  const Finished other = Run({"predict", "--input", FileOf("arrays.txt"), "--cluster", "h100-sxm:4x8",
                              "--plan", "tp=8,pp=2,dp=2,mbs=1,sp=1,zero=1,grad_overlap=1"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, AllOf(HasSubstr(" would take "), Not(HasSubstr("autocfg import"))));
}

TEST_F(ImportVerb, APartOfTheClusterIsNoted) {
  const Finished part = Run({"import", FileOf("arrays.txt"), "--cluster", "h100-sxm:8x8"});
  ASSERT_EQ(part.exit_code, 0) << part.err;
  EXPECT_THAT(part.err,
              HasSubstr("the file trains on 32 ranks, and h100-sxm:8x8 has 64: predicted on a part"));
}

TEST_F(ImportVerb, PlanSaysWhatTheFileLeavesToAScript) {
  const std::vector<std::string> asked = {"import", FileOf("zero3.json"), "--model", "llama3-8b",
                                          "--plan", "recompute=full"};
  const nlohmann::json full = JsonOf(asked);
  EXPECT_EQ(full["best"]["plan"]["recompute"], "full");
  const Finished against = Run({"import", FileOf("arrays.txt"), "--plan", "tp=8"});
  EXPECT_EQ(against.exit_code, 2);
  EXPECT_THAT(against.err,
              HasSubstr("--tensor-model-parallel-size says tp=4, and --plan tp=8; change one of them"));
  const Finished unknown = Run({"import", FileOf("arrays.txt"), "--plan", "recompute=all"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, testing::StartsWith("autocfg: --plan"));
}

TEST_F(ImportVerb, AScriptThatHoldsOrNamesTheFileIsReadAsThatFile) {
  const std::string best = home_ / "best.json", file = home_ / "run.args", script = home_ / "run.sbatch";
  ASSERT_EQ(Run({"search", "--model", "llama3-8b", "--cluster", "h100-sxm:2x8", "--global-batch", "64",
                 "--engine", "megatron", "--predict-only", "--space", "mbs=1", "--output", best})
                .exit_code,
            0);
  ASSERT_EQ(Run({"export", "--input", best, "--to", "megatron", "--output", file}).exit_code, 0);
  ASSERT_EQ(Run({"export", "--input", best, "--to", "sbatch", "--engine", "megatron", "--output", script})
                .exit_code,
            0);
  const nlohmann::json plain = JsonOf({"import", file}), held = JsonOf({"import", script});
  EXPECT_EQ(plain["model"]["name"], "llama3-8b");
  for (const char* key : {"framework", "model", "workload", "ranks", "layout", "best"})
    EXPECT_EQ(held[key], plain[key]) << key;
  EXPECT_EQ(held["file"], "run.sbatch");

  std::ofstream(home_ / "start.sh")
      << "#!/bin/bash\ntorchrun --nproc-per-node 8 pretrain_gpt.py $(cat run.args)\n";
  const nlohmann::json named = JsonOf({"import", home_ / "start.sh"});
  EXPECT_EQ(named["best"], plain["best"]);
  EXPECT_EQ(named["file"], "run.args");
  EXPECT_THAT(named["notes"].dump(), HasSubstr("start.sh names run.args, which was read in its place"));

  std::ofstream(home_ / "other.sh") << "#!/bin/bash\ntorchrun pretrain_gpt.py $(cat gone.args)\n";
  const Finished gone = Run({"import", home_ / "other.sh"});
  EXPECT_EQ(gone.exit_code, 2);
  EXPECT_THAT(gone.err,
              HasSubstr("other.sh:2: the settings stand in gone.args, which is no framework's file"));
  std::ofstream(home_ / "two.sh") << "#!/bin/bash\ntrain run.args\ntrain more.args\n";
  std::ofstream(home_ / "more.args") << "--micro-batch-size 1\n";
  EXPECT_THAT(Run({"import", home_ / "two.sh"}).err, HasSubstr("two.sh: it names run.args and more.args"));
}

TEST_F(ImportVerb, RefusesInOneLine) {
  std::ofstream(home_ / "empty.sh") << "\n";
  std::ofstream(home_ / "large.sh") << std::string(20u << 20, 'a');
  std::ofstream(home_ / "none.txt") << "hello\n";
  std::ofstream(home_ / "small.args") << "--micro-batch-size 1\n";
  std::ofstream(home_ / "tune.yaml") << "finetuning_type: full\nmodel_name_or_path: a/b\n";
  struct Case {
    std::vector<std::string> words;
    std::string says;
  };
  for (const Case& c : {
           Case{{}, "FILE is missing"},
           Case{{home_ / "no-such-file"}, "no-such-file"},
           Case{{home_ / "none.txt"}, "none.txt: its form is that of no framework; name it with --from"},
           Case{{home_ / "small.args", "other.args"}, "'other.args' is not an option; give one file"},
           Case{{home_ / "tune.yaml"},
                "tune.yaml: this is a LLaMA-Factory file, which cannot be read; give model"},
           Case{{home_ / "none.txt", "--from", "megatron"}, "none.txt: no command of it starts"},
           Case{{FileOf("arrays.txt"), "--from", "jax"},
                "--from: unknown framework 'jax'; expected megatron"},
           Case{{home_ / "large.sh"}, "large.sh"},
           Case{{home_ / "empty.sh"}, "empty.sh: it is empty"},
           Case{{FileOf("arrays.txt"), "--ranks", "30"}, "30 ranks do not divide by tp=4 x pp=2"},
           Case{{FileOf("arrays.txt"), "--cluster", "h100-sxm:4x8", "--ranks", "16"},
                "--ranks is 16, and --cluster h100-sxm:4x8 has 32"},
           Case{{FileOf("zero3.json")}, "give --model"},
           Case{{FileOf("llama3.toml"), "--ranks", "0"}, "--ranks"},
           Case{{FileOf("arrays.txt"), "--vocab", "x"}, "--vocab"},
           Case{{FileOf("arrays.txt"), "--cluster", "h100-sxm:1x8"},
                "has 8 ranks, and the file trains on 32"},
           Case{{FileOf("arrays.txt"), "--cluster", "local"}, "--cluster: local has no figures"},
           Case{{FileOf("arrays.txt"), "--memory-margin", "5%"}, "give --cluster too"},
           Case{{FileOf("arrays.txt"), "--output", Missing("/nonexistent/x.json")},
                Missing("--output: /nonexistent/x.json")},
       }) {
    std::vector<std::string> words = c.words;
    words.insert(words.begin(), "import");
    const Finished ended = Run(words);
    EXPECT_EQ(ended.exit_code, 2) << c.says;
    EXPECT_EQ(ended.out, "") << c.says;
    EXPECT_THAT(ended.err, HasSubstr(c.says));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

// The narrowing of a search to what its framework expresses, as `rejected` and notes say it.
TEST_F(ImportVerb, ASearchForAFrameworkRejectsWhatItCannotExpress) {
  const nlohmann::json answer = JsonOf({"search", "--model", "llama3-8b", "--cluster", "h100-sxm:2x8",
                                        "--global-batch", "64", "--engine", "deepspeed", "--predict-only"});
  EXPECT_GT(answer["rejected"]["framework_cannot_express"], 0);
  EXPECT_EQ(answer["best"]["plan"]["sequence_parallel"], 0);
  EXPECT_THAT(answer["not_considered"].dump(), HasSubstr("plans that the files of deepspeed cannot express"));
}

}  // namespace
}  // namespace autocfg::cli
