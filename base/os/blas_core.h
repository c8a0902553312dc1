// The kernels of OpenBLAS that suit this CPU. OpenBLAS chooses by the CPU's model when it is loaded; for a
// model that is newer than the library it takes those of a CPU of 2004 (Prescott), which are several times
// slower.
#pragma once

#include <string_view>

namespace autocfg::base {

// What a CPU and its operating system offer.
struct VectorUnits {
  bool avx2 = false;    // with FMA
  bool avx512 = false;  // F, BW, DQ and VL
};
VectorUnits ThisCpusVectorUnits();

// Returns the value of OPENBLAS_CORETYPE that lets OpenBLAS use the CPU's vector units if it has chosen the
// kernels `chosen` (as openblas_get_corename names them) for want of better knowledge; empty if its choice
// stands.
std::string_view BlasCoreInstead(std::string_view chosen, const VectorUnits& units);

}  // namespace autocfg::base
