// Matrix products by cuBLASLt, with the algorithm chosen once for each shape: the library's heuristics name
// candidates, and the fastest of them on this GPU is kept. One rank, one thread, one stream at a time.
//
// NOT YET RUN: no GPU has confirmed this file; its keys and choices are tested on the host.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "kernels/cuda/choice_cache.h"
#include "kernels/cuda/matmul_key.h"
#include "kernels/cuda/scratch.h"
#include "kernels/op_choice.h"

namespace autocfg::cuda {

// What a key does not say: where things are. Row-major, contiguous.
struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* c = nullptr;  // what is added where the key accumulates, laid out as d; null: d's old value
  // [n] in the operands' type (kBias, kGeluBias), or in the result's type (kBiasGradient: written)
  void* bias = nullptr;
  void* aux = nullptr;  // [m,n] in the result's type (kGelu, kGeluBias: written; kGeluGradient: read)
};

// How products are computed, by AUTOCFG_MATMUL in the environment.
enum class MatmulMode {
  kTimed,  // not set: by the fastest of the library's algorithms, with its epilogues where they are faster
  kHeuristic,  // "heuristic": by the first algorithm that the library names, untimed, so that runs repeat to
               // the bit
  kApart,      // "apart": as kTimed, but without epilogues: our own kernels do their part, so that what the
               // library and what our kernels get wrong can be told apart
};

// Null: not set, as an empty one. Throws DeviceError for any other word.
MatmulMode ParseMatmulMode(const char* value);

// The largest power of two, at most 16, that divides all addresses (null ones count as any).
int AlignmentOf(const MatmulOperands& operands);

class LtMatmul {
 public:
  // What NVIDIA recommends for Hopper as the libraries' workspace; smaller devices need less.
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
  static constexpr int kTimedRuns = 3;  // whose mean is a time

  // It uses workspace_bytes() of the scratch memory, from its start, and its spare memory. `scratch` must
  // outlive it. Reads AUTOCFG_MATMUL.
  explicit LtMatmul(Scratch& scratch, std::int64_t workspace_bytes = kWorkspaceBytes);
  ~LtMatmul();
  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;

  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  // Whether the library has an algorithm for the key: a product without epilogue it always has. The first
  // question about a key times the candidates on the operands given (what they hold of results is
  // overwritten; with `accumulate` it is kept) and waits for the GPU. Throws DeviceError, and
  // DeviceOutOfMemory where the GPU has no room for what the library takes for itself.
  bool Supports(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);

  // Of one run of what is chosen for the key, as it was timed; 0 where it was not. As Supports it makes the
  // choice where there is none yet.
  double Seconds(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);

  // Requires: Supports. Throws DeviceError, DeviceOutOfMemory.
  void Run(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);

  // Of each key met: what was chosen, out of how many, and how. Not usual: an epilogue that the library does
  // not have, and algorithms that were not timed.
  std::vector<OpChoice> Choices() const;

 private:
  struct Descriptors;
  struct Choice {
    bool supported = false;
    std::string refusal = "it has no algorithm";  // why not
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace_bytes = 0;
    int candidates = 0;
    double seconds = 0;             // 0: not timed
    const char* untimed = nullptr;  // why, where there were several
  };

  const Choice& ChoiceOf(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);
  Choice Choose(const MatmulKey& key, const MatmulOperands& operands, cudaStream_t stream);
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
