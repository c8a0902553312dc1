// Where the tokens of a run come from. The n-th sequence of the run (n counts over all steps from 0) is the
// same for every layout. One rank, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "search/plan/workload.h"

namespace autocfg {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Fills `tokens` with the first tokens of sequence n: inputs are [0, S), targets [1, S]. Throws BadInput
  // where a token is outside the vocabulary.
  virtual void Read(std::int64_t sequence, std::span<std::int32_t> tokens) = 0;
};

// A file of bytes, or of little-endian ids of 16 or 32 bits where its name ends in .u16 or .u32. Sequence n
// takes the tokens (n S + i) mod N. Reads only what is asked for. Throws BadInput, naming the file, where it
// cannot be read, is empty, has less than two tokens, or no whole number of them.
std::unique_ptr<TokenSource> OpenTokenFile(const std::string& path, std::int64_t seq_len, std::int64_t vocab);

// A seeded pattern of at most 64 distinct tokens that every sequence repeats, starting somewhere: each token
// says the next, so the loss falls.
std::unique_ptr<TokenSource> CreatePatternSource(std::uint64_t seed, std::int64_t vocab);

// Global index of the first sequence of a microbatch: steps come first, then ranks of the data axis, then
// microbatches.
std::int64_t FirstSequence(std::int64_t step, std::int64_t global_batch, std::int64_t data_rank,
                           std::int64_t data_ranks, std::int64_t microbatch, std::int64_t micro_batch);

}  // namespace autocfg
