#include "trainer/comm/reduce.h"

#include <type_traits>

#include "fmt/format.h"
#include "kernels/bf16.h"

namespace autocfg::trainer {
namespace {

template <typename T>
struct Sum {
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};

template <typename T>
struct Max {
  T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};

// Computes each result in float and rounds it. A maximum is one of its operands, so rounding does not change
// it, except that a signalling NaN becomes quiet.
template <template <typename> typename Op>
struct InFloat {
  Bf16Bits operator()(Bf16Bits a, Bf16Bits b) const { return ToBf16(Op<float>{}(FromBf16(a), FromBf16(b))); }
};

template <typename T, typename F>
void Apply(ReduceOrder order, T* __restrict own, const T* __restrict other, std::int64_t n, F f) {
  if (order == ReduceOrder::kOwnFirst) {
    for (std::int64_t i = 0; i < n; ++i) own[i] = f(own[i], other[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) own[i] = f(other[i], own[i]);
  }
}

template <typename T>
void Reduce(ReduceOp op, ReduceOrder order, void* own, const void* other, std::int64_t n) {
  if (op == ReduceOp::kSum) {
    Apply(order, static_cast<T*>(own), static_cast<const T*>(other), n, Sum<T>{});
  } else {
    Apply(order, static_cast<T*>(own), static_cast<const T*>(other), n, Max<T>{});
  }
}

void ReduceBf16(ReduceOp op, ReduceOrder order, Bf16Bits* own, const Bf16Bits* other, std::int64_t n) {
  if (op == ReduceOp::kSum) {
    Apply(order, own, other, n, InFloat<Sum>{});
  } else {
    Apply(order, own, other, n, InFloat<Max>{});
  }
}

}  // namespace

void ReduceInto(DType dtype, ReduceOp op, ReduceOrder order, void* own, const void* other, std::int64_t n) {
  switch (dtype) {
    case DType::kF32: return Reduce<float>(op, order, own, other, n);
    case DType::kF64: return Reduce<double>(op, order, own, other, n);
    case DType::kI32: return Reduce<std::int32_t>(op, order, own, other, n);
    case DType::kBF16:
      return ReduceBf16(op, order, static_cast<Bf16Bits*>(own), static_cast<const Bf16Bits*>(other), n);
    default: throw CommError(fmt::format("cannot reduce elements of type {}", Name(dtype)));
  }
}

}  // namespace autocfg::trainer
