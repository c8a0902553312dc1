#include "kernels/cpu/blas.h"

#include <cblas.h>
#include <fmt/format.h>

#include <limits>
#include <stdexcept>

// Only OpenBLAS defines these symbols; they are null with any other BLAS.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int threads);
extern "C" __attribute__((weak)) char* openblas_get_corename(void);

namespace autocfg::cpu {
namespace {

int Size(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) {
    throw std::invalid_argument(fmt::format("matmul: a size of {} is more than BLAS can take", size));
  }
  return static_cast<int>(size);
}

CBLAS_TRANSPOSE Flag(Transpose t) { return t == Transpose::kYes ? CblasTrans : CblasNoTrans; }

}  // namespace

void UseOneBlasThread() {
  [[maybe_unused]] static const bool done = [] {
    void (*set)(int) = openblas_set_num_threads;
    if (set != nullptr) set(1);
    return true;
  }();
}

std::string ChosenBlasCore() {
  char* (*name)() = openblas_get_corename;
  return name == nullptr ? "" : name();
}

void Gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
          std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, Flag(ta), Flag(tb), Size(m), Size(n), Size(k), alpha, a, Size(lda), b, Size(ldb),
              beta, c, Size(ldc));
}

void Gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
          const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
          std::int64_t ldc) {
  cblas_dgemm(CblasRowMajor, Flag(ta), Flag(tb), Size(m), Size(n), Size(k), alpha, a, Size(lda), b, Size(ldb),
              beta, c, Size(ldc));
}

}  // namespace autocfg::cpu
