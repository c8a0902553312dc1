// Launch scripts as people write them: what decides the options of the command that trains, and its ranks.
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/batch_script.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string ScriptWith(const std::string& before, const std::string& launch, const std::string& more) {
  return before + "\ntorchrun " + launch +
         " pretrain_gpt.py --num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 128 "
         "--max-position-embeddings 128 --vocab-size 1000 --micro-batch-size 1 " +
         more + "\n";
}

TEST(LaunchScripts, NamesTheFilesThatAScriptSources) {
  const std::string script =
      "#!/bin/bash\nsource ./env.sh\n. \"$HOME/b.sh\" x\ntorchrun --nnodes 1 --nproc-per-node 4 "
      "pretrain_gpt.py " +
      FlagsWith("");
  std::string line;
  for (const char c : script.substr(script.find("torchrun"))) line += c == '\n' ? ' ' : c;
  const auto run =
      ReadFrameworkFile(kMegatron, "run.sh", script.substr(0, script.find("torchrun")) + line, {});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->notes, Contains("run.sh:2: ./env.sh is not read; what it sets is unknown here"));
  EXPECT_THAT(run->notes, Contains(HasSubstr("run.sh:3: ")));
}

TEST(LaunchScripts, WhatAScriptDoesNotSayIsNamedIfItMatters) {
  const std::string rest =
      " --hidden-size 256 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 "
      "--vocab-size 1000 "
      "--micro-batch-size 1 --save $(date)\n";
  const auto status = [&](const std::string& script) {
    return std::string(ReadFrameworkFile(kMegatron, "a.sh", script + rest).status().message());
  };
  EXPECT_EQ(
      status("torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers $LAYERS"),
      "a.sh:1: --num-layers has no value that can be known: $LAYERS is not set in the file; write the value");
  EXPECT_THAT(status("N=$(nproc)\ntorchrun --nproc-per-node $N pretrain_gpt.py --num-layers 4"),
              HasSubstr("line 2: the number of ranks cannot be known: $(nproc) is not run; give --ranks"));
  EXPECT_THAT(
      status("if [ -f x ]; then L=4; fi\ntorchrun --nproc-per-node 8 pretrain_gpt.py --num-layers $L"),
      HasSubstr("$L is set under a condition"));
  EXPECT_EQ(status("torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers ${LAYERS:-4}"), "");
  const auto noted = ReadFrameworkFile(
      kMegatron, "a.sh",
      "torchrun --nproc-per-node 8 pretrain_gpt.py --bf16 $(cat more) --num-layers 4" + rest);
  ASSERT_TRUE(noted.ok()) << noted.status();  // --bf16 takes no value
  EXPECT_THAT(noted->notes,
              Contains("a.sh:1: $(cat more) is not run; it may hold more options, which were not read"));
}

// Options of both branches of a condition that only a run would decide.
TEST(LaunchScripts, OptionsThatAConditionSetsAreAnErrorIfTheyMatter) {
  const auto status = [](const std::string& before, const std::string& more) {
    return std::string(ReadFrameworkFile(kMegatron, "a.sh", ScriptWith(before, "--nproc-per-node 8", more))
                           .status()
                           .message());
  };
  const std::string says =
      "--tensor-model-parallel-size has no value that can be known: $PAR is set under a condition";
  for (const char* before :
       {"if [ $(nproc) -gt 4 ]; then PAR=(--tensor-model-parallel-size 8); else "
        "PAR=(--tensor-model-parallel-size 2); fi",
        "PAR=(--tensor-model-parallel-size 2)\nif [ -f x ]; then PAR=(--sequence-parallel); fi",
        "case $1 in a) PAR=(--tensor-model-parallel-size 8) ;; *) PAR=() ;; esac"}) {
    EXPECT_THAT(status(before, "\"${PAR[@]}\""), HasSubstr(says)) << before;
  }
  EXPECT_THAT(status("if [ -f x ]; then PAR='--tensor-model-parallel-size 8'; else PAR=''; fi", "$PAR"),
              HasSubstr(says));
  EXPECT_EQ(
      status("if [ -f x ]; then PAR=(--log-interval 1); else PAR=(--log-interval 10); fi", "\"${PAR[@]}\""),
      "");
}

