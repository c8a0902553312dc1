#include "trainer/parallel/progressing_ops.h"

namespace autocfg::trainer {
namespace {

class ProgressingOps final : public Ops {
 public:
  ProgressingOps(Ops& ops, PendingWorks& pending) : ops_(ops), pending_(pending) {}

  void Run(const OpCall& call, Stream& stream) override {
    ops_.Run(call, stream);
    pending_.Progress();
  }
  void ReleaseSpare() override { ops_.ReleaseSpare(); }

 private:
  Ops& ops_;
  PendingWorks& pending_;
};

}  // namespace

std::unique_ptr<Ops> CreateProgressingOps(Ops& ops, PendingWorks& pending) {
  return std::make_unique<ProgressingOps>(ops, pending);
}

}  // namespace autocfg::trainer
