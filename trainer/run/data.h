// Sources of the training tokens. The n-th sequence of the run (n counts over all steps from 0) is the same
// for every layout. One rank, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "search/plan/workload.h"

namespace autocfg::trainer {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Fills `tokens` with the first tokens of sequence n: inputs are [0, S), targets [1, S]. Throws BadInput if
  // a token is outside the vocabulary.
  virtual void Read(std::int64_t sequence, std::span<std::int32_t> tokens) = 0;

  // Returns a text that tells the tokens from those of other sources, wherever they are stored. A file's is
  // its length, the size of a token and a checksum of its first MiB.
  virtual std::string Identity() const = 0;

  // Returns what the tokens are, for the user: "data: x.bin is taken as uint16 tokens, ...: 12 tokens"; empty
  // for a pattern.
  virtual std::string Description() const = 0;
};

// Opens a file of tokens, in any form of token_file.h. Sequence n takes the tokens (n S + i) mod N. Reads
// only the requested parts. Throws BadInput, which names the file, if it is unreadable, empty, or not of its
// form.
std::unique_ptr<TokenSource> OpenTokenFile(const std::string& path, std::int64_t seq_len, std::int64_t vocab);

// Creates a seeded pattern of at most 64 distinct tokens. Every sequence repeats it, starting at some
// position. Each token determines the next, so the loss falls.
std::unique_ptr<TokenSource> CreatePatternSource(std::uint64_t seed, std::int64_t vocab);

// Returns the global index of the first sequence of a microbatch. Sequences are ordered by step, then by rank
// of the data axis, then by microbatch.
std::int64_t FirstSequence(std::int64_t step, std::int64_t global_batch, std::int64_t data_rank,
                           std::int64_t data_ranks, std::int64_t microbatch, std::int64_t micro_batch);

}  // namespace autocfg::trainer