TEST(LaunchScripts, RanksAreThoseOfTheLauncher) {
  struct Case {
    const char* launcher;
    std::int64_t ranks, ranks_per_node;
  };
  for (const Case& c : {
           Case{"mpirun -np 16 python", 16, 16},
           Case{"mpiexec -n 4 python3", 4, 4},
           Case{"srun -N 2 -n 16 python", 16, 8},
           Case{"srun --nodes=2 --ntasks-per-node=8 python -u", 16, 8},
           Case{"srun -N 4 --ntasks-per-node=1 torchrun --nnodes 4 --nproc-per-node 8", 32, 8},
           Case{"accelerate launch --num_processes 8 --num_machines 2", 8, 4},
           Case{"/opt/bin/deepspeed --num_gpus 8 --num_nodes=2", 16, 8},
           Case{"python -m torch.distributed.run --standalone --nproc_per_node=4", 4, 4},
       }) {
    std::string script = ScriptWith("", "", "");
    script.replace(script.find("torchrun"), 8, c.launcher);
    const auto run = ReadFrameworkFile(kMegatron, "a.sh", script);
    ASSERT_TRUE(run.ok()) << c.launcher << ": " << run.status();
    EXPECT_EQ(run->ranks, c.ranks) << c.launcher;
    EXPECT_EQ(run->ranks_per_node, c.ranks_per_node) << c.launcher;
  }
}

TEST(LaunchScripts, SrunTakesWhatItIsNotToldFromItsBatchScript) {
  for (const auto& [directives, launcher] :
       {std::pair("#SBATCH --nodes=2", "srun --ntasks-per-node=8 python"),
        {"#SBATCH --nodes=2 --ntasks-per-node=4", "srun -n 16 python"},
        {"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8", "srun python"},
        {"#SBATCH -N 2 -n 16", "srun python"},
        {"#SBATCH --nodes=4 --ntasks-per-node=8", "srun --nodes=2 python"}}) {
    std::string script = ScriptWith(directives, "", "");
    script.replace(script.find("torchrun"), 8, launcher);
    const auto run = ReadFrameworkFile(kMegatron, "a.sh", script);
    ASSERT_TRUE(run.ok()) << directives << ": " << run.status();
    EXPECT_EQ(run->ranks, 16) << directives << " " << launcher;
    EXPECT_EQ(run->ranks_per_node, 8) << directives << " " << launcher;
  }
}

TEST(LaunchScripts, AMissingSettingThatIsMisspeltIsNamed) {
  std::string script = ScriptWith("", "--nproc-per-node 8", "");
  script.replace(script.find("--hidden-size"), 13, "--hiden-size");
  EXPECT_EQ(ReadFrameworkFile(kMegatron, "a.sh", script).status().message(),
            "a.sh:2: --hiden-size is unknown; did you mean --hidden-size?");
  ReadingOptions options;
  options.ranks = 8;
  EXPECT_EQ(
      ReadFrameworkFile(kTorchtitan, "a.toml", "[model]\nname = \"llama3\"\nflavour = \"8B\"\n", options)
          .status()
          .message(),
      "a.toml:3: model.flavour is unknown; did you mean model.flavor?");
  EXPECT_THAT(std::string(ReadFrameworkFile(kMegatron, "a.sh",
                                            "torchrun --nproc-per-node 8 pretrain_gpt.py ${TRAINS[@]}\n")
                              .status()
                              .message()),
              HasSubstr("; of line 1, ${TRAINS[@]} is not set in the file; give the script"));
}

