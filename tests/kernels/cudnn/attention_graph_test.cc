// Tests cuDNN's attention graphs as far as possible without a GPU: the tensor layouts, and that cuDNN builds
// plans of its fused kernels for described GPUs. Uses the machine's driver or, if there is none, a fake one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_attention_graph.h"
#include "tests/support/fake_driver/fake_driver.h"

namespace autocfg::cuda {
namespace {

TEST(CudnnAttentionLayouts, PartitionQkv) {
  const AttentionShape shape{.batch = 2, .seq_len = 3, .heads = 4, .kv_heads = 2, .head_dim = 8};
  const AttentionLayouts at = LayoutsOf(shape);
  EXPECT_EQ(at.query.sizes, (CudnnSizes{2, 4, 3, 8}));
  EXPECT_EQ(at.key.sizes, (CudnnSizes{2, 2, 3, 8}));
  std::set<std::int64_t> seen;
  const auto walk = [&](const CudnnLayout& layout, std::int64_t first, std::int64_t first_head) {
    for (std::int64_t b = 0; b < layout.sizes[0]; ++b) {
      for (std::int64_t n = 0; n < layout.sizes[1]; ++n) {
        for (std::int64_t s = 0; s < layout.sizes[2]; ++s) {
          for (std::int64_t d = 0; d < layout.sizes[3]; ++d) {
            const std::int64_t index = first + b * layout.strides[0] + n * layout.strides[1] +
                                       s * layout.strides[2] + d * layout.strides[3];
            // The layout of Ops::AttentionForward: per token, q of 4 heads, k of 2, v of 2, 8 elements each.
            EXPECT_EQ(index, ((b * 3 + s) * 8 + first_head + n) * 8 + d);
            EXPECT_TRUE(seen.insert(index).second);
          }
        }
      }
    }
  };
  walk(at.query, 0, 0);
  walk(at.key, shape.FirstKey(), 4);
  walk(at.key, shape.FirstValue(), 6);
  EXPECT_EQ(seen.size(), 2u * 3 * 8 * 8);
  EXPECT_EQ(at.out, (CudnnLayout{{2, 4, 3, 8}, {3 * 32, 8, 32, 1}}));
  EXPECT_EQ(at.rows, (CudnnLayout{{2, 4, 3, 1}, {12, 3, 1, 1}}));  // lse[B,N,S]
  EXPECT_EQ(Transposed(at.key), (CudnnLayout{{2, 2, 8, 3}, {3 * 64, 8, 1, 64}}));
  EXPECT_GE(QuerySumBytes(shape), 2 * 4 * 3 * 8 * 4);
}

TEST(CudnnEngineReasons, KeepsTheFirstReasonOfEachEngine) {
  EXPECT_EQ(EngineReasons("{\"engineId\":0}\nWarning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: too "
                          "wide\nWarning: X; Reason: check()\n\n"
                          "{\"engineId\":1}\nWarning: CUDNN_STATUS_NOT_SUPPORTED; Reason: too old\n"
                          "{\"engineId\":2}\nWarning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: too wide"),
            "too wide (SHAPE); too old");
  EXPECT_EQ(EngineReasons(""), "");
  EXPECT_EQ(EngineReasons("another form\nand more"), "another form");
}

TEST(CudnnKernelNames, ListsThePlansKernels) {
  EXPECT_EQ(KernelNames(R"({"kernels":[{"kernelName":"a","x":1},{"kernelName":"b"},{"kernelName":"a"}]})"),
            "a, b");
  EXPECT_EQ(KernelNames("{}"), "");
}

struct Gpu {
  const char* name;
  int capability, multiprocessors, shared_bytes;
  const char* generation;  // part of the names of kernels for this generation
};

// Describes the GPU in cuDNN's device property format.
std::string Properties(const Gpu& gpu) {
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":{},"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
      R"("totalGlobalMem":85899345920,"smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,"cudaDeviceId":0,)"
      R"("deviceVer":{},"driverVer":13000,"deviceName":"{}"}})",
      gpu.multiprocessors, gpu.shared_bytes, gpu.capability, gpu.name);
}

const Gpu kA100{"NVIDIA A100", 800, 108, 166912, "sm80"}, kH200{"NVIDIA H200", 900, 132, 232448, "sm90"},
    kB200{"NVIDIA B200", 1000, 148, 232448, "sm100"};

class CudnnAttentionGraph : public ::testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override { WithAnyDriver(); }
};

// Expects the plan that cuDNN prefers, of one fused kernel for `generation`, without memory for scores.
void ExpectFused(const std::optional<CudnnPlan>& plan, const std::string& why, const char* generation,
                 const char* direction, std::int64_t most_bytes) {
  ASSERT_TRUE(plan.has_value()) << why;
  EXPECT_EQ(plan->passed_over(), "");
  const std::string kernels = plan->Kernels();
  EXPECT_TRUE(
      std::regex_search(kernels, std::regex(fmt::format("_sdpa_{}[0-9]*_flash_{}_", generation, direction))))
      << kernels;
  EXPECT_EQ(kernels.find(','), std::string::npos) << kernels;
  EXPECT_LE(plan->workspace_bytes(), most_bytes);
}

