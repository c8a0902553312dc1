#include "trainer/parallel/progressing_ops.h"

#include "kernels/wrapped_ops.h"

namespace autocfg::trainer {
namespace {

class ProgressingOps final : public WrappedOps {
 public:
  ProgressingOps(Ops& ops, PendingWorks& pending) : WrappedOps(ops), pending_(pending) {}

 private:
  void Pass(Stream&, const Issue& issue) override {
    issue(ops());
    pending_.Progress();
  }

  PendingWorks& pending_;
};

}  // namespace

std::unique_ptr<Ops> CreateProgressingOps(Ops& ops, PendingWorks& pending) {
  return std::make_unique<ProgressingOps>(ops, pending);
}

}  // namespace autocfg::trainer
