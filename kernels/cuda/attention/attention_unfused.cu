// Attention that stores its probabilities, by our own kernels. With P the probabilities, dP = dout V^T and
// delta the row sums of dout * out:
//   forward    P = softmax(Q K^T scale - bias),  out = P V
//   backward   dS = P * (dP - delta) scale,  dQ = dS K,  dK = dS^T Q,  dV = P^T dout
// A soft cap of the scores also multiplies dS by its slope, for which the scores are computed once more.
// Each product is a kernel of its own. A block computes a tile of 64 x 64 elements, and only tiles that reach
// below the diagonal, and with a window into it. A warp owns 16 rows of the tile, in the fragments of
// mma.cuh: of tensor cores in bf16, computed by plain arithmetic in float. The scores are computed twice,
// once for the maximum and sum of each row and once for its probabilities: they stay in float, and P is
// written once and not read.
#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/attention/attention_tile.cuh"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/primitives/vector.cuh"

namespace autocfg::cuda {
namespace {

using tile::Bf16;
using tile::Place;
using tile::PlaceOf;

constexpr int kTile = tile::kRows;
constexpr int kThreads = kTile / 16 * kWarp;
constexpr int kFragments = kTile / 8;  // of 16 x 8 elements, which a warp owns

// Inner elements that a block multiplies at once: 128 bytes of a row.
template <typename T>
constexpr int kDepth = 128 / static_cast<int>(sizeof(T));

// Elements from row to row of a tile of `columns` columns in shared memory. The 16 extra bytes place adjacent
// rows in different banks.
template <typename T>
constexpr int Stride(int columns) {
  return columns + kPack<T>;
}

// A part of a matrix in global memory, from its first element on. If `packs`, addresses, `ld` and `columns`
// are multiples of 16 bytes.
template <typename T>
struct Part {
  const T* at;
  std::int64_t ld;
  int rows, columns;
  bool packs;
};

// Starts to copy rows and columns from (first_row, first_column) on to a tile; zeros beyond the part.
template <int kRows, int kColumns, typename T>
__device__ void LoadTile(const Part<T>& from, int first_row, int first_column, T* to) {
  if (from.packs) {
    constexpr int kPacks = kColumns / kPack<T>;
#pragma unroll 2  // more takes registers that the sums need
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kThreads) {
      const int r = i / kPacks, c = i % kPacks * kPack<T>;
      const bool valid = first_row + r < from.rows && first_column + c < from.columns;
      const T* at = valid ? from.at + std::int64_t{first_row + r} * from.ld + first_column + c : from.at;
      CopyAsync16(to + r * Stride<T>(kColumns) + c, at, valid);
    }
    return;
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kColumns; i += kThreads) {
    const int r = i / kColumns, c = i % kColumns;
    const bool valid = first_row + r < from.rows && first_column + c < from.columns;
    to[r * Stride<T>(kColumns) + c] =
        valid ? from.at[std::int64_t{first_row + r} * from.ld + first_column + c] : FromFloat<T>(0);
  }
}

// Elements of a tile of an operand: kTile rows or columns of the result by kDepth<T> inner elements, or the
// other way round, as it lies in global memory.
template <typename T>
constexpr int kTileElements = std::max(Stride<T>(kDepth<T>) * kTile, Stride<T>(kTile) * kDepth<T>);

// Two stages of two operands.
template <typename T>
constexpr std::size_t kSharedBytes = 4 * kTileElements<T> * sizeof(T);

// sums += the warp's 16 rows of `left` times `right`, over kDepth<T> inner elements. kTransposedLeft: `left`
// is stored [inner, rows], else [rows, inner]. kTransposedRight: `right` is stored [columns, inner], else
// [inner, columns].
template <bool kTransposedLeft, bool kTransposedRight>
__device__ void Multiply(const Bf16* left, const Bf16* right, Sums (&sums)[kFragments]) {
  constexpr int kInner = Stride<Bf16>(kDepth<Bf16>), kAcross = Stride<Bf16>(kTile);
  const int own = static_cast<int>(threadIdx.x) / kWarp * 16;
#pragma unroll
  for (int d = 0; d < kDepth<Bf16>; d += 16) {
    Left a;
    if constexpr (kTransposedLeft) {
      a = LoadLeftTransposed(left + d * kAcross + own, kAcross);
    } else {
      a = LoadLeft(left + own * kInner + d, kInner);
    }
#pragma unroll
    for (int n = 0; n < kFragments; n += 2) {
      RightPair b;
      if constexpr (kTransposedRight) {
        b = LoadRightTransposed(right + n * 8 * kInner + d, kInner);
      } else {
        b = LoadRight(right + d * kAcross + n * 8, kAcross);
      }
      AddProduct(a, b, sums[n], sums[n + 1]);
    }
  }
}
template <bool kTransposedLeft, bool kTransposedRight>
__device__ void Multiply(const float* left, const float* right, Sums (&sums)[kFragments]) {
  constexpr int kInner = Stride<float>(kDepth<float>), kAcross = Stride<float>(kTile);
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 + FragmentRow();
#pragma unroll 2
  for (int d = 0; d < kDepth<float>; ++d) {
    const auto left_at = [&](int r) {
      return kTransposedLeft ? left[d * kAcross + r] : left[r * kInner + d];
    };
    const auto right_at = [&](int c) {
      return kTransposedRight ? right[c * kInner + d] : right[d * kAcross + c];
    };
    const float low = left_at(row), high = left_at(row + 8);
#pragma unroll
    for (int n = 0; n < kFragments; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float b = right_at(n * 8 + FragmentColumn() + i);
        sums[n].x[i] += low * b;
        sums[n].x[i + 2] += high * b;
      }
    }
  }
}

