// Runs one kernel over a list of tensors. The list is passed as a kernel parameter, and each block finds its
// own range of elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/cuda/primitives/launch.cuh"

namespace autocfg::cuda {

// Item has a member `std::int64_t n`, the number of elements of a tensor.
template <typename Item>
struct TensorList {
  static constexpr int kMost = 256;

  int count;
  unsigned first_block[kMost + 1];  // first block of each item; the last entry is the number of blocks
  Item items[kMost];
};

struct Stretch {
  int item;
  std::int64_t first, end;  // its range of elements
};

// Returns the range of at most `chunk` elements of one tensor that this block processes.
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

// Calls start(list, blocks) for every kMost of the items. No item is empty.
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
