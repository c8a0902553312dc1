// nvcuda::wmma for bf16 x bf16 -> float at 16 x 16 x 16. The element order of a fragment is opaque, as on a
// device, and differs from every device's on purpose. Products are added in float, in ascending k.
#pragma once

#include "tests/support/cuda_emulator/cuda_bf16.h"
#include "tests/support/cuda_emulator/device_functions.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K, typename T, typename Layout = void>
class fragment {
  static_assert(M == 16 && N == 16 && K == 16, "16 x 16 x 16 alone is emulated");

 public:
  using element_type = T;
  static constexpr int num_elements = 8;
  T x[num_elements];
};

using AutocfgFloats = fragment<accumulator, 16, 16, 16, float>;

// Returns the index of element i of a lane: row 0..15, column 0..15.
inline int AutocfgElementAt(int lane, int i) { return (i * 32 + lane) * 37 % 256; }

template <typename Use, typename T, typename Layout>
void fill_fragment(fragment<Use, 16, 16, 16, T, Layout>& f, T value) {
  for (T& element : f.x) element = value;
}

// Checks the device's requirements: a 32-byte aligned start, and rows of a multiple of 16 bytes.
template <typename T>
void AutocfgCheckMatrix(const T* p, unsigned ldm) {
  if (reinterpret_cast<std::uintptr_t>(p) % 32 != 0)
    autocfg::cuda_emulator::Fail("wmma: a matrix in memory is not aligned to 32 bytes");
  if (ldm * sizeof(T) % 16 != 0)
    autocfg::cuda_emulator::Fail("wmma: a row in memory is not a multiple of 16 bytes");
}

void AutocfgMeet();  // synchronizes all lanes of the warp

template <typename T, typename F>
void AutocfgLoad(F& f, const T* p, unsigned ldm, bool rows) {
  AutocfgCheckMatrix(p, ldm);
  const bool first = autocfg::cuda_emulator::ReadsFirst();
  if (!first) AutocfgMeet();
  for (int i = 0; i < F::num_elements; ++i) {
    const unsigned at = static_cast<unsigned>(AutocfgElementAt(autocfg::cuda_emulator::Lane(), i)),
                   row = at / 16, column = at % 16;
    f.x[i] = rows ? p[row * ldm + column] : p[column * ldm + row];
  }
  if (first) AutocfgMeet();
}

template <typename Use, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, __nv_bfloat16, Layout>& f, const __nv_bfloat16* p,
                      unsigned ldm) {
  AutocfgLoad(f, p, ldm, std::is_same_v<Layout, row_major>);
}
inline void load_matrix_sync(AutocfgFloats& f, const float* p, unsigned ldm, layout_t layout) {
  AutocfgLoad(f, p, ldm, layout == mem_row_major);
}

// Other lanes see the stores after a __syncwarp.
inline void store_matrix_sync(float* p, const AutocfgFloats& f, unsigned ldm, layout_t layout) {
  AutocfgCheckMatrix(p, ldm);
  AutocfgMeet();
  for (int i = 0; i < AutocfgFloats::num_elements; ++i) {
    const unsigned at = static_cast<unsigned>(AutocfgElementAt(autocfg::cuda_emulator::Lane(), i)),
                   row = at / 16, column = at % 16;
    p[layout == mem_row_major ? row * ldm + column : column * ldm + row] = f.x[i];
  }
}

struct AutocfgProduct {
  AutocfgFloats* d;
  const __nv_bfloat16 *a, *b;
  const AutocfgFloats* c;
};
void AutocfgCombineProduct(void* const* brought, unsigned mask);

// d = a b + c; d may be c.
template <typename LayoutA, typename LayoutB>
void mma_sync(AutocfgFloats& d, const fragment<matrix_a, 16, 16, 16, __nv_bfloat16, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, __nv_bfloat16, LayoutB>& b, const AutocfgFloats& c) {
  AutocfgProduct product{&d, a.x, b.x, &c};
  autocfg::cuda_emulator::JoinWarp(0xffffffffu, "mma_sync", &product, AutocfgCombineProduct);
}

}  // namespace nvcuda::wmma
