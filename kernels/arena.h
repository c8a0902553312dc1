// The device memory of one rank, allocated once. Callers reserve tensors by region, commit, then resolve them
// to pointers. Nothing is freed before the arena, so there is no fragmentation, and a plan that does not fit
// fails before anything runs. One rank, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace autocfg {

enum class Region : std::uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kWorkspace,
  kCommunication
};
inline constexpr int kRegionCount = 6;

std::string_view Name(Region region);  // Returns "parameters", "gradients", ...

// A reservation. `Arena::At` turns it into a tensor once the arena is committed.
struct Reservation {
  Region region = Region::kParameters;
  std::int64_t offset = 0;  // within the region
  Tensor tensor;            // data is null
};

class Arena {
 public:
  explicit Arena(Device& device) : device_(device) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Takes AlignedBytes of the tensor, at a multiple of kArenaAlignment. Requires: not committed.
  Reservation Reserve(Region region, DType dtype, std::initializer_list<std::int64_t> shape);
  Reservation Reserve(Region region, DType dtype, std::span<const std::int64_t> shape);
  // The same, for another tensor of the region, type and shape of `model`.
  Reservation ReserveLike(const Reservation& model);

  // Allocates the memory, region after region. Throws DeviceOutOfMemory, naming the largest region, if the
  // sum exceeds a positive `capacity_bytes` or if the device refuses.
  void Commit(std::int64_t capacity_bytes = 0);

  // Requires: committed.
  Tensor At(const Reservation& reservation) const;

  // Returns the whole region as one flat tensor of the given type, for example to reduce or clear all
  // gradients at once. Requires: committed.
  Tensor Whole(Region region, DType dtype) const;

  std::int64_t ReservedBytes(Region region) const { return bytes_[static_cast<int>(region)]; }
  std::int64_t TotalBytes() const;

 private:
  Device& device_;
  std::array<std::int64_t, kRegionCount> bytes_{};
  std::array<std::int64_t, kRegionCount> base_{};
  char* data_ = nullptr;
  bool committed_ = false;
};

}  // namespace autocfg
