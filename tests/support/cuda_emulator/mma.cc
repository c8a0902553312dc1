#include "tests/support/cuda_emulator/mma.h"

namespace nvcuda::wmma {

void AutocfgMeet() {
  autocfg::cuda_emulator::JoinWarp(0xffffffffu, "load_matrix_sync or store_matrix_sync", nullptr,
                                   [](void* const*, unsigned) {});
}

void AutocfgCombineProduct(void* const* brought, unsigned) {
  float a[256], b[256], d[256];
  for (int lane = 0; lane < 32; ++lane) {
    const auto* lanes = static_cast<const AutocfgProduct*>(brought[lane]);
    for (int i = 0; i < AutocfgFloats::num_elements; ++i) {
      const int at = AutocfgElementAt(lane, i);
      a[at] = __bfloat162float(lanes->a[i]);
      b[at] = __bfloat162float(lanes->b[i]);
      d[at] = lanes->c->x[i];
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 16; ++column)
        d[row * 16 + column] += a[row * 16 + k] * b[k * 16 + column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < AutocfgFloats::num_elements; ++i) {
      static_cast<const AutocfgProduct*>(brought[lane])->d->x[i] = d[AutocfgElementAt(lane, i)];
    }
  }
}

}  // namespace nvcuda::wmma
