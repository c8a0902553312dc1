// Matrix products by cuBLASLt. The algorithm is chosen once for each shape: the library's heuristics name
// candidates, and the fastest of them on this GPU is kept. Candidates that split k keep their partial sums in
// fp32. One rank, one thread, one stream at a time.
//
// NOT YET RUN: no GPU has confirmed this file; its keys and choices are tested on the host.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "kernels/cuda/device/scratch.h"
#include "kernels/cuda/matmul/choice_cache.h"
#include "kernels/cuda/matmul/matmul_key.h"
#include "kernels/op_log.h"

namespace autocfg::cuda {

// The addresses that complete a MatmulKey. Row-major, contiguous.
struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* c = nullptr;  // the addend if the key accumulates, laid out as d; null: d's old value
  // [n] in the result's type, the only one that the library takes here; kBiasGradient: written
  void* bias = nullptr;
  void* aux = nullptr;  // [m,n] in the result's type (kGelu, kGeluBias: written; kGeluGradient: read)
};

// How products are computed; set by the environment variable AUTOCFG_MATMUL.
enum class MatmulMode {
  kTimed,      // unset: the library's fastest algorithm, with its epilogue if that is faster
  kHeuristic,  // "heuristic": the library's first proposed algorithm, untimed, so that runs are bit-identical
  kApart,      // "apart": as kTimed, but our own kernels replace epilogues, to tell the library's errors from
               // our kernels' errors
};

// Parses the value; null or empty means kTimed. Throws DeviceError for any other word.
MatmulMode ParseMatmulMode(const char* value);

// Returns the largest power of two, at most 16, that divides all addresses. Null addresses are ignored.
int AlignmentOf(const MatmulOperands& operands);

class LtMatmul {
 public:
  // NVIDIA's recommended workspace size for Hopper; smaller devices need less.
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
  static constexpr int kTimedRuns = 3;  // a time is the mean of this many runs

  // Uses the first workspace_bytes() of the scratch memory, and its spare memory. `scratch` must outlive it.
  // Reads AUTOCFG_MATMUL.
  explicit LtMatmul(Scratch& scratch, std::int64_t workspace_bytes = kWorkspaceBytes);
  ~LtMatmul();
  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;

  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  // Returns whether the library has an algorithm for the key; it always has one for a product without
  // epilogue. The first query for a key times the candidates on the given operands and waits for the GPU. It
  // overwrites results in the operands, except with `accumulate`. Throws DeviceError, and DeviceOutOfMemory
  // if the GPU has no room for the library's own memory.
  bool Supports(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);

  // Returns the measured time of one run of the key's algorithm, or 0 if it was not timed. Like Supports,
  // makes the choice if there is none yet.
  double Seconds(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);

  // Requires: Supports. If the library refuses the key's algorithm on these operands (NOT_SUPPORTED or
  // INVALID_VALUE), the first candidate that it accepts replaces it, untimed, once for each key. Throws
  // DeviceError, also if it refuses that one later, and DeviceOutOfMemory.
  void Run(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);

  // Returns for each key used: the chosen algorithm, the number of candidates, and how it was chosen. Not
  // usual are epilogues that the library lacks, algorithms that were not timed, and replacements. The latter
  // are the rank's own.
  std::vector<OpChoice> Choices() const;

 private:
  struct Descriptors;
  struct Choice {
    bool supported = false;
    std::string refusal = "it has no algorithm";  // reason if not supported
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace_bytes = 0;
    int candidates = 0;
    double seconds = 0;              // 0: not timed
    const char* untimed = nullptr;   // reason, if there were several
    const char* replaced = nullptr;  // what the library said of the algorithm that this one replaced, if any
  };

  const Choice& ChoiceOf(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);
  Choice Choose(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);
  // Returns the library's candidates, the one that it expects to be the fastest first; none if it has none.
  std::vector<Choice> Candidates(const MatmulKey& key, const Descriptors& descriptors);
  // Runs the product by the first candidate that the library accepts, which becomes the key's choice.
  void RunAnother(const MatmulKey& key, const Descriptors& descriptors, const MatmulOperands& operands,
                  cublasStatus_t refusal, cudaStream_t stream);
  cublasStatus_t Issue(const MatmulKey& key, const Descriptors& descriptors, const MatmulOperands& operands,
                       const Choice& choice, cudaStream_t stream);
  double SecondsOf(const MatmulKey& key, const Descriptors& descriptors, const MatmulOperands& operands,
                   Choice& choice, cudaStream_t stream);
  static std::string WhatAllSaid(const std::vector<Choice>& failed);

  Scratch& scratch_;
  const std::int64_t workspace_bytes_;
  const MatmulMode mode_;
  cublasLtHandle_t handle_ = nullptr;
  ChoiceCache<MatmulKey, Choice> cache_;
};

}  // namespace autocfg::cuda
