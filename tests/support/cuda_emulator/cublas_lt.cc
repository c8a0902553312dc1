#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cuda_emulator/cublasLt.h"
#include "tests/support/cuda_emulator/cuda_bf16.h"
#include "tests/support/cuda_emulator/emulator.h"
#include "tests/support/cuda_emulator/streams.h"

struct EmulatedCublasLt {};

namespace {

bool epilogues_supported = true, slow_with_epilogue = false, slow_without = false;
cublasStatus_t failure = CUBLAS_STATUS_SUCCESS;
int failing_algorithm = 0;

float Read(const void* data, cudaDataType_t type, std::int64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}
void Write(void* data, cudaDataType_t type, std::int64_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
  }
}

// The tanh form of GELU and its derivative, in double.
double Gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double GeluGradient(double x) {
  const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

bool HasAux(cublasLtEpilogue_t epilogue) { return (epilogue & 128) != 0; }
bool HasBias(cublasLtEpilogue_t epilogue) { return (epilogue & (4 | 256)) != 0; }

struct Algorithm {
  int id;
  cublasLtReductionScheme_t reduction;
};
// In the order in which the heuristic names them.
constexpr std::array<Algorithm, 5> kAlgorithms = {{{4, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE},
                                                   {5, CUBLASLT_REDUCTION_SCHEME_INPLACE},
                                                   {1, CUBLASLT_REDUCTION_SCHEME_NONE},
                                                   {2, CUBLASLT_REDUCTION_SCHEME_NONE},
                                                   {3, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}}};

// The algorithm with a workspace takes this much, or all there is if that is less.
constexpr std::size_t kWorkspaceBytes = std::size_t{256} << 10;

// Rounds a partial sum to the type in which the algorithm stores it. The product that is not split has one.
float Stored(float partial, int algorithm, cudaDataType_t result) {
  const bool in_result_type = algorithm == 4 || algorithm == 5;
  return in_result_type && result == CUDA_R_16BF ? __bfloat162float(__float2bfloat16(partial)) : partial;
}
bool SplitsK(int algorithm) { return algorithm >= 3; }

bool IsSlow(int algorithm) {
  const char* slow = std::getenv("AUTOCFG_EMULATED_CUBLASLT_SLOW");
  return slow != nullptr && std::to_string(algorithm) == slow;
}

// Returns whether there is an algorithm. An auxiliary matrix that violates the requirements of
// EPILOGUE_AUX_LD in cublasLt.h is the caller's fault: the real library may then compute anything without
// reporting it. So is a bias of unknown type. A type other than the result's is not supported.
cublasStatus_t Support(const cublasLtMatmulDescOpaque_t& op, const cublasLtMatrixLayoutOpaque_t& d) {
  if (op.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  if (HasAux(op.epilogue) && (op.aux_ld % 8 != 0 || op.aux_ld < static_cast<std::int64_t>(d.rows))) {
    autocfg::cuda_emulator::Fail("cuBLASLt was given an auxiliary matrix with a leading dimension of " +
                                 std::to_string(op.aux_ld) + " for " + std::to_string(d.rows) +
                                 " rows: it must be a multiple of 8, and no less");
  }
  if (HasBias(op.epilogue)) {
    if (op.bias_type == -1) autocfg::cuda_emulator::Fail("cuBLASLt was given a bias without its data type");
    if (op.bias_type != static_cast<std::int32_t>(d.type)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  return epilogues_supported ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// Returns op(x) of rows x columns, with x column-major, as floats, column-major.
std::vector<float> Operand(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, cublasOperation_t op,
                           std::int64_t rows, std::int64_t columns) {
  const bool transposed = op == CUBLAS_OP_T;
  std::vector<float> elements(static_cast<std::size_t>(rows * columns));
  for (std::int64_t column = 0, i = 0; column < columns; ++column) {
    for (std::int64_t row = 0; row < rows; ++row, ++i) {
      const std::int64_t at = transposed ? column + row * layout.ld : row + column * layout.ld;
      elements[static_cast<std::size_t>(i)] = Read(data, layout.type, at);
    }
  }
  return elements;
}

// Adds a * b to the sums of a's rows: a has a row for each sum and `k` columns. Each sum adds in the order of
// the columns.
void AddProducts(const float* a, const float* b, std::int64_t k, std::vector<float>& sums) {
  const std::size_t m = sums.size();
  for (std::int64_t l = 0; l < k; ++l, a += m) {
    for (std::size_t i = 0; i < m; ++i) sums[i] += a[i] * b[l];
  }
}

}  // namespace

void autocfg::emulated_cublaslt::Epilogues(bool supported) { epilogues_supported = supported; }
void autocfg::emulated_cublaslt::Slow(bool with_epilogue, bool without) {
  slow_with_epilogue = with_epilogue;
  slow_without = without;
}

void autocfg::emulated_cublaslt::Fail(cublasStatus_t status, int algorithm) {
  failure = status;
  failing_algorithm = algorithm;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "allocation failed";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "execution failed";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "internal error";
    case CUBLAS_STATUS_INVALID_VALUE: return "invalid value";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
  }
  return "unknown";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new EmulatedCublasLt;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t* descriptor, cublasComputeType_t,
                                      cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  *descriptor = {.initialised = true,
                 .transpose_a = CUBLAS_OP_N,
                 .transpose_b = CUBLAS_OP_N,
                 .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                 .bias = nullptr,
                 .aux = nullptr,
                 .aux_ld = 0,
                 .bias_type = -1};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t* descriptor,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(descriptor->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(descriptor->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(descriptor->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(descriptor->bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set(descriptor->aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set(descriptor->aux_ld);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(descriptor->bias_type);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t* layout, cudaDataType_t type,
                                        std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = {type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreferenceOpaque_t* preference) {
  *preference = {.workspace_bytes = 0, .alignment = 256, .reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t* preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != 8) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&preference->workspace_bytes, value, 8);
    return CUBLAS_STATUS_SUCCESS;
  }
  std::uint32_t number = 0;
  if (bytes != sizeof(number)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&number, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    preference->reduction_mask = number;
  } else {
    preference->alignment = std::min(preference->alignment, number);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDescOpaque_t* descriptor,
                                              cublasLtMatrixLayoutOpaque_t*, cublasLtMatrixLayoutOpaque_t*,
                                              cublasLtMatrixLayoutOpaque_t*, cublasLtMatrixLayoutOpaque_t* d,
                                              cublasLtMatmulPreferenceOpaque_t* preference, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  if (const cublasStatus_t status = Support(*descriptor, *d); status != CUBLAS_STATUS_SUCCESS) return status;
  for (const auto& [id, reduction] : kAlgorithms) {
    const bool allowed =
        reduction == CUBLASLT_REDUCTION_SCHEME_NONE || (reduction & preference->reduction_mask) != 0;
    if (!allowed || *count == most) continue;
    found[*count] = {{id},
                     id == 3 ? std::min<std::size_t>(preference->workspace_bytes, kWorkspaceBytes) : 0,
                     CUBLAS_STATUS_SUCCESS};
    ++*count;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDescOpaque_t* descriptor, const void* alpha,
                              const void* a, cublasLtMatrixLayoutOpaque_t* a_layout, const void* b,
                              cublasLtMatrixLayoutOpaque_t* b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayoutOpaque_t* c_layout, void* d,
                              cublasLtMatrixLayoutOpaque_t* d_layout, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const auto& op = *descriptor;
  if (const cublasStatus_t status = Support(op, *d_layout); status != CUBLAS_STATUS_SUCCESS) return status;
  if (!op.initialised || algorithm->id == 2) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (failure != CUBLAS_STATUS_SUCCESS && (failing_algorithm == 0 || failing_algorithm == algorithm->id))
    return failure;
  const auto m = static_cast<std::int64_t>(d_layout->rows), n = static_cast<std::int64_t>(d_layout->columns);
  const auto k =
      static_cast<std::int64_t>(op.transpose_a == CUBLAS_OP_N ? a_layout->columns : a_layout->rows);
  const auto rows_a =
      static_cast<std::int64_t>(op.transpose_a == CUBLAS_OP_N ? a_layout->rows : a_layout->columns);
  const auto rows_b =
      static_cast<std::int64_t>(op.transpose_b == CUBLAS_OP_N ? b_layout->rows : b_layout->columns);
  const auto columns_b =
      static_cast<std::int64_t>(op.transpose_b == CUBLAS_OP_N ? b_layout->columns : b_layout->rows);
  if (rows_a != m || rows_b != k || columns_b != n) return CUBLAS_STATUS_INVALID_VALUE;
  if (c_layout->type != d_layout->type || (HasBias(op.epilogue) && op.bias == nullptr) ||
      (HasAux(op.epilogue) && op.aux == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // What is on the host is read now, as the library does.
  const float scale = *static_cast<const float*>(alpha), old = *static_cast<const float*>(beta);
  const bool slow = op.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? slow_without : slow_with_epilogue;
  const auto product = [=, op = *descriptor, a_matrix = *a_layout, b_matrix = *b_layout, c_matrix = *c_layout,
                        d_matrix = *d_layout, id = algorithm->id] {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (IsSlow(id)) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    // An algorithm overwrites the workspace that it requires.
    if (workspace_bytes > 0) std::memset(workspace, 0xff, workspace_bytes);
    const std::vector<float> left = Operand(a, a_matrix, op.transpose_a, m, k),
                             right = Operand(b, b_matrix, op.transpose_b, k, n);
    const std::int64_t split = SplitsK(id) ? k / 2 : k;
    std::vector<float> first(static_cast<std::size_t>(m)), second(first);
    for (std::int64_t j = 0; j < n; ++j) {
      std::fill(first.begin(), first.end(), 0.0f);
      std::fill(second.begin(), second.end(), 0.0f);
      AddProducts(left.data(), right.data() + j * k, split, first);
      AddProducts(left.data() + split * m, right.data() + j * k + split, k - split, second);
      for (std::int64_t i = 0; i < m; ++i) {
        const auto row = static_cast<std::size_t>(i);
        float sum = Stored(first[row], id, d_matrix.type);
        if (split < k) sum += Stored(second[row], id, d_matrix.type);
        float value = scale * sum;
        if (old != 0) value += old * Read(c, c_matrix.type, i + j * c_matrix.ld);
        if ((op.epilogue & 4) != 0) value += Read(op.bias, d_matrix.type, i);
        if ((op.epilogue & 32) != 0) {
          Write(op.aux, d_matrix.type, i + j * op.aux_ld, value);
          value = static_cast<float>(Gelu(value));
        } else if ((op.epilogue & 64) != 0) {
          value *= static_cast<float>(GeluGradient(Read(op.aux, d_matrix.type, i + j * op.aux_ld)));
        }
        Write(d, d_matrix.type, i + j * d_matrix.ld, value);
      }
    }
    if (op.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
      for (std::int64_t i = 0; i < m; ++i) {
        float sum = 0;
        for (std::int64_t l = 0; l < k; ++l) sum += left[static_cast<std::size_t>(i + l * m)];
        Write(op.bias, d_matrix.type, i, sum);
      }
    }
  };
  autocfg::cuda_emulator::Issue(stream, product);
  return CUBLAS_STATUS_SUCCESS;
}