// sums += the first kTile rows of `left` times the first kTile columns of `right`, transposed as in Multiply,
// over `depth` inner elements. The next operands are copied during the product. Called by the whole block;
// `shared` has kSharedBytes<T> and is reusable on return.
template <bool kTransposedLeft, bool kTransposedRight, typename T>
__device__ void AddProductOf(const Part<T>& left, const Part<T>& right, int depth, T* shared,
                             Sums (&sums)[kFragments]) {
  const auto load = [&](int first) {
    T* to = shared + first / kDepth<T> % 2 * 2 * kTileElements<T>;
    if constexpr (kTransposedLeft) {
      LoadTile<kDepth<T>, kTile>(left, first, 0, to);
    } else {
      LoadTile<kTile, kDepth<T>>(left, 0, first, to);
    }
    to += kTileElements<T>;
    if constexpr (kTransposedRight) {
      LoadTile<kTile, kDepth<T>>(right, 0, first, to);
    } else {
      LoadTile<kDepth<T>, kTile>(right, first, 0, to);
    }
  };
#pragma unroll 1
  for (int first = -kDepth<T>; first < depth; first += kDepth<T>) {
    if (first + kDepth<T> < depth) load(first + kDepth<T>);
    CommitCopies();
    if (first < 0) continue;
    WaitForCopies<1>();
    __syncthreads();
    const T* tiles = shared + first / kDepth<T> % 2 * 2 * kTileElements<T>;
    Multiply<kTransposedLeft, kTransposedRight>(tiles, tiles + kTileElements<T>, sums);
    __syncthreads();
  }
}

// Calls visit(row, column, half, pair) for each pair of adjacent columns of this lane's elements: the
// position of the first in the tile, which of the lane's two rows it is in, and the pair's two values.
template <typename Visit>
__device__ void ForPairs(Sums (&sums)[kFragments], Visit visit) {
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 + FragmentRow();
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      visit(row + half * 8, n * 8 + FragmentColumn(), half, &sums[n].x[half * 2]);
  }
}

// Loads or stores a pair of adjacent columns, of which those from `columns` on do not exist.
template <typename T>
__device__ void LoadPair(const T* row, int column, int columns, bool packs, float (&x)[2]) {
  x[0] = x[1] = 0;
  if (packs) {
    if (column < columns) Unpack(Load<2>(row + column), x);
    return;
  }
  if (column < columns) x[0] = ToFloat(row[column]);
  if (column + 1 < columns) x[1] = ToFloat(row[column + 1]);
}
template <typename T>
__device__ void StorePair(T* row, int column, int columns, bool packs, const float (&x)[2]) {
  if (packs) {
    if (column < columns) Store(row + column, PackOf<T>(x));
    return;
  }
  if (column < columns) row[column] = FromFloat<T>(x[0]);
  if (column + 1 < columns) row[column + 1] = FromFloat<T>(x[1]);
}

