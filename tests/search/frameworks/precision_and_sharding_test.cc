// Settings whose effect depends on others: what torchtitan and NeMo make of a precision, a batch and an
// optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
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
  EXPECT_THAT(PrecisionOf(Titan("", "", "converters = [\"quantize.linear.mx\"]\n")),
              HasSubstr("has quantize.linear.mx, which is not modelled"));
}

// The schedule runs over the local batch; a larger global batch repeats it.
TEST(SettingsTogether, TorchtitanRunsItsPipelineOncePerLocalBatch) {
  const std::string stages = "data_parallel_shard_degree = 1\npipeline_parallel_degree = 8\n";
  EXPECT_EQ(PrecisionOf(Titan("local_batch_size = 16\nglobal_batch_size = 16\n", stages)), "fp32");
  EXPECT_THAT(PrecisionOf(Titan("local_batch_size = 4\nglobal_batch_size = 16\n", stages)),
              HasSubstr("training.local_batch_size = 4 on 1 data ranks runs the pipeline several times"));
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
