#include "base/os/blas_core.h"

namespace autocfg::base {

VectorUnits ThisCpusVectorUnits() {
#if defined(__x86_64__)
  return {.avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0,
          .avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                    __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0};
#else
  return {};
#endif
}

std::string_view BlasCoreInstead(std::string_view chosen, const VectorUnits& units) {
  constexpr std::string_view kUnknownModel = "Prescott";
  if (chosen != kUnknownModel) return "";
  if (units.avx512) return "SkylakeX";
  return units.avx2 ? "Haswell" : "";
}

}  // namespace autocfg::base
