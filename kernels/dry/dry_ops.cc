// The dry implementation of Ops. Records every op; reads and writes no data.
#include "kernels/dry/dry_device.h"

namespace autocfg {
namespace {

class DryOps final : public Ops {
 public:
  explicit DryOps(OpSink& sink) : sink_(sink) {}
  void Run(const OpCall& call, Stream&) override { sink_.Record(call.desc); }

 private:
  OpSink& sink_;
};

}  // namespace

std::unique_ptr<Ops> CreateDryOps(OpSink& sink) { return std::make_unique<DryOps>(sink); }

}  // namespace autocfg
