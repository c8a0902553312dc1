// Emulates the part of cuBLASLt that kernels/cuda/matmul/matmul uses, following NVIDIA's documentation:
// column-major matrices, descriptors, epilogues. Products are computed in float, in the order of k, when
// their stream runs them. For tests, like cuda_runtime.h. It refuses types other than fp32 and bf16, and all
// epilogues after emulated_cublaslt::Epilogues(false). It ends the process if an auxiliary matrix has a
// leading dimension that is not a multiple of 8, or if a bias has no type. The real library may not notice
// the first, and takes a type that is not set from the result.
//
// Its algorithms differ in how they reduce, so their results differ in the last bits:
//
//   id  reduction of k
//   4   two partial sums in the result's type (OUTPUT_TYPE): bf16 results are wrong by more than rounding
//   5   the same, in the result itself (INPLACE)
//   1   none: in one sequence
//   2   never runs
//   3   two partial sums in fp32, in the workspace (COMPUTE_TYPE)
//
// The heuristic returns those that the preference's mask allows, in this order. Products of the algorithm
// whose id AUTOCFG_EMULATED_CUBLASLT_SLOW names take milliseconds longer. So a test chooses which one is the
// fastest, in other processes too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/support/cuda_emulator/cuda_runtime.h"

enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasLtEpilogue_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU_AUX = 32 | 128,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 32 | 128 | 4,
  CUBLASLT_EPILOGUE_DGELU = 64 | 128,
  CUBLASLT_EPILOGUE_BGRADA = 256,
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA,
  CUBLASLT_MATMUL_DESC_TRANSB,
  CUBLASLT_MATMUL_DESC_EPILOGUE,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
};

enum cublasLtReductionScheme_t {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
  CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,
  CUBLASLT_REDUCTION_SCHEME_MASK = 7,
};

struct cublasLtMatmulDescOpaque_t {
  bool initialised;
  cublasOperation_t transpose_a, transpose_b;
  cublasLtEpilogue_t epilogue;
  void* bias;
  void* aux;
  std::int64_t aux_ld;
  std::int32_t bias_type;  // a cudaDataType_t; -1: not set
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes;
  std::uint32_t alignment;  // the smallest of the four
  std::uint32_t reduction_mask;
};
struct cublasLtMatmulAlgo_t {
  int id;  // at least 1; 0: none
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
};
using cublasLtHandle_t = struct EmulatedCublasLt*;

const char* cublasLtGetStatusString(cublasStatus_t status);
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t* descriptor, cublasComputeType_t compute,
                                      cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t* descriptor,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes);
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t* layout, cudaDataType_t type,
                                        std::uint64_t rows, std::uint64_t columns, std::int64_t ld);
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreferenceOpaque_t* preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t* preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes);
// Returns up to five algorithms.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDescOpaque_t* descriptor,
                                              cublasLtMatrixLayoutOpaque_t* a,
                                              cublasLtMatrixLayoutOpaque_t* b,
                                              cublasLtMatrixLayoutOpaque_t* c,
                                              cublasLtMatrixLayoutOpaque_t* d,
                                              cublasLtMatmulPreferenceOpaque_t* preference, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDescOpaque_t* descriptor,
                              const void* alpha, const void* a, cublasLtMatrixLayoutOpaque_t* a_layout,
                              const void* b, cublasLtMatrixLayoutOpaque_t* b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayoutOpaque_t* c_layout, void* d,
                              cublasLtMatrixLayoutOpaque_t* d_layout, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream);

namespace autocfg::emulated_cublaslt {
// Sets whether epilogues are supported; initially they are.
void Epilogues(bool supported);
// Makes products with an epilogue, or those without, take milliseconds longer; initially off.
void Slow(bool with_epilogue, bool without);
// Makes products of this algorithm (0: of every algorithm) return `status` instead of being computed.
// Success, the initial state, computes them.
void Fail(cublasStatus_t status, int algorithm = 0);
}  // namespace autocfg::emulated_cublaslt
