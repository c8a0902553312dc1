// Tests the choice of an attention implementation as far as possible without a GPU.
#include "kernels/cuda/ops/attention_choice.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "kernels/device.h"

namespace autocfg::cuda {
namespace {

const AttentionShape kShape{.batch = 1, .seq_len = 8, .heads = 2, .kv_heads = 1, .head_dim = 64};

TEST(AttentionChoice, ReadsItsVariable) {
  EXPECT_EQ(ParseAttentionForced(nullptr), AttentionForced::kNone);
  EXPECT_EQ(ParseAttentionForced(""), AttentionForced::kNone);
  EXPECT_EQ(ParseAttentionForced("own"), AttentionForced::kOwn);
  EXPECT_EQ(ParseAttentionForced("cudnn"), AttentionForced::kCudnn);
  EXPECT_THROW(ParseAttentionForced("CUDNN"), std::invalid_argument);
}

TEST(AttentionChoice, ReportsItsImplementation) {
  AttentionChoice own(AttentionForced::kOwn);
  EXPECT_EQ(own.ImplementationOf<float>(kShape), "own kernels, plain arithmetic");
  EXPECT_EQ(own.ImplementationOf<__nv_bfloat16>(kShape), "own kernels, tensor cores (AUTOCFG_ATTENTION=own)");
  AttentionShape odd = kShape;
  odd.head_dim = 20;  // not a multiple of 8
  EXPECT_EQ(own.ImplementationOf<__nv_bfloat16>(odd),
            "own kernels, plain arithmetic (AUTOCFG_ATTENTION=own)");
  odd.kv_heads = 0;
  EXPECT_THROW(own.ImplementationOf<__nv_bfloat16>(odd), std::invalid_argument);
}

// Without a GPU, cuDNN does not start. A choice then reports that and uses our own kernels; a forced choice
// throws.
TEST(AttentionChoice, ReportsWhyCudnnIsNotUsed) {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0)
    GTEST_SKIP() << "there is a GPU: tests/gpu covers cuDNN";
  AttentionChoice free(AttentionForced::kNone);
  const std::string says = free.ImplementationOf<__nv_bfloat16>(kShape);
  EXPECT_TRUE(says.starts_with("own kernels, tensor cores (cuDNN refuses: cuDNN does not start: ")) << says;
  AttentionChoice forced(AttentionForced::kCudnn);
  EXPECT_THROW(forced.ImplementationOf<__nv_bfloat16>(kShape), DeviceError);
  EXPECT_EQ(forced.ImplementationOf<float>(kShape), "own kernels, plain arithmetic");
}

// Runs in a separate process, because a loaded library stays loaded.
TEST(AttentionChoiceDeathTest, UsesOwnKernelsWithoutCudnn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto say = [](const char* library) {
    setenv("AUTOCFG_CUDNN_LIBRARY", library, 1);
    std::fputs(AttentionChoice(AttentionForced::kNone).ImplementationOf<__nv_bfloat16>(kShape).c_str(),
               stderr);
    std::exit(0);
  };
  EXPECT_EXIT(say("libautocfg-no-cudnn.so.9"), testing::ExitedWithCode(0),
              "^own kernels, tensor cores .cuDNN refuses: cuDNN is not on this machine: "
              "libautocfg-no-cudnn.so.9: cannot open shared object file");
  EXPECT_EXIT(say("libm.so.6"), testing::ExitedWithCode(0),
              "^own kernels, tensor cores .cuDNN refuses: the cuDNN of this machine does not fit this build: "
              "libm.so.6 has no cudnnGetVersion.$");
}

}  // namespace
}  // namespace autocfg::cuda
