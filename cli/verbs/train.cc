// autocfg train: runs one plan on this machine, without a coordinator.
#include <memory>
#include <utility>

#include "cli/terminal/console.h"
#include "cli/train/train_options.h"
#include "cli/train/train_run.h"
#include "cli/train/train_runner.h"
#include "cli/verbs/verbs.h"
#include "search/text/plan_json.h"

namespace autocfg::cli {
namespace {

int RunTrain(const TrainArgs& args) {
  auto run = LoadTrainRun(args);
  if (!run.ok()) return Fail(run.status());
  if (auto status = CheckTogether(args, *run); !status.ok()) return Fail(status);
  if (auto status = CheckFiles(args, *run); !status.ok()) return Fail(kExitUsage, Text(status));
  if (auto status = CheckFits(*run); !status.ok()) return Fail(kExitNegative, Text(status));
  return CarryOut(*std::move(run), args);
}

}  // namespace

void AddTrain(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("train", "train with one plan on this machine");
  const auto args = std::make_shared<TrainArgs>();
  verb->add_option("--model", args->model, "a preset, or a model's JSON file");
  verb->add_option("--plan", args->plan, "such as tp=2,pp=1,dp=1,mbs=4,recompute=full");
  verb->footer("Options of a plan:\n" + PlanOptionsHelp());
  verb->add_option("--input", args->input, "a file of search --output: its model, plan and workload");
  verb->add_option("--steps", args->steps, "steps to train");
  verb->add_option("--global-batch", args->global_batch, "sequences per step (default: dp*mbs)");
  verb->add_option("--seq-len", args->seq_len,
                   "tokens per sequence, such as 8192 or 8k (k is 1024; default: the model's max_seq_len)");
  verb->add_option("--precision", args->precision,
                   "on the CPU fp32 (default) or fp64; on GPUs bf16 (default) or fp32; with --device dry any "
                   "of four, with paced bf16 by default; types of states may follow: "
                   "bf16:grads=bf16,moments=bf16,master=none");
  AddOptimizerChoice(verb, args->choice);
  verb->add_option(
      "--data", args->data,
      "tokens: .u16, .u32, .bin (of nanoGPT or llm.c), a Megatron .bin with its .idx (or their prefix), "
      "else bytes (default: a seeded pattern)");
  verb->add_option("--device", args->device,
                   "auto (a GPU where one can be used, else the CPU), cpu, cuda, dry (counts memory, "
                   "computes nothing), or paced (every op takes its modelled time)");
  verb->add_option("--cluster", args->cluster,
                   "the cluster that --device paced emulates: a preset with its size, or a file");
  verb->add_option("--init", args->init, "start from these weights (safetensors)");
  verb->add_option("--save", args->save, "write the weights here at the end (safetensors)");
  verb->add_option("--checkpoint", args->checkpoint,
                   "write checkpoints in this directory; the last two are kept");
  verb->add_option("--save-every", args->save_every,
                   "write a checkpoint every N steps (default: one, after the last step or at Ctrl-C)");
  verb->add_option("--resume", args->resume,
                   "continue from the newest checkpoint of this directory, under any plan; --steps counts "
                   "from the start");
  verb->add_option("--seed", args->seed, "seed of the initial weights and the pattern")
      ->capture_default_str();
  AddOptimizerOptions(verb, args->optimizer);
  verb->add_flag("--json", args->json, "the result as JSON");
  verb->add_option("--trace", args->trace,
                   "write the timeline of the last step here (Chrome trace, for Perfetto); - for standard "
                   "output, all else then goes to standard error");
  verb->add_option("--trace-steps", args->trace_steps, "trace the last N steps (default: 1)");
  verb->add_option("--trace-ranks", args->trace_ranks,
                   "trace these ranks, such as 0,8, or all (default: all if the file stays below 20 MB, else "
                   "one of each pipeline stage)");
  verb->add_option(
      "--log", args->log,
      "write a row for each step here: loss, gradient norm, time, tokens/s, MFU, memory; .csv or "
      ".jsonl");
  verb->add_option("--slice", args->slice,
                   "T,P: run the rank at these tensor and pipeline coordinates alone, without its peers");
  verb->callback([args, &chosen] { chosen = [args] { return RunTrain(*args); }; });
}

}  // namespace autocfg::cli
