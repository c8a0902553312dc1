#include "kernels/awaited/awaited_ops.h"

#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "kernels/dry/dry_device.h"
#include "kernels/op_log.h"
#include "kernels/wrapped_ops.h"

namespace autocfg {
namespace {

class AwaitedOps final : public WrappedOps {
 public:
  explicit AwaitedOps(std::unique_ptr<Ops> ops) : WrappedOps(*ops), owned_(std::move(ops)) {}

 private:
  void Pass(Stream& stream, const Issue& issue) override {
    ++number_;
    try {
      issue(ops());
      stream.Synchronize();
    } catch (const DeviceOutOfMemory&) {
      throw;  // says what did not fit
    } catch (const DeviceError& error) {
      throw DeviceError(fmt::format("op {} of this rank, {}: {}", number_, Described(issue), error.what()));
    }
  }

  // Returns the op that the dry device records.
  static std::string Described(const Issue& issue) {
    OpLog log;
    issue(*CreateDryOps(log));
    return log.ops().empty() ? "an op on an empty list" : ToString(log.ops().front());
  }

  const std::unique_ptr<Ops> owned_;
  std::int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Ops> CreateAwaitedOps(std::unique_ptr<Ops> ops) {
  return std::make_unique<AwaitedOps>(std::move(ops));
}

}  // namespace autocfg
