// Lets OpenBLAS use this CPU's vector units although it does not know the CPU's model.
#pragma once

namespace autocfg::trainer {

// Starts this program anew, in this process, with OPENBLAS_CORETYPE if OpenBLAS has chosen kernels for want
// of better knowledge (base/os/blas_core.h). It reads the variable only when it is loaded. Returns if its
// choice stands, if the environment has the variable, or if the program cannot be started anew. Call it
// first in main.
void RestartForBlas(char** argv);

}  // namespace autocfg::trainer
