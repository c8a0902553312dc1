// Settings whose effect depends on others: what torchtitan and NeMo make of a precision, a batch and an
// optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/export_target.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A file of torchtitan for 8 ranks, with these lines in its tables.
std::string Titan(const std::string& training, const std::string& parallelism,
                  const std::string& model = "") {
  return absl::StrCat("[model]\nname = \"llama3\"\nflavor = \"8B\"\n", model, "[training]\nseq_len = 2048\n",
                      training, "[parallelism]\n", parallelism);
}

absl::StatusOr<FrameworkRun> Read(std::string_view framework, const std::string& text) {
  ReadingOptions options;
  options.ranks = 8;
  return ReadFrameworkFile(framework, "f", text, options);
}

std::string PrecisionOf(const std::string& text) {
  const auto run = Read(kTorchtitan, text);
  return run.ok() ? PrecisionText(run->workload.precision) : std::string(run.status().message());
}

// torchtitan/distributed/utils.py, maybe_enable_amp.
TEST(SettingsTogether, TorchtitanHasMixedPrecisionOnlyWithShardingOrAlone) {
  const std::string one = "data_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 1\n";
  EXPECT_EQ(PrecisionOf(Titan("local_batch_size = 8\n", "")), "bf16") << "all ranks shard";
  EXPECT_EQ(PrecisionOf(Titan("", one + "tensor_parallel_degree = 8\n")), "fp32");
  EXPECT_EQ(PrecisionOf(Titan("", one + "pipeline_parallel_degree = 8\n")), "fp32");
  const auto run = Read(kTorchtitan, Titan("", one + "tensor_parallel_degree = 8\n"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->notes,
              Contains(HasSubstr("mixed_precision_param has no effect with tp or pp on one data")));
  EXPECT_EQ(PrecisionOf(Titan("mixed_precision_param = \"float32\"\n", "")), "fp32");
  EXPECT_THAT(PrecisionOf(Titan("mixed_precision_param = \"float16\"\n", "")),
              HasSubstr("is 'float16'; give bfloat16 or float32"));
  EXPECT_THAT(PrecisionOf(Titan("dtype = \"bfloat16\"\n", "")),
              HasSubstr("training.dtype is 'bfloat16': states without a copy in fp32 are not modelled"));
}

TEST(SettingsTogether, TorchtitanNamesItsFloat8InTwoWays) {
  EXPECT_EQ(PrecisionOf(Titan("", "", "converters = [\"float8\"]\n")), "fp8");
  EXPECT_EQ(PrecisionOf(Titan("", "", "converters = [\"quantize.linear.float8\"]\n")), "fp8");
}

TEST(SettingsTogether, TorchtitanNamesItsMicroscalingInTwoWays) {
  EXPECT_EQ(PrecisionOf(Titan("", "", "converters = [\"mx\"]\n")), "mxfp8");
  EXPECT_EQ(PrecisionOf(Titan("", "", "converters = [\"quantize.linear.mx\"]\n")), "mxfp8");
  EXPECT_THAT(PrecisionOf(Titan("", "", "converters = [\"quantize.grouped_mm.mx\"]\n")),
              HasSubstr("has quantize.grouped_mm.mx, which is not modelled"));
  EXPECT_THAT(PrecisionOf(Titan("", "", "converters = [\"mx\"]\n[mx]\nrecipe_name = \"mxfp4_cutlass\"\n")),
              HasSubstr("fp4 is not modelled"));
}

// The schedule runs over the local batch; a larger global batch repeats it.
TEST(SettingsTogether, TorchtitanRunsItsPipelineOncePerLocalBatch) {
  const std::string stages = "data_parallel_shard_degree = 1\npipeline_parallel_degree = 8\n";
  EXPECT_EQ(PrecisionOf(Titan("local_batch_size = 16\nglobal_batch_size = 16\n", stages)), "fp32");
  EXPECT_THAT(PrecisionOf(Titan("local_batch_size = 4\nglobal_batch_size = 16\n", stages)),
              HasSubstr("training.local_batch_size = 4 on 1 data ranks runs the pipeline several times"));
}

// Megatron core 0.15, megatron/training/arguments.py (validate_args) and distributed_data_parallel.py
// (grad_dtype); docs of the distributed optimizer and of the precision-aware one.
std::string StatesOf(const std::string& flags) {
  const auto run = Read(kMegatron,
                        "--num-layers 4\n--hidden-size 64\n--num-attention-heads 4\n--seq-length 32\n"
                        "--max-position-embeddings 32\n--micro-batch-size 1\n--global-batch-size 8\n"
                        "--tokenizer-type NullTokenizer\n--vocab-size 255\n" +
                            flags);
  return run.ok() ? StatesText(run->workload) : std::string(run.status().message());
}

TEST(SettingsTogether, MegatronHasTypesOfGradients) {
  EXPECT_EQ(StatesOf("--bf16\n"), "bf16");
  EXPECT_EQ(StatesOf("--bf16\n--grad-reduce-in-bf16\n"), "bf16:grads=bf16");
  EXPECT_EQ(StatesOf("--bf16\n--accumulate-allreduce-grads-in-fp32\n"), "bf16");
  EXPECT_EQ(StatesOf("--fp16\n"), "fp16:grads=fp16");
  EXPECT_EQ(StatesOf("--fp16\n--accumulate-allreduce-grads-in-fp32\n"), "fp16");
  EXPECT_THAT(StatesOf("--grad-reduce-in-bf16\n"), HasSubstr("needs --bf16; add it"));
}

// Megatron core 0.15, megatron/core/enums.py (Fp8Recipe, Fp4Recipe) and arguments.py.
TEST(SettingsTogether, MegatronNamesFormatsOfProducts) {
  EXPECT_EQ(StatesOf("--bf16\n--fp8-format hybrid\n"), "fp8") << "with delayed scaling";
  EXPECT_EQ(StatesOf("--bf16\n--fp8-format e4m3\n--fp8-recipe tensorwise\n"), "fp8");
  EXPECT_EQ(StatesOf("--bf16\n--fp8-format e4m3\n--fp8-recipe blockwise\n"), "fp8_block");
  EXPECT_EQ(StatesOf("--bf16\n--fp8-format e4m3\n--fp8-recipe mxfp8\n--grad-reduce-in-bf16\n"),
            "mxfp8:grads=bf16");
  EXPECT_EQ(StatesOf("--bf16\n--fp4-format e2m1\n"), "nvfp4");
  EXPECT_EQ(StatesOf("--bf16\n--fp8-recipe mxfp8\n"), "bf16") << "a recipe alone does nothing";
  EXPECT_THAT(
      StatesOf("--bf16\n--fp8-format e4m3\n--fp8-recipe custom\n"),
      HasSubstr("--fp8-recipe is 'custom', which is not modelled; give delayed, tensorwise, blockwise or"));
  EXPECT_THAT(StatesOf("--bf16\n--fp4-format e2m1\n--fp4-recipe custom\n"),
              HasSubstr("--fp4-recipe is 'custom', which is not modelled; give nvfp4"));
  EXPECT_THAT(StatesOf("--bf16\n--fp4-format e2m1\n--fp8-format e4m3\n"), HasSubstr("leave one of them"));
}

// deepspeed/runtime/engine.py: get_data_types, and what _do_optimizer_sanity_check refuses.
TEST(SettingsTogether, DeepSpeedSumsInTheTypeOfTheRunUnderZero) {
  ReadingOptions options;
  options.ranks = 8;
  options.model = *ModelPreset("llama3-8b");
  options.seq_len = 2048;
  const auto states = [&](const std::string& stage, const std::string& sums, const char* type = "bf16") {
    const std::string text =
        absl::StrCat("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 1, \"", type,
                     "\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": ", stage, "}",
                     sums.empty() ? "" : ", \"data_types\": {\"grad_accum_dtype\": \"" + sums + "\"}", "}");
    const auto run = ReadFrameworkFile(kDeepSpeed, "ds.json", text, options);
    return run.ok() ? StatesText(run->workload) : std::string(run.status().message());
  };
  EXPECT_EQ(states("1", ""), "bf16:grads=bf16");
  EXPECT_EQ(states("3", ""), "bf16:grads=bf16");
  EXPECT_EQ(states("1", "fp32"), "bf16");
  EXPECT_EQ(states("0", ""), "bf16") << "its optimizer for bf16 sums in fp32";
  EXPECT_THAT(states("0", "bf16"),
              HasSubstr("data_types.grad_accum_dtype is bf16, for which DeepSpeed needs ZeRO"));
  EXPECT_THAT(states("1", "fp16"), HasSubstr("is 'fp16'; fp32 and the type of the run can be read"));
  EXPECT_EQ(states("1", "", "fp16"), "fp16");
}