TEST(LaunchScripts, SlurmsVariablesAreThoseOfItsLines) {
  struct Case {
    const char* before;
    const char* launch;
    std::int64_t ranks, ranks_per_node;
  };
  for (const Case& c : {
           Case{"#SBATCH --nodes=8", "--nnodes ${SLURM_NNODES:-4} --nproc-per-node 8", 64, 8},
           Case{"#SBATCH -N 2 --gpus-per-node=h100:4\nN=$SLURM_JOB_NUM_NODES",
                "--nnodes $N --nproc-per-node $SLURM_GPUS_ON_NODE", 8, 4},
           Case{"#SBATCH --gres=gpu:8", "--nproc-per-node $SLURM_GPUS_ON_NODE", 8, 8},
           Case{"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4",
                "--nnodes $((SLURM_NTASKS / 4)) --nproc-per-node $SLURM_NTASKS_PER_NODE", 8, 4},
           Case{"#SBATCH --nodes=2 --ntasks=6",
                "--nnodes 2 --nproc-per-node $((SLURM_NPROCS / SLURM_NNODES))", 6, 3},
           Case{"##SBATCH --nodes=8", "--nnodes ${SLURM_NNODES:-4} --nproc-per-node 8", 32, 8},
       }) {
    const auto run = ReadFrameworkFile(kMegatron, "a.sh", ScriptWith(c.before, c.launch, ""));
    ASSERT_TRUE(run.ok()) << c.before << ": " << run.status();
    EXPECT_EQ(run->ranks, c.ranks) << c.before;
    EXPECT_EQ(run->ranks_per_node, c.ranks_per_node) << c.before;
  }
  // A number of nodes that the job may choose is no value.
  const auto range = ReadFrameworkFile(
      kMegatron, "a.sh", ScriptWith("#SBATCH --nodes=4-8", "--nnodes $SLURM_NNODES --nproc-per-node 8", ""));
  EXPECT_THAT(std::string(range.status().message()), HasSubstr("$SLURM_NNODES is not set in the file"));
}

