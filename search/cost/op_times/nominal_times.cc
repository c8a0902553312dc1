#include "search/cost/op_times/nominal_times.h"

namespace autocfg {
namespace {

constexpr double kFlopsPerS = 5e10, kBytesPerS = 1e10, kOpS = 1e-6;
constexpr double kLinkBytesPerS = 2e9, kMessageS = 1e-5;

}  // namespace

double NominalTimes::Seconds(const OpDesc& op) const {
  if (IsCommunication(op.kind)) return kMessageS + MinBytes(op) / kLinkBytesPerS;
  return kOpS + Flops(op) / kFlopsPerS + MinBytes(op) / kBytesPerS;
}

}  // namespace autocfg