TEST(SettingsTogether, MegatronHasAPrecisionAwareOptimizer) {
  const std::string types =
      "--main-grads-dtype bf16\n--main-params-dtype fp16\n--exp-avg-dtype bf16\n"
      "--exp-avg-sq-dtype bf16\n";
  const std::string aware = "--bf16\n--use-distributed-optimizer\n--use-precision-aware-optimizer\n";
  EXPECT_EQ(StatesOf(aware + types), "bf16:grads=bf16,moments=bf16,master=fp16");
  EXPECT_EQ(StatesOf(aware), "bf16");
  EXPECT_THAT(StatesOf("--bf16\n" + types), HasSubstr("needs --use-precision-aware-optimizer; add it"));
  EXPECT_THAT(StatesOf("--bf16\n--use-precision-aware-optimizer\n"),
              HasSubstr("needs --use-distributed-optimizer; add it"));
  EXPECT_THAT(StatesOf(aware + "--exp-avg-dtype bf16\n"),
              HasSubstr("--exp-avg-dtype is bf16, and the other moment is fp32"));
  EXPECT_THAT(StatesOf(aware + "--accumulate-allreduce-grads-in-fp32\n--main-grads-dtype bf16\n"),
              HasSubstr("leave one of them"));
  EXPECT_THAT(StatesOf("--bf16\n--use-distributed-optimizer\n--optimizer sgd\n"),
              HasSubstr("it has adam alone, so leave it out"));
  EXPECT_THAT(StatesOf(aware + "--exp-avg-dtype fp8\n--exp-avg-sq-dtype fp8\n"),
              HasSubstr("--exp-avg-dtype is 'fp8', which is not modelled; give fp32, bf16 or fp16"));
}

