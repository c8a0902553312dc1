#include "tests/support/cuda_emulator/mma.h"

#include <bit>
#include <cstring>

#include "tests/support/cuda_emulator/emulator.h"

namespace autocfg::cuda_emulator {
namespace {

float Low(std::uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float High(std::uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

struct Product {
  float* d;
  const std::uint32_t *a, *b;
};

void CombineProducts(void* const* brought, unsigned) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const Product*>(brought[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, column = 2 * t + i / 2 * 8;
      a[row][column] = Low(mine.a[i]);
      a[row][column + 1] = High(mine.a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[2 * t + 8 * i][g] = Low(mine.b[i]);
      b[2 * t + 8 * i + 1][g] = High(mine.b[i]);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    float* d = static_cast<const Product*>(brought[lane])->d;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (int k = 0; k < 16; ++k) d[i] += a[row][k] * b[k][column];
    }
  }
}

struct Load {
  const void* row;
  bool transposed;
  std::uint32_t* to;
  bool read;                  // already
  std::uint16_t elements[8];  // of the row

  void Read() { std::memcpy(elements, row, sizeof(elements)); }
};

void CombineLoads(void* const* brought, unsigned) {
  for (int block = 0; block < 4; ++block) {
    const std::uint16_t* elements[8];
    for (int row = 0; row < 8; ++row) {
      auto& load = *static_cast<Load*>(brought[block * 8 + row]);
      if (!load.read) load.Read();
      elements[row] = load.elements;
    }
    for (int lane = 0; lane < 32; ++lane) {
      const auto& mine = *static_cast<const Load*>(brought[lane]);
      const int g = lane / 4, t = lane % 4;
      const std::uint32_t low = mine.transposed ? elements[2 * t][g] : elements[g][2 * t],
                          high = mine.transposed ? elements[2 * t + 1][g] : elements[g][2 * t + 1];
      mine.to[block] = low | high << 16;
    }
  }
}

}  // namespace

void MultiplyFragments(float* d, const std::uint32_t* a, const std::uint32_t* b) {
  Product mine{d, a, b};
  JoinWarp(0xffffffffu, "mma.sync", &mine, CombineProducts);
}

void LoadFragments(const void* row, bool transposed, std::uint32_t* to) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) Fail("ldmatrix: a row is not aligned to 16 bytes");
  Load mine{row, transposed, to, ReadsFirst(), {}};
  if (mine.read) mine.Read();
  JoinWarp(0xffffffffu, "ldmatrix", &mine, CombineLoads);
}

}  // namespace autocfg::cuda_emulator