TEST(LaunchScripts, OptionsOfABranchThatRunsAreRead) {
  const std::string before =
      "FP8=${FP8:-1} FSDP=0\nA=()\nif [[ \"$FP8\" == 1 ]]; then\n  A+=( \"--fp8-format hybrid\" )\nfi\n"
      "if [ $FSDP -eq 1 ]; then A+=( --use-torch-fsdp2 ); else A+=( --use-distributed-optimizer ); fi";
  const auto run = ReadFrameworkFile(kMegatron, "a.sh", ScriptWith(before, "--nproc-per-node 8", "${A[@]}"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PrecisionText(run->workload.precision), "fp8");
  EXPECT_EQ(run->plan.zero_stage, 1);
  ParallelPlan plan = run->plan;
  plan.zero_stage = 0;
  const auto changed = ChangePlan(*run, plan, {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, AllOf(HasSubstr("--fp8-format hybrid"), Not(HasSubstr("--use-distributed"))));
}

TEST(LaunchScripts, ATextThatAShellReadsAgainEndsWithItsCommand) {
  for (const char* end : {"; sleep 600", " ; sleep 600", " && rm x", " 2>&1 | tee log --fp16", " > log"}) {
    std::string script = ScriptWith("", "--nproc-per-node 8", "--bf16");
    script = "srun sh -c \"cd x && " + script.substr(1, script.size() - 2) + end + "\"\n";
    const auto run = ReadFrameworkFile(kMegatron, "a.sh", script);
    ASSERT_TRUE(run.ok()) << script << run.status();
    EXPECT_EQ(run->ranks, 8);
    EXPECT_EQ(PrecisionText(run->workload.precision), "bf16");
  }
}

// Variables in single quotes are those of the shell that reads the text.
TEST(LaunchScripts, ATextInSingleQuotesIsExpandedByTheShellThatReadsIt) {
  const std::string before =
      "export LAUNCHER=\"python -u -m torch.distributed.launch --nproc_per_node 4 --nnodes $NNODES\"\n"
      "export CMD=\"pretrain_gpt.py --num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length "
      "128 "
      "--max-position-embeddings 128 --vocab-size 1000 --micro-batch-size 1 --fp16\"\n";
  for (const char* start :
       {"srun bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD' 2>&1 | tee out.log",
        "clear; srun --jobid $SLURM_JOBID bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD'",
        "srun /bin/bash -lc 'cd x && NCCL_DEBUG=INFO $LAUNCHER $CMD --save $(date)'",
        "srun bash -c \"$LAUNCHER --node_rank \\$SLURM_PROCID $CMD\"", "sh -c 'bash -c \"$LAUNCHER $CMD\"'",
        "eval '$LAUNCHER $CMD; sleep 60'", "srun bash -c 'for i in 1; do $LAUNCHER $CMD; done'"}) {
    const auto run =
        ReadFrameworkFile(kMegatron, "a.slurm", absl::StrCat("NNODES=16\n", before, start, "\n"));
    ASSERT_TRUE(run.ok()) << start << ": " << run.status();
    EXPECT_EQ(run->ranks, 64) << start;
    EXPECT_EQ(run->model.layers, 4) << start;
    EXPECT_EQ(BaseName(run->workload.precision), "fp16") << start;
  }
  // Its values are changed where the variable has them.
  const std::string script = absl::StrCat("NNODES=2\n", before, "bash -c '$LAUNCHER $CMD'\n");
  const auto run = ReadFrameworkFile(kMegatron, "a.sh", script);
  ASSERT_TRUE(run.ok()) << run.status();
  ParallelPlan plan = run->plan;
  plan.micro_batch = 2;
  ReadingOptions options;
  const auto changed = ChangePlan(*run, plan, options);
  EXPECT_THAT(changed.ok() ? changed->text : "", testing::AnyOf("", HasSubstr("--micro-batch-size 2")));
  // Quotes that do not end leave the command as it is; a text that repeats itself ends.
  EXPECT_FALSE(ReadFrameworkFile(kMegatron, "a.sh", "bash -c \"pretrain_gpt.py 'x\"\n").ok());
  EXPECT_FALSE(ReadFrameworkFile(kMegatron, "a.sh", "A='eval $A $A'\neval $A\n").ok());
}

TEST(LaunchScripts, ScriptsOfOldReleases) {
  const std::string script =
      "#!/bin/bash\nVOCAB_FILE=gpt2-vocab.json\ndeepspeed --num_nodes 2 --num_gpus 4 pretrain_gpt2.py "
      "--model-parallel-size 2 --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --batch-size 4 "
      "--seq-length 1024 --max-position-embeddings 1024 --vocab-file $VOCAB_FILE --fp16\n";
  EXPECT_EQ(FrameworkOf(script), kMegatron);
  const auto old = ReadFrameworkFile(kMegatron, "old.sh", script);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(PlanText(old->plan), "tp=2,pp=1,dp=4,mbs=4");
  EXPECT_THAT(old->notes, Contains("old.sh:3: --model-parallel-size is of Megatron-LM before 2.0: read as "
                                   "--tensor-model-parallel-size"));
  const auto twice = ReadFrameworkFile(kMegatron, "old.sh",
                                       absl::StrReplaceAll(script, {{"--fp16", "--micro-batch-size 4"}}));
  EXPECT_EQ(twice.status().message(),
            "old.sh:3: --batch-size contradicts --micro-batch-size of line 3; leave one of them");
  const auto without =
      ReadFrameworkFile(kMegatron, "a.sh",
                        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-attention-heads 16 --num-layers 4 "
                        "--hidden-size 64 --seq-length 64 --max-position-embeddings 64\n");
  EXPECT_THAT(std::string(without.status().message()), HasSubstr("--micro-batch-size is missing; add it"));
}

TEST(LaunchScripts, FilesOfDataAndTokenizersAreNoSettings) {
  const auto named = [](const std::string& line) {
    std::string all;
    for (const NamedFile& file : FilesNamedBy(line + "\n")) all += file.path + " ";
    return all;
  };
  for (const char* line :
       {"VOCAB_FILE=gpt2-vocab.json", "x --vocab-file $DIR/gpt2.json", "--merge-file a.json",
        "DATA_PATH=/x/alpaca.json", "x --train_data_file=a.json", "tokenizer_config.json"})
    EXPECT_EQ(named(line), "") << line;
  EXPECT_EQ(named("x --deepspeed $DIR/ds.json"), "ds.json ");
  EXPECT_EQ(named("x --deepspeed ${DATA_DIR}/ds.json"), "ds.json ");
  EXPECT_EQ(named("cat /data/run.args"), "/data/run.args ");
}

TEST(LaunchScripts, ACommandThatIsEvaluatedEndsAtItsPipe) {
  std::string script = ScriptWith("", "--nproc-per-node 8", "--bf16");
  script = "C=\"" + script.substr(1, script.size() - 2) + "\"\nC=\"$C |& tee log\"\necho $C\neval $C\n";
  const auto run = ReadFrameworkFile(kMegatron, "a.sh", script);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PrecisionText(run->workload.precision), "bf16");
}

TEST(LaunchScripts, WhatAConditionAddsMattersByItsOptions) {
  const std::string launch = "--nproc-per-node 8";
  const auto status = [&](const std::string& added) {
    const std::string before = "A=( --bf16 )\nif [ -n \"$P\" ]; then\n  A+=( " + added + " )\nfi";
    return std::string(
        ReadFrameworkFile(kMegatron, "a.sh", ScriptWith(before, launch, "\"${A[@]}\"")).status().message());
  };
  EXPECT_EQ(status("--profile"), "");
  EXPECT_EQ(status("--save-interval 100 --profile"), "");
  EXPECT_EQ(status("--use-torch-fsdp2"),
            "a.sh:3: --use-torch-fsdp2 cannot be read: PyTorch's FSDP in Megatron is not modelled; "
            "--use-megatron-fsdp is; $A gets it under a condition: leave it out if it does not hold");
  EXPECT_EQ(
      status("--ring-parallel-size 2"),
      "a.sh:3: --ring-parallel-size is unknown to autocfg, and by its name it may change how the work is "
      "split ($A gets it under a condition); leave it out to predict without it");
  EXPECT_EQ(
      status("--tensor-model-parallel-size 2"),
      "a.sh:3: --tensor-model-parallel-size has no value that can be known: $A gets it under a condition; "
      "write the value");
}

TEST(LaunchScripts, ModulesOfAnArrayAreRead) {
  for (const char* before :
       {"R=(\n  --recompute-granularity selective\n  --recompute-modules mlp layernorm\n)",
        "R=(--recompute-activations --recompute-modules mlp layernorm --log-interval 1)",
        "M=\"mlp layernorm\"\nR=(--recompute-activations --recompute-modules $M)",
        "M=(mlp layernorm)\nR=(--recompute-activations --recompute-modules \"${M[@]}\")"}) {
    const auto run = ReadFrameworkFile(
        kMegatron, "a.sh", ScriptWith(before, "--nproc-per-node 8", "--bf16 \"${R[@]}\" --log-throughput"));
    ASSERT_TRUE(run.ok()) << before << ": " << run.status();
    EXPECT_EQ(RecomputeText(run->plan), "selective:mlp") << before;
    EXPECT_THAT(run->notes, Contains(HasSubstr("names layernorm, which has nothing to act on"))) << before;
  }
  const auto unknown = ReadFrameworkFile(
      kMegatron, "a.sh",
      ScriptWith("", "--nproc-per-node 8", "--recompute-activations --recompute-modules $M --bf16"));
  EXPECT_THAT(std::string(unknown.status().message()),
              HasSubstr("--recompute-modules has no value that can be known: $M is not set in the file"));
}

TEST(LaunchScripts, ArithmeticNamesWhatIsUnknown) {
  const auto run = ReadFrameworkFile(
      kMegatron, "a.sh",
      ScriptWith("MBS=1 DP=$WORLD", "--nproc-per-node 8", "--global-batch-size $((MBS*4*DP))"));
  EXPECT_EQ(
      run.status().message(),
      "a.sh:2: --global-batch-size has no value that can be known: $((MBS*4*DP)) is not computed: $WORLD is "
      "not set in the file; write the value");
}

}  // namespace
}  // namespace autocfg