TEST(SettingsTogether, MegatronHasOtherOptimizers) {
  EXPECT_EQ(StatesOf("--bf16\n--optimizer sgd\n"), "bf16, sgd with momentum 0.9");
  EXPECT_EQ(StatesOf("--bf16\n--optimizer sgd\n--sgd-momentum 0\n"), "bf16, sgd");
  EXPECT_EQ(StatesOf("--bf16\n--optimizer muon\n"), "bf16, muon");
  EXPECT_THAT(StatesOf("--bf16\n--optimizer lamb\n"),
              HasSubstr("--optimizer is 'lamb', which is not modelled"));
  EXPECT_THAT(StatesOf("--bf16\n--optimizer dist_muon\n"), HasSubstr("'dist_muon', which is not modelled"));
}

// What its file says is read back, and what it lacks is named.
TEST(SettingsTogether, MegatronWritesTypesOfStates) {
  ExportedRun run;
  run.model = {.layers = 4, .hidden = 64, .heads = 4, .vocab = 255, .max_seq_len = 32};
  FillDefaults(run.model);
  run.workload = {.global_batch = 8, .seq_len = 32};
  const auto written = [&](const char* precision, const char* optimizer, std::optional<double> momentum,
                           std::int64_t zero) {
    run.plan = {{.dp = 8}, {}, {}, {}, {.zero_stage = zero}};
    run.workload.precision = *ParsePrecision(precision);
    EXPECT_TRUE(SetOptimizer(optimizer, momentum, run.workload).ok());
    const auto file = Export(run, *FindExportTarget(kMegatron));
    if (!file.ok()) return std::string(file.status().message());
    const auto back = Read(kMegatron, file->text);
    return back.ok() ? StatesText(back->workload) : std::string(back.status().message());
  };
  for (const char* precision : {"bf16", "bf16:grads=bf16", "fp16", "fp16:grads=fp16", "bf16:moments=bf16",
                                "bf16:grads=bf16,moments=fp16,master=fp16"})
    EXPECT_EQ(written(precision, "", std::nullopt, 1), precision);
  EXPECT_EQ(written("bf16", "sgd", 0.5, 0), "bf16, sgd with momentum 0.5");
  EXPECT_THAT(written("bf16", "muon", std::nullopt, 0), HasSubstr("optimizer=muon (it has adam and sgd)"));
  EXPECT_THAT(written("bf16", "sgd", std::nullopt, 1), HasSubstr("optimizer=sgd with zero=1"));
  EXPECT_THAT(written("bf16:master=none", "", std::nullopt, 1), HasSubstr("cannot express master=none"));
  EXPECT_THAT(written("bf16:moments=int8", "", std::nullopt, 1), HasSubstr("cannot express moments=int8"));
  EXPECT_THAT(written("bf16:moments=bf16", "", std::nullopt, 0),
              HasSubstr("without its distributed optimizer"));
  EXPECT_THAT(written("bf16", "lion", std::nullopt, 1), HasSubstr("cannot express optimizer=lion"));
}

