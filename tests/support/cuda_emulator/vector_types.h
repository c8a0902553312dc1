// CUDA's built-in vector types, and the variables that hold a thread's position.
#pragma once

#define AUTOCFG_VECTOR2(name, type, alignment) \
  struct alignas(alignment) name##2 {          \
    type x, y;                                 \
  };                                           \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }
#define AUTOCFG_VECTOR4(name, type, alignment) \
  struct alignas(alignment) name##4 {          \
    type x, y, z, w;                           \
  };                                           \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

AUTOCFG_VECTOR2(float, float, 8)
AUTOCFG_VECTOR4(float, float, 16)
AUTOCFG_VECTOR2(int, int, 8)
AUTOCFG_VECTOR4(int, int, 16)
AUTOCFG_VECTOR2(uint, unsigned, 8)
AUTOCFG_VECTOR4(uint, unsigned, 16)
AUTOCFG_VECTOR2(double, double, 16)
#undef AUTOCFG_VECTOR2
#undef AUTOCFG_VECTOR4

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};

struct dim3 {
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};

// Values of the running thread; set when it is resumed.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;
