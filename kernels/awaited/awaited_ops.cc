#include "kernels/awaited/awaited_ops.h"

#include <cstdint>
#include <utility>

#include "fmt/format.h"

namespace autocfg {
namespace {

class AwaitedOps final : public Ops {
 public:
  explicit AwaitedOps(std::unique_ptr<Ops> ops) : ops_(std::move(ops)) {}

  void Run(const OpCall& call, Stream& stream) override {
    ++number_;
    try {
      ops_->Run(call, stream);
      stream.Synchronize();
    } catch (const DeviceOutOfMemory&) {
      throw;  // says what did not fit
    } catch (const DeviceError& error) {
      throw DeviceError(
          fmt::format("op {} of this rank, {}: {}", number_, ToString(call.desc), error.what()));
    }
  }
  void ReleaseSpare() override { ops_->ReleaseSpare(); }

 private:
  const std::unique_ptr<Ops> ops_;
  std::int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Ops> CreateAwaitedOps(std::unique_ptr<Ops> ops) {
  return std::make_unique<AwaitedOps>(std::move(ops));
}

}  // namespace autocfg