TEST_P(CudnnAttentionGraph, YieldsPlansOfFusedKernels) {
  const CudnnTarget target(Properties(GetParam()));
  // Heads of GPT-2 1.5B, of Llama 3 8B, and one head for all keys; then short and odd sequences, and head
  // dimensions that are multiples of 8. cuDNN computes some of the short ones with kernels of an older
  // generation.
  for (const AttentionShape& shape : std::vector<AttentionShape>{{16, 1024, 25, 25, 64},
                                                                 {4, 4096, 32, 8, 128},
                                                                 {2, 1024, 12, 1, 80},
                                                                 {2, 63, 6, 2, 96},
                                                                 {1, 200, 4, 4, 24}}) {
    SCOPED_TRACE(fmt::format("batch {}, sequence {}, heads {}/{} of {}", shape.batch, shape.seq_len,
                             shape.heads, shape.kv_heads, shape.head_dim));
    const char* generation = shape.seq_len >= 1024 ? GetParam().generation : "sm";
    const std::int64_t rows = shape.batch * shape.heads * shape.seq_len;
    // Allows a row of floats for each query and, if heads share k and v, one bf16 row of each per query head.
    const std::int64_t most = (rows + 128) * (8 * shape.head_dim + 4) + 4096;
    std::string why;
    std::optional<CudnnPlan> plan = FindAttentionForward(shape, target, &why);
    ExpectFused(plan, why, generation, "fprop", 4096);
    plan = FindAttentionBackward(shape, target, &why);
    ExpectFused(plan, why, generation, "bprop", most);
  }
}

// Heads that are too wide are refused for their width, not for the graph.
TEST_P(CudnnAttentionGraph, IsRefusedOnlyForItsShape) {
  const CudnnTarget target(Properties(GetParam()));
  std::string why;
  EXPECT_FALSE(FindAttentionForward({1, 128, 2, 2, 20}, target, &why).has_value());
  EXPECT_NE(why.find("multiple of 8"), std::string::npos) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
  const std::optional<CudnnPlan> wide = FindAttentionBackward({1, 1000, 4, 2, 256}, target, &why);
  if (GetParam().capability == kH200.capability) {
    EXPECT_TRUE(wide.has_value()) << why;
  } else if (!wide.has_value()) {
    EXPECT_NE(why.find("(SHAPE)"), std::string::npos) << why;
  }
}

INSTANTIATE_TEST_SUITE_P(Described, CudnnAttentionGraph, ::testing::Values(kA100, kH200, kB200),
                         [](const auto& info) { return std::string(info.param.generation); });

// If a plan cannot be built, the next one is used and the reason is reported. If none can be built, the first
// error is thrown, in one line: kernels that the driver cannot load are no refusal of the shape.
TEST(CudnnAttentionPlans, FallsBackToNextPlan) {
  if (!WithAnyDriver()) GTEST_SKIP() << "a driver that is there loads every kernel";
  const CudnnTarget target(Properties(kH200));
  const AttentionShape shape{1, 2048, 2, 2, 64};
  std::string why;
  RefuseLoads(1);
  const std::optional<CudnnPlan> second = FindAttentionForward(shape, target, &why);
  RefuseLoads(0);
  ASSERT_TRUE(second.has_value()) << why;
  EXPECT_EQ(why, "");
  EXPECT_NE(second->passed_over().find("cuLibraryLoadData"), std::string::npos) << second->passed_over();
  EXPECT_NE(second->Kernels().find("_sdpa_sm80_"), std::string::npos) << second->Kernels();

  RefuseLoads(1000);
  try {
    FindAttentionForward(shape, target, &why);
    ADD_FAILURE() << "it was refused: " << why;
  } catch (const CudnnError& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("cuLibraryLoadData"), std::string::npos) << words;
    EXPECT_EQ(words.find('\n'), std::string::npos) << words;
  }
  RefuseLoads(0);
}

// Uses cuDNN's own description of the driver's error. No other plan is tried: it would be slower and not
// smaller.
TEST(CudnnAttentionPlans, ReportsOutOfMemory) {
  if (!WithAnyDriver()) GTEST_SKIP() << "a driver that is there loads every kernel";
  const CudnnTarget target(Properties(kH200));
  std::string why;
  RefuseLoads(1, kNoMemory);
  EXPECT_THROW(FindAttentionForward({1, 1920, 2, 2, 64}, target, &why), DeviceOutOfMemory) << why;
  RefuseLoads(0);
}

// Two consecutive products are not attention, and no engine fuses them.
TEST(CudnnGraph, UnsupportedGraphIsRefusedInOneLine) {
  WithAnyDriver();
  const CudnnTarget target(Properties(kH200));
  const CudnnLayout square = RowMajor({1, 2, 64, 64});
  CudnnGraph graph;
  const CudnnGraph::Id a = graph.Memory(1, CUDNN_DATA_BFLOAT16, square),
                       b = graph.Memory(2, CUDNN_DATA_BFLOAT16, square);
  const CudnnGraph::Id c = graph.Virtual(CUDNN_DATA_BFLOAT16, square),
                       d = graph.Memory(3, CUDNN_DATA_BFLOAT16, square);
  graph.Matmul(a, b, c);
  graph.Matmul(c, b, d);
  std::string why;
  EXPECT_FALSE(graph.FindPlan(target, &why).has_value());
  EXPECT_TRUE(why.starts_with("no cuDNN engine supports it: ")) << why;
  EXPECT_EQ(why.find("PREREQUISITE"), std::string::npos) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
}

TEST(CudnnTarget, RejectsInvalidGpuDescription) { EXPECT_THROW(CudnnTarget("{}"), CudnnError); }

}  // namespace
}  // namespace autocfg::cuda
