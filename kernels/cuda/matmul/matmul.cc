#include "kernels/cuda/matmul/matmul.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/cuda_stream.h"
#include "kernels/device.h"

namespace autocfg::cuda {
namespace {

constexpr int kMostCandidates = 8;
constexpr std::int64_t kAuxRowMultiple = 8;
constexpr int kRounds = 2;  // rounds over all candidates; clocks rise while the first ones are timed

// A kernel is loaded when it is first issued. If there is no room for it, the library may report only a
// failure.
bool IsWantOfMemory(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return true;
  const bool without_a_reason = status == CUBLAS_STATUS_NOT_INITIALIZED ||
                                status == CUBLAS_STATUS_EXECUTION_FAILED ||
                                status == CUBLAS_STATUS_INTERNAL_ERROR;
  return without_a_reason && IsShortOfMemory();
}

void Check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = fmt::format("cuBLASLt: {} failed: {}", what, cublasLtGetStatusString(status));
  if (IsWantOfMemory(status)) throw DeviceOutOfMemory(-1, FreeBytes(), text);
  throw DeviceError(text);
}

// Returns whether the library computed nothing because the arguments do not suit the algorithm.
bool IsRefusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

cudaDataType_t TypeOf(DType type) {
  switch (type) {
    case DType::kF32: return CUDA_R_32F;
    case DType::kBF16: return CUDA_R_16BF;
    default:
      throw std::invalid_argument(
          fmt::format("matmul: {} is not supported on the cuda device; use fp32 or bf16", Name(type)));
  }
}

cublasLtEpilogue_t LibraryEpilogue(LtEpilogue epilogue) {
  switch (epilogue) {
    case LtEpilogue::kNone: return CUBLASLT_EPILOGUE_DEFAULT;
    case LtEpilogue::kBias: return CUBLASLT_EPILOGUE_BIAS;
    case LtEpilogue::kGelu: return CUBLASLT_EPILOGUE_GELU_AUX;
    case LtEpilogue::kGeluBias: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case LtEpilogue::kGeluGradient: return CUBLASLT_EPILOGUE_DGELU;
    case LtEpilogue::kBiasGradient: return CUBLASLT_EPILOGUE_BGRADA;  // the library's A is our b
  }
  throw std::logic_error("no such epilogue");
}

bool HasAux(LtEpilogue epilogue) {
  return epilogue == LtEpilogue::kGelu || epilogue == LtEpilogue::kGeluBias ||
         epilogue == LtEpilogue::kGeluGradient;
}
bool HasBias(LtEpilogue epilogue) {
  return epilogue == LtEpilogue::kBias || epilogue == LtEpilogue::kGeluBias ||
         epilogue == LtEpilogue::kBiasGradient;
}

}  // namespace

MatmulMode ParseMatmulMode(const char* value) {
  const std::string_view word = value == nullptr ? "" : value;
  if (word.empty()) return MatmulMode::kTimed;
  if (word == "heuristic") return MatmulMode::kHeuristic;
  if (word == "apart") return MatmulMode::kApart;
  throw DeviceError(fmt::format("AUTOCFG_MATMUL is \"{}\"; it must be heuristic or apart, or not set", word));
}

int AlignmentOf(const MatmulOperands& operands) {
  std::uintptr_t bits = 16;
  for (const void* p : {operands.a, operands.b, static_cast<const void*>(operands.d), operands.c,
                        static_cast<const void*>(operands.bias), static_cast<const void*>(operands.aux)}) {
    bits |= reinterpret_cast<std::uintptr_t>(p);
  }
  return 1 << std::countr_zero(bits);
}

// The library's matrices are column-major: row-major d = op(a) op(b) is its d^T = op(b)^T op(a)^T, with our b
// as its A.
struct LtMatmul::Descriptors {
  // The library takes non-const pointers to these.
  mutable cublasLtMatmulDescOpaque_t matmul{};
  mutable cublasLtMatrixLayoutOpaque_t a{}, b{}, d{};

  Descriptors(const MatmulKey& key, const MatmulOperands& operands) {
    const cudaDataType_t operand = TypeOf(key.operands), result = TypeOf(key.result);
    Check(cublasLtMatmulDescInit(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    Set(CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, LibraryEpilogue(key.epilogue));
    if (HasBias(key.epilogue)) {
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
      Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(result));
    }
    if (HasAux(key.epilogue)) {
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.n);
    }
    const auto layout = [](cublasLtMatrixLayoutOpaque_t& of, cudaDataType_t type, std::int64_t rows,
                           std::int64_t columns) {
      // A row-major [rows, columns] matrix is column-major [columns, rows].
      Check(cublasLtMatrixLayoutInit(&of, type, static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), columns),
            "describing a matrix");
    };
    layout(a, operand, key.transpose_b ? key.n : key.k, key.transpose_b ? key.k : key.n);
    layout(b, operand, key.transpose_a ? key.k : key.m, key.transpose_a ? key.m : key.k);
    layout(d, result, key.m, key.n);
  }

  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    Check(cublasLtMatmulDescSetAttribute(&matmul, attribute, &value, sizeof(value)), "describing a product");
  }
};

