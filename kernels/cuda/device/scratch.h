// Temporary memory of ops beside the arena: partial sums, library workspaces. It belongs to one stream; the
// next op overwrites it. It grows at first use and counts as device overhead. One rank, one thread.
//
// Nothing is freed within a step. Freeing waits for all work of the device, including receives from peers,
// and peers may need this host to go on. Outgrown memory is kept until Release, between steps. Only if the
// device has no room for both is it freed at once.
#pragma once

#include <cstdint>
#include <vector>

namespace autocfg::cuda {

class Scratch {
 public:
  // Device memory that Spare leaves free for others: NCCL allocates buffers while a first step runs.
  static constexpr std::int64_t kLeftFree = std::int64_t{256} << 20;

  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Returns at least `bytes`, aligned to 256, valid for the ops issued until the next call. Allocates if it
  // has to grow, which happens when new shapes appear. Throws DeviceOutOfMemory.
  void* Get(std::int64_t bytes);
  template <typename T>
  T* Get(std::int64_t elements) {
    return static_cast<T*>(Get(elements * static_cast<std::int64_t>(sizeof(T))));
  }

  // Returns other memory of at least `bytes`, for results that are discarded; the same block as long as it
  // suffices. Returns null if less than kLeftFree would remain free.
  void* Spare(std::int64_t bytes);

  // Frees the memory that Get has outgrown, and the memory of Spare. Requires that no pending work uses it.
  void Release();

  std::int64_t bytes() const { return block_.bytes; }

 private:
  struct Block {
    void* data = nullptr;
    std::int64_t bytes = 0;
  };
  // Returns null data if there is no room.
  static Block Take(std::int64_t bytes);
  void Outgrow(Block& block, const Block& larger);

  Block block_, spare_;
  std::vector<Block> outgrown_;
};

}  // namespace autocfg::cuda
