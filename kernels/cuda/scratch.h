// Memory that ops use for themselves while they run, beside the arena: partial sums, libraries' workspaces.
// It belongs to one stream: what an op leaves in it, the next one overwrites. It grows at first use and is
// counted as the device's overhead. One rank, one thread.
//
// Nothing is freed within a step: that waits for all that the device has to do, receives from peers included,
// and peers may need this host to go on. What has been outgrown is kept until Release, between steps; only
// where the device has no room for both is it freed at once.
#pragma once

#include <cstdint>
#include <vector>

namespace autocfg::cuda {

class Scratch {
 public:
  // Of the device's memory, which Spare leaves to others: NCCL takes buffers while a first step runs.
  static constexpr std::int64_t kLeftFree = std::int64_t{256} << 20;

  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `bytes`, aligned to 256; valid for the ops issued until the next call. Takes memory where it has
  // to grow, which happens while shapes are first seen. Throws DeviceOutOfMemory.
  void* Get(std::int64_t bytes);
  template <typename T>
  T* Get(std::int64_t elements) {
    return static_cast<T*>(Get(elements * static_cast<std::int64_t>(sizeof(T))));
  }

  // Other memory of at least `bytes`, for results that nobody wants; the same one as long as it suffices.
  // Null where less than kLeftFree would be left.
  void* Spare(std::int64_t bytes);

  // Frees what Get has outgrown, and what Spare gave. Requires that nothing is left to run that uses it.
  void Release();

  std::int64_t bytes() const { return block_.bytes; }

 private:
  struct Block {
    void* data = nullptr;
    std::int64_t bytes = 0;
  };
  // Null where there is no room.
  static Block Take(std::int64_t bytes);
  void Outgrow(Block& block, const Block& larger);

  Block block_, spare_;
  std::vector<Block> outgrown_;
};

}  // namespace autocfg::cuda