TEST(SettingsTogether, OptimizersOfOtherFrameworksAreReadOrRefused) {
  const auto nemo = [](const std::string& name) {
    const auto run = Read(kNemo, SmallFile(kNemo, "model.optim.name", name));
    return run.ok() ? StatesText(run->workload) : std::string(run.status().message());
  };
  EXPECT_THAT(nemo("fused_adam"), testing::Not(HasSubstr(",")));
  EXPECT_THAT(nemo("sgd"), HasSubstr(", sgd"));
  EXPECT_THAT(nemo("novograd"), HasSubstr("'novograd', which is not modelled"));
  const auto deepspeed = [](const std::string& name, const nlohmann::json& value) {
    ReadingOptions options{.ranks = 8, .seq_len = 32};
    options.model = {.layers = 4, .hidden = 64, .heads = 4, .vocab = 255, .max_seq_len = 32};
    const auto run = ReadFrameworkFile(kDeepSpeed, "f", SmallFile(kDeepSpeed, name, value), options);
    return run.ok() ? StatesText(run->workload) : std::string(run.status().message());
  };
  EXPECT_THAT(deepspeed("optimizer.type", "SGD"), HasSubstr(", sgd"));
  EXPECT_THAT(deepspeed("optimizer.type", "Muon"), HasSubstr(", muon"));
  EXPECT_THAT(deepspeed("optimizer.type", "OneBitAdam"), HasSubstr("'OneBitAdam', which is not modelled"));
  EXPECT_THAT(deepspeed("bf16.bf16_optimizer_states", true),
              HasSubstr("states without a copy in fp32 are not modelled"));
}

TEST(SettingsTogether, NemoHasTwoOptimizersThatShard) {
  const auto stage = [](const std::string& optimizer) {
    const auto run = Read(kNemo, SmallFile(kNemo, "model.optim.name", optimizer));
    return run.ok() ? std::to_string(run->plan.zero_stage) : std::string(run.status().message());
  };
  EXPECT_EQ(stage("distributed_fused_adam"), "1");
  EXPECT_EQ(stage("mcore_distributed_optim"), "1");
  EXPECT_EQ(stage("fused_adam"), "0");
  EXPECT_THAT(stage("dist_adam_of_tomorrow"), HasSubstr("is 'dist_adam_of_tomorrow', which is not modelled"));
}

}  // namespace
}  // namespace autocfg
