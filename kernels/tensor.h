// A view of a contiguous row-major array on a device. Owns nothing; copy freely.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "search/ops/dtype.h"

namespace autocfg {

inline constexpr int kMaxRank = 4;

struct Tensor {
  void* data = nullptr;  // null on devices that compute nothing
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};

  std::int64_t Elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
  // Returns false for Tensor{}, which stands for an absent operand.
  bool IsPresent() const { return rank > 0; }
  std::int64_t Bytes() const { return Elements() * SizeOf(dtype); }

  template <typename T>
  T* As() const {
    return static_cast<T*>(data);
  }

  // Returns elements [first, first + count), flat.
  Tensor Slice(std::int64_t first, std::int64_t count) const {
    Tensor part{.data = data, .dtype = dtype, .rank = 1, .shape = {count}};
    if (data != nullptr) part.data = As<char>() + first * SizeOf(dtype);
    return part;
  }

  // Returns the same elements with another shape. Requires an equal number of elements.
  Tensor Reshape(std::initializer_list<std::int64_t> dims) const {
    Tensor result = *this;
    result.rank = 0;
    for (std::int64_t d : dims) result.shape[result.rank++] = d;
    return result;
  }
};

}  // namespace autocfg