LtMatmul::LtMatmul(Scratch& scratch, std::int64_t workspace_bytes)
    : scratch_(scratch),
      workspace_bytes_(workspace_bytes),
      mode_(ParseMatmulMode(std::getenv("AUTOCFG_MATMUL"))) {
  Check(cublasLtCreate(&handle_), "creating its handle");
}

LtMatmul::~LtMatmul() { (void)cublasLtDestroy(handle_); }  // fails only if the device is lost

bool LtMatmul::Supports(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream) {
  return ChoiceOf(key, operands, stream).supported;
}

void LtMatmul::Run(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream) {
  const Choice& choice = ChoiceOf(key, operands, stream);
  if (!choice.supported) throw DeviceError(fmt::format("cuBLASLt: no {}: {}", ToString(key), choice.refusal));
  const Descriptors descriptors(key, operands);
  const cublasStatus_t status = Issue(key, descriptors, operands, choice, stream);
  if (!IsRefusal(status)) return Check(status, ToString(key));
  if (choice.replaced != nullptr) Check(status, ToString(key) + ", by the second algorithm chosen for it,");
  RunAnother(key, descriptors, operands, status, stream);
}

void LtMatmul::RunAnother(const MatmulKey& key, const Descriptors& descriptors,
                          const MatmulOperands& operands, cublasStatus_t refusal, cudaStream_t stream) {
  std::vector<Choice> candidates = Candidates(key, descriptors);
  for (Choice& candidate : candidates) {
    const cublasStatus_t status = Issue(key, descriptors, operands, candidate, stream);
    if (IsRefusal(status)) {
      candidate.refusal = cublasLtGetStatusString(status);
      continue;
    }
    Check(status, ToString(key));
    candidate.replaced = cublasLtGetStatusString(refusal);
    return cache_.Replace(key, std::move(candidate));
  }
  throw DeviceError(fmt::format("cuBLASLt: {} failed: {}; none of its {} algorithms accepts the operands: {}",
                                ToString(key), cublasLtGetStatusString(refusal), candidates.size(),
                                WhatAllSaid(candidates)));
}

const LtMatmul::Choice& LtMatmul::ChoiceOf(const MatmulKey& key, const MatmulOperands& operands,
                                           cudaStream_t stream) {
  return cache_.Find(key, [&] { return Choose(key, operands, stream); });
}

LtMatmul::Choice LtMatmul::Choose(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream) {
  // cublasLt.h requires this of EPILOGUE_AUX_LD. It is not known whether the library checks it, so check it
  // here.
  if (HasAux(key.epilogue) && key.n % kAuxRowMultiple != 0)
    return {.refusal = "rows of the auxiliary matrix must be multiples of 8 elements"};
  if (mode_ == MatmulMode::kApart && key.epilogue != LtEpilogue::kNone)
    return {.refusal = "AUTOCFG_MATMUL=apart"};
  std::vector<Choice> candidates = Candidates(key, Descriptors(key, operands));
  if (candidates.empty()) return {};
  Choice& first = candidates.front();
  if (mode_ == MatmulMode::kHeuristic) {
    if (candidates.size() > 1) first.untimed = "AUTOCFG_MATMUL=heuristic";
    return first;
  }

  // A product that accumulates into its own result must not do so while it is timed. Its results go to spare
  // memory, or, if there is no room, the first candidate is taken.
  MatmulOperands timed = operands;
  if (key.accumulate && operands.c == nullptr) {
    timed.d = scratch_.Spare(key.m * key.n * SizeOf(key.result));
    if (timed.d == nullptr) {
      if (candidates.size() > 1) first.untimed = "the GPU has no memory left for a second result";
      return first;
    }
  }
  const Descriptors on_timed(key, timed);
  for (Choice& candidate : candidates) candidate.seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    for (Choice& candidate : candidates)
      candidate.seconds = std::min(candidate.seconds, SecondsOf(key, on_timed, timed, candidate, stream));
  }
  const int fastest = Fastest(candidates, [](const Choice& candidate) { return candidate.seconds; });
  if (fastest >= 0) return candidates[static_cast<std::size_t>(fastest)];
  return {.refusal =
              fmt::format("none of its {} algorithms runs: {}", candidates.size(), WhatAllSaid(candidates))};
}

