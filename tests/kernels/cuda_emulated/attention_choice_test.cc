// Attention where cuDNN refuses every shape, as the emulator's does: our own kernels, which say so.
#include "kernels/cuda/ops/attention_choice.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kernels/cuda/attention/attention.h"
#include "tests/conformance/ops/ops_reference.h"
#include "tests/kernels/cuda_kernels/device_array.h"

namespace autocfg::cuda {
namespace {

using reference::AttentionSizes;

// Expects that these kernels are chosen if cuDNN is missing, and that the choice says so.
template <typename T>
void ExpectOwn(AttentionChoice& choice, const AttentionSizes& z, const std::string& implementation) {
  const AttentionShape shape{z.batch, z.seq,         z.heads,      z.kv_heads, z.dim,
                             z.scale, z.alibi_heads, z.first_head, z.softcap,  z.window};
  EXPECT_EQ(choice.ImplementationOf<T>(shape), implementation);
  const DeviceArray<T> qkv(Random(z.Tokens() * z.Row(), 1)), dout(Random(z.Tokens() * z.Width(), 2));
  const DeviceArray<T> out(z.Tokens() * z.Width()), chosen_out(z.Tokens() * z.Width());
  const DeviceArray<T> dqkv(z.Tokens() * z.Row()), chosen_dqkv(z.Tokens() * z.Row());
  const std::int64_t rows = z.batch * z.heads * z.seq;
  const DeviceArray<float> lse(rows), chosen_lse(rows), delta(rows);
  Scratch scratch;
  AttentionForward(shape, qkv.data(), out.data(), lse.data(), nullptr);
  choice.Forward(shape, qkv.data(), chosen_out.data(), chosen_lse.data(), scratch, nullptr);
  AttentionBackward(shape, qkv.data(), out.data(), lse.data(), dout.data(), dqkv.data(), delta.data(),
                    nullptr);
  choice.Backward(shape, qkv.data(), chosen_out.data(), chosen_lse.data(), dout.data(), chosen_dqkv.data(),
                  scratch, nullptr);
  EXPECT_EQ(chosen_out.Get(), out.Get());
  EXPECT_EQ(chosen_lse.Get(), lse.Get());
  EXPECT_EQ(chosen_dqkv.Get(), dqkv.Get());
}

TEST(CudaAttentionChoice, UsesOwnKernelsIfCudnnIsMissing) {
  AttentionChoice choice(AttentionForced::kNone);
  ExpectOwn<float>(choice, {1, 9, 2, 16, 1}, "own kernels, plain arithmetic");
  ExpectOwn<__nv_bfloat16>(choice, {1, 9, 2, 16, 1},
                           "own kernels, tensor cores (cuDNN refuses: the emulator has no cuDNN)");
  ExpectOwn<__nv_bfloat16>(choice, {1, 9, 2, 6, 1},
                           "own kernels, plain arithmetic (cuDNN refuses: the emulator has no cuDNN)");
  ExpectOwn<__nv_bfloat16>(
      choice, {1, 9, 2, 16, 1, 0.3, 6, 3},
      "own kernels, tensor cores (cuDNN refuses: its graphs have no linear bias of the scores (ALiBi))");
}

}  // namespace
}  // namespace autocfg::cuda
