#include "trainer/program/blas_restart.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/os/blas_core.h"
#include "kernels/cpu/blas.h"

namespace autocfg::trainer {

void RestartForBlas(char** argv) {
  constexpr const char* kCore = "OPENBLAS_CORETYPE";
  if (std::getenv(kCore) != nullptr) return;
  const std::string core(base::BlasCoreInstead(cpu::ChosenBlasCore(), base::ThisCpusVectorUnits()));
  if (core.empty() || ::setenv(kCore, core.c_str(), /*overwrite=*/1) != 0) return;
  (void)::execv("/proc/self/exe", argv);  // slower kernels are no reason to fail
}

}  // namespace autocfg::trainer
