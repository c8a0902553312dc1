// Allocates pieces of a ring of bytes. Pieces are freed in the order of their allocation. One rank, one
// thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

namespace autocfg::cuda {

class RingPlaces {
 public:
  static constexpr std::int64_t kAlignment = 256;

  // Requires a multiple of kAlignment.
  explicit RingPlaces(std::int64_t bytes) : bytes_(bytes) {}

  bool empty() const { return taken_.empty(); }

  // Returns the offset of a contiguous piece of `bytes` that overlaps no other; a multiple of kAlignment.
  // Requires 0 <= bytes <= the ring's size. Returns none if the oldest pieces leave no room.
  std::optional<std::int64_t> Take(std::int64_t bytes) {
    bytes = std::max<std::int64_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
    const std::int64_t tail = empty() ? 0 : taken_.front().begin, head = empty() ? 0 : taken_.back().end;
    const bool wrapped = !empty() && taken_.back().begin < tail;
    std::int64_t begin = head;
    if (wrapped) {
      if (tail - head < bytes) return std::nullopt;
    } else if (bytes_ - head < bytes) {
      if (tail < bytes) return std::nullopt;
      begin = 0;
    }
    taken_.push_back({begin, begin + bytes});
    return begin;
  }

  // Requires at least one piece.
  void GiveBackOldest() { taken_.pop_front(); }

 private:
  struct Piece {
    std::int64_t begin = 0, end = 0;
  };
  const std::int64_t bytes_;
  std::deque<Piece> taken_;
};

}  // namespace autocfg::cuda
