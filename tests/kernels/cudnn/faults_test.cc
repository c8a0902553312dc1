// Tests which versions of cuDNN are excluded for which shapes.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kernels/cuda/cudnn/cudnn_attention_graph.h"

namespace autocfg::cuda {
namespace {

std::string FaultOf(std::size_t version, std::int64_t seq_len, std::int64_t batch = 1) {
  return CudnnAttentionFault(version,
                             {.batch = batch, .seq_len = seq_len, .heads = 4, .kv_heads = 2, .head_dim = 64});
}

TEST(CudnnFaults, ExcludesOldVersionsForPartialTiles) {
  for (const std::size_t version : {90000u, 90600u, 90900u, 91002u, 91400u, 91500u}) {
    for (const std::int64_t seq_len : {1, 64, 127, 192, 1000, 1216}) EXPECT_NE(FaultOf(version, seq_len), "");
    for (const std::int64_t seq_len : {128, 1024, 4096}) EXPECT_EQ(FaultOf(version, seq_len), "");
  }
  for (const std::size_t version : {91501u, 91600u, 91900u, 100000u}) {
    for (const std::int64_t seq_len : {1, 64, 127, 128, 1000, 1024}) EXPECT_EQ(FaultOf(version, seq_len), "");
  }
  EXPECT_EQ(FaultOf(91500, 1000),
            "the backward of cuDNN 9.15.0 may access memory out of bounds if the sequence, 1000, is not a "
            "multiple of 128; 9.15.1 fixes that");
}

TEST(CudnnFaults, ExcludesTwoVersionsForAllShapes) {
  for (const std::size_t version : {91000u, 91001u}) {
    for (const std::int64_t seq_len : {64, 128, 1024}) EXPECT_NE(FaultOf(version, seq_len), "");
  }
  EXPECT_EQ(FaultOf(91001, 1024), "cuDNN 9.10.1 has known faults in attention; 9.10.2 fixes them");
  EXPECT_EQ(FaultOf(91002, 1024), "");
  EXPECT_EQ(FaultOf(90900, 1024), "");
}

TEST(CudnnFaults, ExcludesShapesOfMoreElementsThan32BitsCount) {
  // A token has 512 elements.
  for (const std::size_t version : {90900u, 91900u, 100000u}) {
    EXPECT_EQ(FaultOf(version, 1024, 4095), "");
    EXPECT_NE(FaultOf(version, 1024, 4096), "");
    EXPECT_NE(FaultOf(version, 1 << 22), "");
  }
  EXPECT_EQ(FaultOf(91900, 1024, 4096),
            "the backward of cuDNN 9.19.0 is wrong beyond 2^31 elements; q, k and v have 2147483648");
}

// NVIDIA's frontend: include/cudnn_frontend/node/scaled_dot_product_flash_attention.h.
TEST(CudnnFaults, VersionsThatExpectClearSums) {
  for (const std::size_t version : {90000u, 90501u}) EXPECT_FALSE(CudnnClearsQuerySums(version));
  for (const std::size_t version : {90600u, 91900u}) EXPECT_TRUE(CudnnClearsQuerySums(version));
}

}  // namespace
}  // namespace autocfg::cuda
