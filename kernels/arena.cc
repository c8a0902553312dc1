#include "kernels/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

// Returns the bytes to reserve for a tensor. Throws on overflow.
std::int64_t TensorBytes(DType dtype, std::span<const std::int64_t> shape) {
  std::int64_t bytes = SizeOf(dtype);
  for (std::int64_t dim : shape) {
    if (dim <= 0)
      throw std::invalid_argument(fmt::format("arena: a dimension of {} was reserved; need at least 1", dim));
    if (__builtin_mul_overflow(bytes, dim, &bytes)) bytes = kMaxBytes;
    if (bytes == kMaxBytes) break;
  }
  if (bytes > kMaxBytes - kArenaAlignment) {
    throw DeviceOutOfMemory(
        kMaxBytes, -1, "arena: a tensor of more than 2^63 bytes was reserved; use a smaller model or batch");
  }
  return AlignedBytes(bytes);
}

}  // namespace

std::string_view Name(Region region) {
  switch (region) {
    case Region::kParameters: return "parameters";
    case Region::kGradients: return "gradients";
    case Region::kOptimizer: return "optimizer";
    case Region::kActivations: return "activations";
    case Region::kWorkspace: return "workspace";
    case Region::kCommunication: return "communication";
  }
  return "unknown region";
}

Arena::~Arena() {
  if (committed_ && TotalBytes() > 0) device_.Free(data_, TotalBytes());
}

Reservation Arena::Reserve(Region region, DType dtype, std::initializer_list<std::int64_t> shape) {
  return Reserve(region, dtype, std::span<const std::int64_t>{shape.begin(), shape.size()});
}

Reservation Arena::ReserveLike(const Reservation& model) {
  const auto rank = static_cast<std::size_t>(model.tensor.rank);
  return Reserve(model.region, model.tensor.dtype,
                 std::span<const std::int64_t>{model.tensor.shape.data(), rank});
}

Reservation Arena::Reserve(Region region, DType dtype, std::span<const std::int64_t> shape) {
  if (committed_) throw std::logic_error("arena: Reserve after Commit");
  if (shape.size() > kMaxRank) {
    throw std::invalid_argument(
        fmt::format("arena: a tensor of rank {} was reserved; at most {}", shape.size(), kMaxRank));
  }
  const std::int64_t bytes = TensorBytes(dtype, shape);
  if (bytes > kMaxBytes - TotalBytes()) {
    throw DeviceOutOfMemory(kMaxBytes, -1,
                            "arena: more than 2^63 bytes were reserved in all; use a smaller model or batch");
  }

  Reservation reservation;
  reservation.region = region;
  reservation.offset = ReservedBytes(region);
  reservation.tensor.dtype = dtype;
  for (std::int64_t dim : shape) reservation.tensor.shape[reservation.tensor.rank++] = dim;
  bytes_[static_cast<int>(region)] += bytes;
  return reservation;
}

void Arena::Commit(std::int64_t capacity_bytes) {
  if (committed_) throw std::logic_error("arena: Commit twice");
  const std::int64_t total = TotalBytes();
  const auto largest = static_cast<Region>(std::max_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
  const std::string largest_text =
      fmt::format("the largest region is {} with {} bytes", Name(largest), ReservedBytes(largest));

  if (capacity_bytes > 0 && total > capacity_bytes) {
    throw DeviceOutOfMemory(total, capacity_bytes,
                            fmt::format("the plan needs {} bytes, {} more than the capacity of {}; {}", total,
                                        total - capacity_bytes, capacity_bytes, largest_text));
  }
  if (total > 0) {
    try {
      data_ = static_cast<char*>(device_.Allocate(total));
    } catch (const DeviceOutOfMemory& error) {
      throw DeviceOutOfMemory(total, error.available_bytes,
                              fmt::format("{}; {}", error.what(), largest_text));
    }
  }
  std::int64_t base = 0;
  for (int i = 0; i < kRegionCount; ++i) {
    base_[i] = base;
    base += bytes_[i];
  }
  committed_ = true;
}

Tensor Arena::At(const Reservation& reservation) const {
  if (!committed_) throw std::logic_error("arena: At before Commit");
  Tensor tensor = reservation.tensor;
  if (data_ != nullptr)
    tensor.data = data_ + base_[static_cast<int>(reservation.region)] + reservation.offset;
  return tensor;
}

Tensor Arena::Whole(Region region, DType dtype) const {
  if (!committed_) throw std::logic_error("arena: Whole before Commit");
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.rank = 1;
  tensor.shape[0] = ReservedBytes(region) / SizeOf(dtype);
  if (data_ != nullptr) tensor.data = data_ + base_[static_cast<int>(region)];
  return tensor;
}

std::int64_t Arena::TotalBytes() const {
  std::int64_t total = 0;
  for (std::int64_t bytes : bytes_) total += bytes;
  return total;
}

}  // namespace autocfg
