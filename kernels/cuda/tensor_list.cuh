// One kernel over a list of tensors: the list travels in the kernel's parameters, and each block finds the
// stretch of elements that is its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/cuda/launch.cuh"

namespace autocfg::cuda {

// Item has `std::int64_t n`, the elements of a tensor.
template <typename Item>
struct TensorList {
  static constexpr int kMost = 256;

  int count;
  unsigned first_block[kMost + 1];  // of each item; last the number of blocks
  Item items[kMost];
};

struct Stretch {
  int item;
  std::int64_t first, end;  // elements of it
};

// The stretch of `chunk` elements, or what is left of its tensor, that this block works on.
template <typename Item>
__device__ Stretch StretchOf(const TensorList<Item>& list, std::int64_t chunk) {
  int low = 0, high = list.count;  // the item is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (list.first_block[middle] <= blockIdx.x ? low : high) = middle;
  }
  const std::int64_t first = (blockIdx.x - list.first_block[low]) * chunk, n = list.items[low].n;
  return {low, first, first + chunk < n ? first + chunk : n};
}

// Calls start(list, blocks) for every kMost of the items, none of them empty.
template <typename Item, typename Start>
void ForLists(std::span<const Item> items, std::int64_t chunk, Start start) {
  constexpr std::size_t kMost = TensorList<Item>::kMost;
  for (std::size_t from = 0; from < items.size(); from += kMost) {
    TensorList<Item> list;
    list.count = static_cast<int>(std::min(kMost, items.size() - from));
    unsigned blocks = 0;
    for (int i = 0; i < list.count; ++i) {
      list.items[i] = items[from + static_cast<std::size_t>(i)];
      list.first_block[i] = blocks;
      blocks += CeilDiv(list.items[i].n, chunk);
    }
    list.first_block[list.count] = blocks;
    start(list, blocks);
  }
}

}  // namespace autocfg::cuda
