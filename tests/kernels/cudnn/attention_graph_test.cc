// cuDNN's attention graphs as far as a machine without a GPU can prove them: where tensors lie, and that
// cuDNN's fused engines know the graphs, by asking for plans on GPUs that are only described. Where there is
// no driver cuDNN stops after it has recognized the graph, before it looks at the shape: then the missing
// driver must be the reason that it gives. Where there is one the plans are made.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn_attention_graph.h"

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
            // As Ops::AttentionForward has it: token by token, q of 4 heads, k of 2, v of 2, 8 each.
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

TEST(CudnnEngineReasons, AreTheFirstOfEachEngineOnce) {
  EXPECT_EQ(EngineReasons("{\"engineId\":0}\nWarning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: too "
                          "wide\nWarning: X; Reason: check()\n\n"
                          "{\"engineId\":1}\nWarning: CUDNN_STATUS_NOT_SUPPORTED; Reason: too old\n"
                          "{\"engineId\":2}\nWarning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: too wide"),
            "too wide (SHAPE); too old");
  EXPECT_EQ(EngineReasons(""), "");
}

struct Gpu {
  const char* name;
  int capability, multiprocessors, shared_bytes;
};

// In the words of cuDNN's device property descriptor.
std::string Properties(const Gpu& gpu) {
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":{},"warpSize":32,)"
      R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
      R"("totalGlobalMem":85899345920,"smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,"cudaDeviceId":0,)"
      R"("deviceVer":{},"driverVer":13000,"deviceName":"{}"}})",
      gpu.multiprocessors, gpu.shared_bytes, gpu.capability, gpu.name);
}

const Gpu kA100{"NVIDIA A100", 800, 108, 166912}, kH200{"NVIDIA H200", 900, 132, 232448},
    kB200{"NVIDIA B200", 1000, 148, 232448};

// Whether cuDNN makes the plan, or would with a driver.
bool Knows(const std::optional<CudnnPlan>& plan, const std::string& why) {
  return plan.has_value() || why.find("RUNTIME_PREREQUISITE_MISSING") != std::string::npos;
}

TEST(CudnnAttentionGraph, IsKnownToTheFusedEngines) {
  for (const Gpu& gpu : {kA100, kH200, kB200}) {
    const CudnnTarget target(Properties(gpu));
    // Heads of common models, one head for all keys, a short and odd sequence, one token; columns a multiple
    // of 8.
    for (const AttentionShape& shape : std::vector<AttentionShape>{{1, 4096, 25, 25, 64},
                                                                   {1, 4096, 32, 8, 128},
                                                                   {2, 1024, 12, 1, 80},
                                                                   {2, 63, 6, 2, 96},
                                                                   {1, 1, 4, 4, 64},
                                                                   {1, 200, 4, 4, 24}}) {
      SCOPED_TRACE(fmt::format("{}, sequence {}, heads {}/{} of {}", gpu.name, shape.seq_len, shape.heads,
                               shape.kv_heads, shape.head_dim));
      std::string why;
      std::optional<CudnnPlan> plan = FindAttentionForward(shape, target, &why);
      EXPECT_TRUE(Knows(plan, why)) << "forward: " << why;
      plan = FindAttentionBackward(shape, target, &why);
      EXPECT_TRUE(Knows(plan, why)) << "backward: " << why;
    }
  }
}

// Two products in a row are no attention, and no engine fuses them.
TEST(CudnnGraph, IsRefusedInOneLineWhereNoEngineKnowsIt) {
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
  EXPECT_FALSE(Knows(std::nullopt, why)) << why;
  EXPECT_FALSE(why.empty());
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
}

TEST(CudnnTarget, RefusesWhatDescribesNoGpu) { EXPECT_THROW(CudnnTarget("{}"), CudnnError); }

}  // namespace
}  // namespace autocfg::cuda
