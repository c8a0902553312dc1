// What a rank may send to its launcher: the limits that both sides keep, and results in parts. A launcher
// that runs many ranks of several jobs holds at most one incomplete message of each, so every message is
// small, whatever the run. This table has the largest messages of real runs.
//
//   gather request   a UCX address: up to some kB; an identity of NCCL: 128 bytes
//   progress         40 bytes; that of the first step of a resumed run also has up to two notes, each cut to
//                    kMaxRankErrorBytes
//   error            its message, cut to kMaxRankErrorBytes
//   result           24 bytes a step, 50 a row of a trace, 80 of a timeline, 100 an op: 70 MB for the longest
//                    trace. So it goes in parts, and the run spec bounds their sum
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "autocfg/v1/trainer.pb.h"

namespace autocfg {

// Limit of a RankMessage.
inline constexpr std::uint32_t kMaxRankMessageBytes = 64u << 10;
// Limit of RankError.message.
inline constexpr std::size_t kMaxRankErrorBytes = 8u << 10;

// Calls `send` with the parts of a message, in order: a result in parts of at most kMaxRankMessageBytes
// unless one op or row alone exceeds it, any other message as it is.
void ForEachPart(const v1::RankMessage& message, const std::function<void(const v1::RankMessage&)>& send);

// The most that a rank may report of what it was asked for.
struct ResultLimits {
  std::int64_t steps = 0;          // losses, gradient norms, step times: each
  std::int64_t trace_rows = 0;     // in a rank's program, rounded up
  std::int64_t timeline_rows = 0;  // of the recorded step
  std::int64_t ops = 0;
  std::int64_t bytes = 0;  // of all parts
};
ResultLimits LimitsOf(const v1::RunSpec& spec);

// Joins the parts of a rank's result.
class ResultJoiner {
 public:
  // `spec`: what the rank was asked for.
  explicit ResultJoiner(const v1::RunSpec& spec)
      : wants_training_(spec.has_train()), limits_(LimitsOf(spec)) {}

  // Adds the next part. InvalidArgument, with the figures, if the result exceeds its limits, is of another
  // kind than asked for, or is already complete. Requires a part of a result.
  absl::Status Add(v1::RankMessage part);

  bool complete() const { return complete_; }
  // Returns the whole result. Call once. Requires: complete().
  v1::RankMessage Take() { return std::move(whole_); }

 private:
  absl::Status Check(const v1::RankMessage& part) const;

  const bool wants_training_;
  const ResultLimits limits_;
  v1::RankMessage whole_;
  std::int64_t bytes_ = 0;
  bool complete_ = false;
};

}  // namespace autocfg
