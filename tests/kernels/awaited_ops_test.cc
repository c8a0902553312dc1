// Ops that wait after each op: the same ops, and errors that name theirs.
#include "kernels/awaited/awaited_ops.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "kernels/dry/dry_device.h"
#include "kernels/op_log.h"

namespace autocfg {
namespace {

// Calls `on_wait` whenever the host waits.
class WatchedStream final : public Stream {
 public:
  explicit WatchedStream(std::function<void()> on_wait) : on_wait_(std::move(on_wait)) {}
  void Synchronize() override { on_wait_(); }

 private:
  const std::function<void()> on_wait_;
};

Tensor Of(std::initializer_list<std::int64_t> shape) { return Tensor{}.Reshape(shape); }

template <typename Run>
std::string ErrorOf(const Run& run) {
  try {
    run();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AwaitedOps, WaitAfterEachOpAndNameTheOneThatFailed) {
  OpLog log;
  std::size_t waits = 0;
  std::string fault;
  WatchedStream stream([&] {
    ++waits;
    EXPECT_EQ(log.ops().size(), waits) << "each op is issued before the host waits for it";
    if (!fault.empty()) throw DeviceError(fault);
  });
  const std::unique_ptr<Ops> ops = CreateAwaitedOps(CreateDryOps(log));
  ops->Fill(Of({8}), 0, stream);
  ops->Matmul(Of({4, 3}), Transpose::kNo, Of({3, 5}), Transpose::kNo, Of({4, 5}), false, stream);
  EXPECT_EQ(waits, 2u);
  fault = "an illegal memory access";
  EXPECT_EQ(ErrorOf([&] {
              ops->ResidualAdd(Of({4, 5}), Of({4, 5}), stream);
            }),
            "op 3 of this rank, residual_add fp32 4x5: an illegal memory access");
  EXPECT_EQ(ErrorOf([&] {
              ops->RmsNormBackward(Of({4, 5}), Of({4, 5}), Of({5}), Of({4}), Of({4, 5}), false, Of({5}), true,
                                   stream);
            }),
            "op 4 of this rank, rms_norm_backward fp32 acc 4x5: an illegal memory access");
}

TEST(AwaitedOps, KeepOtherErrors) {
  OpLog log;
  WatchedStream full([] { throw DeviceOutOfMemory(8, 4, "no room"); });
  const std::unique_ptr<Ops> ops = CreateAwaitedOps(CreateDryOps(log));
  EXPECT_EQ(ErrorOf([&] { ops->Fill(Of({8}), 0, full); }), "no room");
  EXPECT_THROW(ops->Fill(Of({8}), 0, full), DeviceOutOfMemory);
  EXPECT_THROW(ops->ResidualAdd(Of({4, 5}), Of({4, 6}), full), std::invalid_argument);
}

}  // namespace
}  // namespace autocfg