// Stores the tile to rows `ld` elements apart: those below `rows`, and of them `columns`.
template <typename T>
__device__ void StoreTile(Sums (&sums)[kFragments], T* to, std::int64_t ld, int rows, int columns,
                          bool packs) {
  ForPairs(sums, [&](int row, int column, int, const float* pair) {
    if (row < rows) StorePair(to + row * ld, column, columns, packs, {pair[0], pair[1]});
  });
}

// The part of q, k or v of a head in qkv or its gradient, from row `first` on.
template <typename T>
__device__ Part<T> HeadRows(const AttentionShape& shape, const T* qkv, std::int64_t batch,
                            std::int64_t column, int first, bool packs) {
  return {qkv + (batch * shape.seq_len + first) * shape.RowWidth() + column, shape.RowWidth(),
          static_cast<int>(shape.seq_len) - first, static_cast<int>(shape.head_dim), packs};
}
__device__ std::int64_t KeyColumn(const AttentionShape& shape, std::int64_t head) {
  return shape.FirstKey() + head / (shape.heads / shape.kv_heads) * shape.head_dim;
}
__device__ std::int64_t ValueColumn(const AttentionShape& shape, std::int64_t head) {
  return shape.FirstValue() + head / (shape.heads / shape.kv_heads) * shape.head_dim;
}
// Row `row` of the scores of a head.
__device__ std::int64_t ScoresAt(const AttentionShape& shape, std::int64_t batch, std::int64_t head,
                                 int row) {
  return ((batch * shape.heads + head) * shape.seq_len + row) * shape.seq_len;
}

// A block owns 64 rows of P.
template <typename T, ScoreKind kKind>
__global__ void __launch_bounds__(kThreads, BlocksThatFit(4, kSharedBytes<T>))
    ProbabilitiesKernel(AttentionShape shape, float scale, bool packs, const T* qkv, T* probabilities) {
  T* shared = reinterpret_cast<T*>(SharedMemory());
  const Place place = PlaceOf(shape, shape.heads, true);
  const int seq_len = static_cast<int>(shape.seq_len), depth = static_cast<int>(shape.head_dim);
  const int rows = seq_len - place.first_row;
  const Part<T> q = HeadRows(shape, qkv, place.batch, place.head * shape.head_dim, place.first_row, packs);
  const ScoreForm form = ScoreFormOf<kKind>(shape, scale, place.head, 1);
  const int start = FirstKeyTile<kKind>(shape, place.first_row, kTile);
  // Computes the scores of the keys from `first` on; minus infinity for keys that the row does not attend to.
  const auto scores = [&](int first, Sums(&sums)[kFragments]) {
#pragma unroll
    for (int n = 0; n < kFragments; ++n) sums[n] = {};
    AddProductOf<false, true>(q,
                              HeadRows(shape, qkv, place.batch, KeyColumn(shape, place.head), first, packs),
                              depth, shared, sums);
    ForPairs(sums, [&](int row, int column, int, float* pair) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int query = place.first_row + row, key = first + column + i;
        pair[i] = IsHidden<kKind>(true, form, query, key) ? -INFINITY
                                                          : ScoreOf<kKind>(pair[i], form, query, key).value;
      }
    });
  };

  Sums sums[kFragments];
  // Of this lane's two rows; `sum` of its columns only.
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
#pragma unroll 1
  for (int first = start; first <= place.first_row; first += kTile) {
    scores(first, sums);
    // Without a window a row sees column 0, so the maximum is finite from the first tile on.
    float new_max[2] = {max[0], max[1]};
    ForPairs(sums, [&](int, int, int half, const float* pair) {
      new_max[half] = fmaxf(new_max[half], fmaxf(pair[0], pair[1]));
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      new_max[half] = tile::RowMax(new_max[half]);
      sum[half] *= expf(max[half] - ShiftOf<kKind>(new_max[half]));
      max[half] = new_max[half];
    }
    ForPairs(sums, [&](int, int, int half, const float* pair) {
      const float shift = ShiftOf<kKind>(max[half]);
      sum[half] += expf(pair[0] - shift) + expf(pair[1] - shift);
    });
  }
  const float inverse[2] = {1 / tile::RowSum(sum[0]), 1 / tile::RowSum(sum[1])};

  T* to = probabilities + ScoresAt(shape, place.batch, place.head, place.first_row);
#pragma unroll 1
  for (int first = start; first <= place.first_row; first += kTile) {
    scores(first, sums);
    ForPairs(sums, [&](int, int, int half, float* pair) {
#pragma unroll
      for (int i = 0; i < 2; ++i) pair[i] = expf(pair[i] - max[half]) * inverse[half];
    });
    StoreTile(sums, to + first, shape.seq_len, rows, seq_len - first, packs);
  }
  // Tiles of later keys only, and of those before the window.
#pragma unroll
  for (int n = 0; n < kFragments; ++n) sums[n] = {};
#pragma unroll 1
  for (int first = 0; first < start; first += kTile)
    StoreTile(sums, to + first, shape.seq_len, rows, seq_len - first, packs);
#pragma unroll 1
  for (int first = place.first_row + kTile; first < seq_len; first += kTile)
    StoreTile(sums, to + first, shape.seq_len, rows, seq_len - first, packs);
}

