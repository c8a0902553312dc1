// Matrix products through BLAS, in row-major order. Thread-safe once BLAS uses one thread.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/ops.h"

namespace autocfg::cpu {

// Sets BLAS to one thread for the whole process if the library has threads (OpenBLAS). Idempotent.
void UseOneBlasThread();

// Returns the name of the kernels that OpenBLAS has chosen for this CPU; empty with any other BLAS.
std::string ChosenBlasCore();

// Computes c[m,n] = alpha op(a)[m,k] op(b)[k,n] + beta c. lda, ldb, ldc: elements from one row to the next.
// If beta is 0, the old c is not read. Throws std::invalid_argument if a size does not fit BLAS's 32-bit
// integers.
void Gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
          std::int64_t ldc);
void Gemm(Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
          const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
          std::int64_t ldc);

}  // namespace autocfg::cpu
