#include "tests/support/cuda_emulator/launches/faults.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/cuda_emulator/emulator.h"

namespace autocfg::cuda_emulator {
namespace {

struct Faults {
  Fault fault = Fault::kNone;
  std::int64_t left = 0;  // launches before the one with the fault
  cudaError_t error = cudaSuccess;
  bool hangs = false;
};

Faults FromEnvironment() {
  const char* const set = std::getenv("AUTOCFG_EMULATED_FAULT");
  const std::string_view value = set == nullptr ? "" : set;
  if (value.empty()) return {};
  const auto at = value.find('@');
  const std::string_view kind = value.substr(0, at);
  const long long launch =
      at == std::string_view::npos ? 0 : std::strtoll(value.data() + at + 1, nullptr, 10);
  Faults faults{.left = launch};
  if (kind == "illegal_address") faults.fault = Fault::kIllegalAddress;
  if (kind == "hang") faults.fault = Fault::kHang;
  if (kind == "wrong") faults.fault = Fault::kWrongResult;
  if (faults.fault == Fault::kNone || launch < 1)
    Fail("AUTOCFG_EMULATED_FAULT is '" + std::string(value) +
         "'; expected illegal_address@N, hang@N or wrong@N");
  return faults;
}

Faults& All() {
  static Faults faults = FromEnvironment();
  return faults;
}

}  // namespace

void SetFault(Fault fault, std::int64_t launch) { All() = {.fault = fault, .left = launch}; }

std::function<void()> WithFault(std::function<void()> kernel) {
  Faults& faults = All();
  if (faults.fault == Fault::kNone || faults.left == 0 || --faults.left > 0) return kernel;
  switch (faults.fault) {
    case Fault::kNone: break;
    case Fault::kIllegalAddress: return [] { All().error = cudaErrorIllegalAddress; };
    case Fault::kHang: return [] { All().hangs = true; };
    case Fault::kWrongResult: return [] {};
  }
  return kernel;
}

cudaError_t StickyError() { return All().error; }

bool Hangs() { return All().hangs; }

}  // namespace autocfg::cuda_emulator