// A block owns 64 rows of dS, of which it writes the tiles up to the diagonal, from the start of its window
// on.
template <typename T, ScoreKind kKind>
__global__ void __launch_bounds__(kThreads, BlocksThatFit(4, kSharedBytes<T>))
    ScoreGradientKernel(AttentionShape shape, float scale, bool packs, const T* qkv, const T* probabilities,
                        const T* dout, const float* delta, T* dscores) {
  T* shared = reinterpret_cast<T*>(SharedMemory());
  const Place place = PlaceOf(shape, shape.heads, true);
  const int seq_len = static_cast<int>(shape.seq_len), depth = static_cast<int>(shape.head_dim);
  const int rows = seq_len - place.first_row;
  const Part<T> g{
      dout + (place.batch * shape.seq_len + place.first_row) * shape.OutWidth() + place.head * shape.head_dim,
      shape.OutWidth(), rows, depth, packs};
  const std::int64_t at = ScoresAt(shape, place.batch, place.head, place.first_row);
  const float* row_deltas =
      delta + (place.batch * shape.heads + place.head) * shape.seq_len + place.first_row;
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 + FragmentRow();  // and row + 8
  const float deltas[2] = {row < rows ? row_deltas[row] : 0.0f, row + 8 < rows ? row_deltas[row + 8] : 0.0f};
  const ScoreForm form = ScoreFormOf<kKind>(shape, scale, place.head, 1);

#pragma unroll 1
  for (int first = FirstKeyTile<kKind>(shape, place.first_row, kTile); first <= place.first_row;
       first += kTile) {
    Sums sums[kFragments] = {};
    AddProductOf<false, true>(g,
                              HeadRows(shape, qkv, place.batch, ValueColumn(shape, place.head), first, packs),
                              depth, shared, sums);
    const T* p_tile = probabilities + at + first;
    ForPairs(sums, [&](int r, int column, int half, float* pair) {
      float p[2] = {};
      if (r < rows) LoadPair(p_tile + r * shape.seq_len, column, seq_len - first, packs, p);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bool hidden = IsHidden<kKind>(true, form, place.first_row + r, first + column + i);
        pair[i] = hidden ? 0.0f : p[i] * (pair[i] - deltas[half]) * scale;
      }
    });
    if constexpr (kKind == ScoreKind::kAny) {
      if (shape.softcap != 0) {
        Sums products[kFragments] = {};
        AddProductOf<false, true>(
            HeadRows(shape, qkv, place.batch, place.head * shape.head_dim, place.first_row, packs),
            HeadRows(shape, qkv, place.batch, KeyColumn(shape, place.head), first, packs), depth, shared,
            products);
#pragma unroll
        for (int n = 0; n < kFragments; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[n].x[i] *= ScoreOf<kKind>(products[n].x[i], form, 0, 0).slope;
        }
      }
    }
    StoreTile(sums, dscores + at + first, shape.seq_len, rows, seq_len - first, packs);
  }
}