std::vector<LtMatmul::Choice> LtMatmul::Candidates(const MatmulKey& key, const Descriptors& descriptors) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  Check(cublasLtMatmulPreferenceInit(&preference), "describing a preference");
  const auto set = [&preference](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    Check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
          "describing a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes_));
  // Partial sums of a split k in the result's type, bf16, would cost precision. Algorithms that do not split
  // k have no bit: they pass every mask.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const auto alignment = static_cast<std::uint32_t>(key.alignment);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, alignment);
  }

  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, &descriptors.matmul, &descriptors.a, &descriptors.b, &descriptors.d, &descriptors.d,
      &preference, kMostCandidates, found.data(), &count);
  // A violated condition of an epilogue may also be reported as an invalid value.
  const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                       (status == CUBLAS_STATUS_INVALID_VALUE && key.epilogue != LtEpilogue::kNone);
  if (refused || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return {};
  Check(status, fmt::format("finding algorithms for {}", ToString(key)));

  std::vector<Choice> candidates;
  for (int i = 0; i < count; ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
    candidates.push_back(
        {.supported = true, .algorithm = found[i].algo, .workspace_bytes = found[i].workspaceSize});
  }
  for (Choice& candidate : candidates) candidate.candidates = static_cast<int>(candidates.size());
  return candidates;
}

std::string LtMatmul::WhatAllSaid(const std::vector<Choice>& failed) {
  std::vector<std::string> said;
  for (const Choice& candidate : failed) {
    if (std::find(said.begin(), said.end(), candidate.refusal) == said.end())
      said.push_back(candidate.refusal);
  }
  return fmt::format("{}", fmt::join(said, "; "));
}

cublasStatus_t LtMatmul::Issue(const MatmulKey& key, const Descriptors& descriptors,
                               const MatmulOperands& operands, const Choice& choice, cudaStream_t stream) {
  const float one = 1, beta = key.accumulate ? 1 : 0;
  void* workspace = scratch_.Get(workspace_bytes_);
  const void* c = operands.c != nullptr ? operands.c : operands.d;
  return cublasLtMatmul(handle_, &descriptors.matmul, &one, operands.b, &descriptors.a, operands.a,
                        &descriptors.b, &beta, c, &descriptors.d, operands.d, &descriptors.d,
                        &choice.algorithm, workspace, choice.workspace_bytes, stream);
}

// Returns the seconds of one run, the mean of a few after a warm-up run. Returns infinity if the candidate
// does not run, with the library's message as its refusal. Lack of memory is not the candidate's fault, and
// is thrown.
double LtMatmul::SecondsOf(const MatmulKey& key, const Descriptors& descriptors,
                           const MatmulOperands& operands, Choice& choice, cudaStream_t stream) {
  if (const cublasStatus_t status = Issue(key, descriptors, operands, choice, stream);
      status != CUBLAS_STATUS_SUCCESS) {
    if (IsWantOfMemory(status)) Check(status, ToString(key));
    choice.refusal = cublasLtGetStatusString(status);
    return std::numeric_limits<double>::infinity();
  }
  return MeanSeconds(stream, kTimedRuns,
                     [&] { Check(Issue(key, descriptors, operands, choice, stream), ToString(key)); });
}

double LtMatmul::Seconds(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream) {
  return ChoiceOf(key, operands, stream).seconds;
}

std::vector<OpChoice> LtMatmul::Choices() const {
  std::vector<OpChoice> choices;
  for (const auto& [key, choice] : cache_.choices()) {
    const std::string name = ToString(key);
    if (!choice.supported) {
      choices.push_back({fmt::format("{}: not by cuBLASLt: {}", name, choice.refusal), false});
    } else if (choice.replaced != nullptr) {
      choices.push_back(
          {fmt::format("{}: the first of {} algorithms that accepts its operands; the algorithm "
                       "chosen first answered \"{}\" on them",
                       name, choice.candidates, choice.replaced),
           false, true});
    } else if (choice.untimed != nullptr) {
      choices.push_back({fmt::format("{}: the first of {} algorithms, not timed: {}", name, choice.candidates,
                                     choice.untimed),
                         false});
    } else if (choice.candidates == 1) {
      choices.push_back({name + ": the only algorithm"});
    } else {
      choices.push_back({fmt::format("{}: the fastest of {} algorithms, {:.1f} us", name, choice.candidates,
                                     choice.seconds * 1e6)});
    }
  }
  return choices;
}

}  // namespace autocfg::cuda
