// Memory that ops use for themselves while they run, beside the arena: partial sums, libraries' workspaces.
// It belongs to one stream: what an op leaves in it, the next one overwrites. It grows at first use and is
// counted as the device's overhead. One rank, one thread.
#pragma once

#include <cstdint>

namespace autocfg::cuda {

class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `bytes`, aligned to 256; valid for the ops issued until the next call. Waits for the device
  // where it has to grow, which happens while shapes are first seen. Throws DeviceOutOfMemory.
  void* Get(std::int64_t bytes);
  template <typename T>
  T* Get(std::int64_t elements) {
    return static_cast<T*>(Get(elements * static_cast<std::int64_t>(sizeof(T))));
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace autocfg::cuda