// to[row] = sum over the keys up to the row, from the start of its tile's window on, of left[row, key]
// right[key], for P V and dS K. A block owns 64 rows and, by blockIdx.y, 64 columns of a head. `right` are
// the columns `right_column` of qkv, moved by head_dim for each key-value head; `to` has rows of `to_ld`
// elements.
template <typename T, ScoreKind kKind>
__global__ void __launch_bounds__(kThreads, BlocksThatFit(4, kSharedBytes<T>))
    RowsKernel(AttentionShape shape, bool packs, const T* left, const T* qkv, std::int64_t right_column,
               T* to, std::int64_t to_ld) {
  T* shared = reinterpret_cast<T*>(SharedMemory());
  const Place place = PlaceOf(shape, shape.heads, true);
  const int seq_len = static_cast<int>(shape.seq_len), first_column = static_cast<int>(blockIdx.y) * kTile,
            columns = static_cast<int>(shape.head_dim) - first_column, rows = seq_len - place.first_row;
  const int start = FirstKeyTile<kKind>(shape, place.first_row, kTile);
  const int depth = (place.first_row + kTile < seq_len ? place.first_row + kTile : seq_len) - start;
  const std::int64_t kv_head = place.head / (shape.heads / shape.kv_heads);
  const Part<T> weights{left + ScoresAt(shape, place.batch, place.head, place.first_row) + start,
                        shape.seq_len, rows, depth, packs};
  const Part<T> right{qkv + (place.batch * shape.seq_len + start) * shape.RowWidth() + right_column +
                          kv_head * shape.head_dim + first_column,
                      shape.RowWidth(), depth, columns, packs};
  Sums sums[kFragments] = {};
  AddProductOf<false, false>(weights, right, depth, shared, sums);
  StoreTile(sums,
            to + (place.batch * shape.seq_len + place.first_row) * to_ld + place.head * shape.head_dim +
                first_column,
            to_ld, rows, columns, packs);
}

// to[key] = sum over the queries from the key on, up to the end of its tile's window, of all heads that share
// a key-value head, of left[query, key] right[query], for P^T dout and dS^T Q. A block owns 64 keys and, by
// blockIdx.y, 64 columns of a key-value head. `right` has a head's columns at head_dim times the head, in
// rows of `right_ld`; `to` are the columns `to_column` of dqkv, moved by head_dim for each key-value head.
template <typename T, ScoreKind kKind>
__global__ void __launch_bounds__(kThreads, BlocksThatFit(4, kSharedBytes<T>))
    ColumnsKernel(AttentionShape shape, bool packs, const T* left, const T* right, std::int64_t right_ld,
                  T* dqkv, std::int64_t to_column) {
  T* shared = reinterpret_cast<T*>(SharedMemory());
  const Place place = PlaceOf(shape, shape.kv_heads, false);
  const int first_column = static_cast<int>(blockIdx.y) * kTile,
            columns = static_cast<int>(shape.head_dim) - first_column,
            keys = static_cast<int>(shape.seq_len) - place.first_row,
            queries = static_cast<int>(LastQueryEnd<kKind>(shape, place.first_row + kTile)) - place.first_row;
  const std::int64_t group = shape.heads / shape.kv_heads,
                     start = place.batch * shape.seq_len + place.first_row;
  Sums sums[kFragments] = {};
#pragma unroll 1
  for (std::int64_t head = place.head * group; head < (place.head + 1) * group; ++head) {
    const Part<T> weights{left + ScoresAt(shape, place.batch, head, place.first_row) + place.first_row,
                          shape.seq_len, queries, keys, packs};
    const Part<T> rows{right + start * right_ld + head * shape.head_dim + first_column, right_ld, queries,
                       columns, packs};
    AddProductOf<true, false>(weights, rows, queries, shared, sums);
  }
  StoreTile(sums, dqkv + start * shape.RowWidth() + to_column + place.head * shape.head_dim + first_column,
            shape.RowWidth(), keys, columns, packs);
}

// Returns whether rows of heads and rows of scores are packs, and so are these addresses.
template <typename T>
bool AllInPacks(const AttentionShape& shape, std::initializer_list<const void*> addresses) {
  return shape.seq_len % kPack<T> == 0 && InPacks<T>(shape.head_dim, addresses);
}

// Launches a block for each tile of rows of each of `heads` heads, and for each of `columns` tiles of
// columns.
template <typename T, typename... Parameters, typename... Arguments>
void LaunchTiles(void (*kernel)(Parameters...), const AttentionShape& shape, std::int64_t heads,
                 unsigned columns, cudaStream_t stream, Arguments... arguments) {
  const unsigned blocks = CeilDiv(shape.seq_len, kTile) * static_cast<unsigned>(shape.batch * heads);
  Launch(kernel, {dim3(blocks, columns), dim3(kThreads), kSharedBytes<T>}, stream, shape, arguments...);
}

// Calls run with a kind of scores as a constant, for kernels that do not read a bias.
template <typename Run>
void WithTileKind(const AttentionShape& shape, Run run) {
  if (ScoreKindOf(shape) == ScoreKind::kAny) return run.template operator()<ScoreKind::kAny>();
  run.template operator()<ScoreKind::kScaled>();
}

}  // namespace

template <typename T>
void UnfusedAttentionForward(const AttentionShape& shape, const T* qkv, T* probabilities, T* out,
                             cudaStream_t stream) {
  CheckAttention(shape);
  const bool packs = AllInPacks<T>(shape, {qkv, probabilities, out});
  const unsigned columns = CeilDiv(shape.head_dim, kTile);
  WithScoreKind(ScoreKindOf(shape), [&]<ScoreKind kKind>() {
    LaunchTiles<T>(ProbabilitiesKernel<T, kKind>, shape, shape.heads, 1, stream, shape.Scale(), packs, qkv,
                   probabilities);
  });
  WithTileKind(shape, [&]<ScoreKind kKind>() {
    LaunchTiles<T>(RowsKernel<T, kKind>, shape, shape.heads, columns, stream, packs, probabilities, qkv,
                   shape.FirstValue(), out, shape.OutWidth());
  });
}

template <typename T>
void UnfusedAttentionBackward(const AttentionShape& shape, const T* qkv, const T* probabilities, const T* out,
                              const T* dout, T* dqkv, T* dscores, float* delta, cudaStream_t stream) {
  CheckAttention(shape);
  const bool packs = AllInPacks<T>(shape, {qkv, probabilities, dout, dqkv, dscores});
  const unsigned columns = CeilDiv(shape.head_dim, kTile);
  AttentionDelta(shape, out, dout, delta, stream);
  WithTileKind(shape, [&]<ScoreKind kKind>() {
    LaunchTiles<T>(ScoreGradientKernel<T, kKind>, shape, shape.heads, 1, stream, shape.Scale(), packs, qkv,
                   probabilities, dout, delta, dscores);
    LaunchTiles<T>(RowsKernel<T, kKind>, shape, shape.heads, columns, stream, packs, dscores, qkv,
                   shape.FirstKey(), dqkv, shape.RowWidth());
    LaunchTiles<T>(ColumnsKernel<T, kKind>, shape, shape.kv_heads, columns, stream, packs, dscores, qkv,
                   shape.RowWidth(), dqkv, shape.FirstKey());
    LaunchTiles<T>(ColumnsKernel<T, kKind>, shape, shape.kv_heads, columns, stream, packs, probabilities,
                   dout, shape.OutWidth(), dqkv, shape.FirstValue());
  });
}

template void UnfusedAttentionForward(const AttentionShape&, const float*, float*, float*, cudaStream_t);
template void UnfusedAttentionForward(const AttentionShape&, const Bf16*, Bf16*, Bf16*, cudaStream_t);
template void UnfusedAttentionBackward(const AttentionShape&, const float*, const float*, const float*,
                                       const float*, float*, float*, float*, cudaStream_t);
template void UnfusedAttentionBackward(const AttentionShape&, const Bf16*, const Bf16*, const Bf16*,
                                       const Bf16*, Bf16*, Bf16*, float*, cudaStream_t);

}  // namespace autocfg::cuda
