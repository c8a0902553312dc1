// What every Ops refuses before a device sees it: operands other than those of ops.h, and arguments that the
// op's comment excludes. The error names the op.
#include "kernels/op_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/dry/dry_device.h"
#include "kernels/op_operands.h"
#include "search/ops/memory_sizes.h"
#include "tests/support/every_op.h"

namespace autocfg {
namespace {

class OpCallTest : public testing::Test {
 protected:
  // Tensors of host memory that no op of the dry device reads.
  Tensor T(std::initializer_list<std::int64_t> shape, DType type = DType::kF32) {
    Tensor t{.data = &memory_.emplace_back(), .dtype = type};
    for (const std::int64_t dim : shape) t.shape[static_cast<std::size_t>(t.rank++)] = dim;
    return t;
  }
  Tensor Ids(std::int64_t n) { return T({n}, DType::kI32); }

  void Refused(const std::function<void()>& op, std::string_view name) {
    try {
      op();
      ADD_FAILURE() << name << " was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with(std::string(name) + ": ")) << error.what();
    }
  }

  OpLog log_;
  std::list<char> memory_;
  const std::unique_ptr<Ops> dry_ = CreateDryOps(log_);
  Ops& ops_ = *dry_;
  const std::unique_ptr<Device> device_ = CreateDryDevice();
  const std::unique_ptr<Stream> stream_ = device_->CreateStream();
  Stream& s_ = *stream_;
};

// With and without master weights.
std::vector<OpDesc> EveryOp() {
  std::vector<OpDesc> ops = test::EveryComputeOp(DType::kF32);
  for (const OpDesc& op : test::EveryComputeOp(DType::kBF16)) ops.push_back(op);
  return ops;
}

// A call of an op with the operands of its table.
struct TableCall {
  explicit TableCall(const OpDesc& of) : op(of) {
    for (const Operand& operand : OperandsOf(op)) {
      Tensor& t = tensors.emplace_back();
      if (!operand.IsIn(op)) continue;
      t.dtype = TypeInStep(operand.kind, op);
      for (const char letter : operand.shape)
        t.shape[static_cast<std::size_t>(t.rank++)] = Extent(op, letter);
    }
  }

  // Only the dims that are arguments of the op are given.
  void Issue(Ops& ops, Stream& stream) const {
    OpCall call{.desc = op};
    const std::string_view letters = DimLetters(op.kind);
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const bool given = letters[i] == 'N' || letters[i] == 'G' || op.kind == OpKind::kRope;
      if (!given) call.desc.dims[i] = 0;
    }
    call.args.valid = call.args.seq_len = 1;
    const RotaryFrequencies frequencies{1};
    call.args.frequencies = &frequencies;
    for (std::size_t i = 0; i < tensors.size(); ++i) call.operands[i] = &tensors[i];
    UpdatedTensor updated;
    UpdateParams params;
    if (op.kind == OpKind::kSumOfSquares) call.summed = {tensors.data(), 1};
    if (UpdatesParameters(op.kind)) {
      updated = {tensors[0], tensors[1], tensors[2], tensors[3], tensors.size() > 4 ? tensors[4] : Tensor{}};
      call.updated = {&updated, 1};
      call.params = &params;
    }
    ops.Issue(call, stream);
  }

  OpDesc op;
  std::vector<Tensor> tensors;
};

// Returns whether a dim is that of one operand alone, so that any size makes an op.
bool IsFree(const OpDesc& op, char letter) {
  if (DimLetters(op.kind).find(letter) == std::string_view::npos) return false;
  std::ptrdiff_t uses = 0;
  for (const Operand& operand : OperandsOf(op))
    uses += operand.open ? 0 : std::count(operand.shape.begin(), operand.shape.end(), letter);
  return uses == 1;
}

TEST_F(OpCallTest, OperandsDetermineTheDescriptor) {
  for (const OpDesc& op : EveryOp()) {
    log_.Clear();
    TableCall(op).Issue(ops_, s_);
    ASSERT_EQ(log_.ops().size(), 1u);
    EXPECT_EQ(ToString(log_.ops()[0]), ToString(op));
    EXPECT_EQ(log_.ops()[0], op);
  }
}

TEST_F(OpCallTest, OperandsOfOtherShapesAreRefused) {
  int refused = 0;
  for (const OpDesc& op : EveryOp()) {
    const TableCall good(op);
    for (std::size_t i = 0; i < good.tensors.size(); ++i) {
      const Operand& operand = OperandsOf(op)[i];
      if (operand.open || !operand.IsIn(op)) continue;
      const auto with = [&](const Tensor& t) {
        SCOPED_TRACE(ToString(op) + " " + std::string(operand.name));
        TableCall call = good;
        call.tensors[i] = t;
        Refused([&] { call.Issue(ops_, s_); }, Name(op.kind));
        ++refused;
      };
      const Tensor& right = good.tensors[i];
      for (std::size_t d = 0; d < operand.shape.size(); ++d) {
        Tensor wrong = right;
        wrong.shape[d] = 0;
        with(wrong);
        wrong.shape[d] = right.shape[d] + 1;
        if (!IsFree(op, operand.shape[d])) with(wrong);
      }
      Tensor wrong = right;
      --wrong.rank;
      with(wrong);
      with({});
      wrong = right;
      if (wrong.rank < kMaxRank) {
        wrong.shape[static_cast<std::size_t>(wrong.rank++)] = 1;
        with(wrong);
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST_F(OpCallTest, OperandsOfOtherTypesAreRefused) {
  for (const OpDesc& op : EveryOp()) {
    const TableCall good(op);
    const std::span<const Operand> operands = OperandsOf(op);
    std::array<int, 8> of_kind{};
    for (const Operand& operand : operands) of_kind.at(static_cast<std::size_t>(operand.kind)) += 1;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const OperandKind kind = operands[i].kind;
      if (!operands[i].IsIn(op)) continue;
      std::vector<DType> wrong = {kind == OperandKind::kTokenIds ? DType::kF32 : DType::kI32};
      if (kind == OperandKind::kStatistics) wrong.push_back(DType::kBF16);
      if (kind == OperandKind::kScalar) wrong.push_back(DType::kF32);
      const bool shared = of_kind.at(static_cast<std::size_t>(kind)) > 1;
      if (shared && kind != OperandKind::kResult) wrong.push_back(DType::kF64);
      for (const DType type : wrong) {
        SCOPED_TRACE(ToString(op) + " " + std::string(operands[i].name) + " " + std::string(Name(type)));
        TableCall call = good;
        call.tensors[i].dtype = type;
        Refused([&] { call.Issue(ops_, s_); }, Name(op.kind));
      }
    }
  }
}

// A gated activation cannot be an epilogue. The gradient of any other one must be one.
TEST_F(OpCallTest, ActivationsAreOpsOrEpilogues) {
  const Tensor a = T({2, 3}), b = T({3, 4}), bt = T({4, 3}), c = T({2, 4}), x = T({2, 6}), y = T({2, 3});
  for (int i = 0; i < kActivationCount; ++i) {
    const auto f = static_cast<Activation>(i);
    const auto epilogue = [&] { ops_.MatmulActivation(f, a, b, {}, c, T({2, 4}), s_); };
    const auto gradient = [&] { ops_.MatmulActivationBackward(f, a, bt, c, T({2, 4}), s_); };
    const auto forward = [&] { ops_.ActivationForward(f, x, {}, y, s_); };
    const auto backward = [&] { ops_.ActivationBackward(f, x, y, T({2, 6}), s_); };
    if (IsGated(f)) {
      Refused(epilogue, "matmul");
      Refused(gradient, "matmul");
      EXPECT_NO_THROW(forward());
      EXPECT_NO_THROW(backward());
      Refused([&] { ops_.ActivationForward(f, T({2, 7}), {}, y, s_); }, "activation_forward");
    } else {
      EXPECT_NO_THROW(epilogue());
      EXPECT_NO_THROW(gradient());
      Refused(forward, "activation_forward");  // y is half as wide as x
      EXPECT_NO_THROW(ops_.ActivationForward(f, x, T({6}), T({2, 6}), s_));
      Refused(backward, "activation_backward");
      Refused([&] { ops_.ActivationBackward(f, x, T({2, 6}), T({2, 6}), s_); }, "activation_backward");
    }
  }
}

TEST_F(OpCallTest, ResultsHaveMemoryOfTheirOwn) {
  const Tensor a = T({2, 3}), b = T({3, 4}), bt = T({4, 3}), c = T({2, 4}), x = T({2, 6}), w = T({6}),
               rows = T({2});
  Refused([&] { ops_.MatmulResidual(a, b, T({4}), c, c, s_); }, "matmul");
  Refused([&] { ops_.MatmulActivation(Activation::kGelu, a, b, {}, c, c, s_); }, "matmul");
  Refused([&] { ops_.MatmulActivationBackward(Activation::kGelu, a, bt, c, c, s_); }, "matmul");
  for (const bool add : {false, true}) {
    const auto layer = [&] { ops_.LayerNormBackward(x, T({2, 6}), w, rows, rows, x, add, w, w, true, s_); };
    const auto rms = [&] { ops_.RmsNormBackward(x, T({2, 6}), w, rows, x, add, w, true, s_); };
    if (add) {
      Refused(layer, "layer_norm_backward");
      Refused(rms, "rms_norm_backward");
    } else {
      EXPECT_NO_THROW(layer());
      EXPECT_NO_THROW(rms());
    }
  }
  Tensor narrow = T({2, 3});
  narrow.data = x.data;
  Refused([&] { ops_.ActivationForward(Activation::kSwiGlu, x, {}, narrow, s_); }, "activation_forward");
  Refused(
      [&] {
        ops_.ActivationBackward(Activation::kSwiGlu, T({2, 6}), narrow, x, s_);
      },
      "activation_backward");
  const Tensor qkv = T({1, 4, 12}), out = T({1, 4, 4}), square = T({1, 2, 4, 4});
  Refused(
      [&] {
        ops_.UnfusedAttentionBackward(qkv, {2, 2}, square, out, out, qkv, square, s_);
      },
      "unfused_attention_backward");
  EXPECT_NO_THROW(ops_.Scale(x, 2.5, x, s_));
}

TEST_F(OpCallTest, NumbersAreInTheirRange) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor x = T({2, 3});
  Refused([&] { ops_.Scale(x, kNan, x, s_); }, "scale");
  const Tensor two_columns = T({2, 2});
  for (const std::int64_t first : {-1, 2})
    Refused([&] { ops_.TakeColumns(x, first, two_columns, s_); }, "copy_columns");
  Refused([&] { ops_.PutColumns(x, two_columns, 0, s_); }, "copy_columns");
  Refused([&] { ops_.PutColumns(two_columns, T({3, 3}), 0, s_); }, "copy_columns");
  EXPECT_NO_THROW(ops_.PutColumns(two_columns, x, 1, s_));
  const Tensor q = T({6}), k = T({3}), rows = T({3, 12}), raw = T({3, 9}), sums = T({3, 2});
  Refused([&] { ops_.QkNormForward(rows, 2, 1, 0, q, k, 1e-5, raw, sums, s_); }, "qk_norm_forward");
  Refused([&] { ops_.QkNormBackward(rows, 2, 1, 0, raw, q, k, sums, sums, q, k, false, s_); },
          "qk_norm_backward");
  const Tensor qkv = T({2, 3, 12});
  const auto rope = [&](std::int64_t heads, std::int64_t dim, std::int64_t rotary, double theta) {
    return [=, this] { ops_.Rope(qkv, heads, dim, rotary, {theta}, false, s_); };
  };
  const auto scaled = [&](const RotaryFrequencies& frequencies) {
    return [=, this] { ops_.Rope(qkv, 2, 4, 4, frequencies, false, s_); };
  };
  EXPECT_NO_THROW(scaled({1e4, {1, 0.5}, 1.2})());
  for (const RotaryFrequencies& bad :
       {RotaryFrequencies{1e4, {1}}, RotaryFrequencies{1e4, {1, 1, 1}}, RotaryFrequencies{1e4, {1, 0}},
        RotaryFrequencies{1e4, {1, kNan}}, RotaryFrequencies{1e4, {}, 0}, RotaryFrequencies{1e4, {}, kNan}})
    Refused(scaled(bad), "rope");
  for (const auto& good : {rope(2, 4, 4, 1e4), rope(3, 4, 4, 1e4), rope(2, 4, 2, 1e4), rope(4, 3, 2, 1e4)})
    EXPECT_NO_THROW(good());
  for (const auto& bad : {rope(4, 4, 4, 1e4), rope(0, 4, 4, 1e4), rope(2, 3, 3, 1e4), rope(2, 0, 0, 1e4),
                          rope(2, 4, 4, 0), rope(2, 4, 4, kInfinity), rope(2, 4, 3, 1e4), rope(2, 4, 6, 1e4),
                          rope(2, 4, 0, 1e4), rope(2, 4, -2, 1e4)})
    Refused(bad, "rope");
  Refused([&] { ops_.Rope(T({6, 12}), 2, 4, 4, {1e4}, false, s_); }, "rope");
}

TEST_F(OpCallTest, RowsDivideIntoHeads) {
  const Tensor gamma = T({3}), raw = T({3, 9}), rstd = T({3, 3});
  const auto norm = [&](const Tensor& x, std::int64_t heads, std::int64_t kv_heads) {
    return [=, this] { ops_.HeadNormForward(x, heads, kv_heads, gamma, gamma, 1e-5, raw, rstd, s_); };
  };
  EXPECT_NO_THROW(norm(T({3, 12}), 2, 1)());
  Refused(norm(T({3, 12}), 0, 1), "head_norm_forward");
  Refused(norm(T({3, 12}), 3, 1), "head_norm_forward");
  Refused(norm(T({3, 13}), 2, 1), "head_norm_forward");
  const Tensor qkv = T({1, 4, 12}), out = T({1, 4, 4}), lse = T({1, 2, 4}), square = T({1, 2, 4, 4});
  const auto work = [&](std::int64_t less) { return T({AttentionWorkspaceElements(4, 2) - less}); };
  const auto fused = [&](const Tensor& rows, const AttentionForm& form) {
    return [=, this] { ops_.AttentionForward(rows, form, out, lse, work(0), s_); };
  };
  const auto unfused = [&](const Tensor& rows, const AttentionForm& form) {
    return [=, this] { ops_.UnfusedAttentionForward(rows, form, square, out, s_); };
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensor grouped = T({1, 4, 8});
  for (const auto& [rows, form] :
       {std::pair(qkv, AttentionForm{2, 2}), {grouped, {2, 1}}, {qkv, {2, 2, 0.5, 5, 3}}}) {
    EXPECT_NO_THROW(fused(rows, form)());
    EXPECT_NO_THROW(unfused(rows, form)());
  }
  for (const auto& [rows, form] : {std::pair(qkv, AttentionForm{2, 0}),
                                   {qkv, {0, 0}},
                                   {qkv, {0, 2}},
                                   {qkv, {2, 3}},
                                   {qkv, {3, 2}},
                                   {qkv, {2, 1}},
                                   {qkv, {3, 3}},
                                   {T({1, 4, 13}), {1, 1}},
                                   {T({4, 12}), {2, 2}},
                                   {qkv, {2, 2, -0.5}},
                                   {qkv, {2, 2, std::numeric_limits<double>::infinity()}},
                                   {qkv, {2, 2, kNan}},
                                   {qkv, {2, 2, 0, 5, 4}},
                                   {qkv, {2, 2, 0, 1}},
                                   {qkv, {2, 2, 0, 5, -1}},
                                   {qkv, {2, 2, 0, -5}}}) {
    Refused(fused(rows, form), "attention_forward");
    Refused(unfused(rows, form), "unfused_attention_forward");
  }
  EXPECT_NO_THROW(ops_.AttentionForward(qkv, {2, 2}, out, lse, work(-1), s_)) << "a larger workspace";
  Refused([&] { ops_.AttentionForward(qkv, {2, 2}, out, lse, work(1), s_); }, "attention_forward");
  Refused(
      [&] {
        ops_.AttentionBackward(qkv, {2, 2}, out, lse, out, qkv, work(1), s_);
      },
      "attention_backward");
}

TEST_F(OpCallTest, TablesHaveEveryPosition) {
  const auto forward = [&](const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table) {
    return [=, this] { ops_.PositionForward(y, seq_len, first, table, s_); };
  };
  EXPECT_NO_THROW(forward(T({6, 4}), 3, 2, T({3, 4}))());
  Refused(forward(T({6, 4}), 3, 0, T({2, 4})), "position_forward");
  Refused(forward(T({6, 4}), 3, 0, T({3, 5})), "position_forward");
  Refused(forward(T({6, 4}), 3, -1, T({3, 4})), "position_forward");
  Refused(forward(T({6, 4}), 0, 0, T({3, 4})), "position_forward");
  Refused(forward(T({2, 3, 4}), 3, 0, T({3, 4})), "position_forward");
  EXPECT_NO_THROW(ops_.PositionBackward(T({2, 3, 4}), T({5, 4}), true, s_));
  Refused([&] { ops_.PositionBackward(T({2, 3, 4}), T({5, 3}), true, s_); }, "position_backward");
  Refused([&] { ops_.PositionBackward(T({2, 3, 4}), T({2, 4}), true, s_); }, "position_backward");
  Refused([&] { ops_.PositionBackward(T({6, 4}), T({5, 4}), true, s_); }, "position_backward");
}

TEST_F(OpCallTest, ValidColumnsAreColumns) {
  const Tensor logits = T({2, 5}), loss = T({1}, DType::kF64), max = T({2}), sums = T({2, 2});
  const auto whole = [&](std::int64_t valid) {
    return [=, this] { ops_.CrossEntropy(logits, {valid}, Ids(2), 1, loss, s_); };
  };
  EXPECT_NO_THROW(whole(5)());
  for (const std::int64_t valid : {6, 0, -1}) Refused(whole(valid), "cross_entropy");
  EXPECT_NO_THROW(ops_.CrossEntropyForward(logits, {0}, Ids(2), 0, max, sums, s_)) << "a rank of padding";
  for (const std::int64_t valid : {6, -1}) {
    Refused([&] { ops_.CrossEntropyForward(logits, {valid}, Ids(2), 0, max, sums, s_); },
            "cross_entropy_forward");
    Refused([&] { ops_.CrossEntropyBackward(logits, {valid}, sums, Ids(2), 0, 1, s_); },
            "cross_entropy_backward");
  }
}

TEST_F(OpCallTest, SoftCapsAndWindowsArePositiveOrNone) {
  const Tensor logits = T({2, 5}), loss = T({1}, DType::kF64);
  const auto cap = [&](double softcap) {
    return [=, this] { ops_.CrossEntropy(logits, {5, softcap}, Ids(2), 1, loss, s_); };
  };
  EXPECT_NO_THROW(cap(30)());
  for (const double softcap : {-1.0, HUGE_VAL, std::nan("")}) Refused(cap(softcap), "cross_entropy");
  const Tensor qkv = T({1, 4, 6}), out = T({1, 4, 2}), probabilities = T({1, 1, 4, 4});
  const auto attention = [&](double softcap, std::int64_t window) {
    return [=, this] {
      ops_.UnfusedAttentionForward(qkv, {.heads = 1, .kv_heads = 1, .softcap = softcap, .window = window},
                                   probabilities, out, s_);
    };
  };
  EXPECT_NO_THROW(attention(30, 2)());
  EXPECT_NO_THROW(attention(0, 100)()) << "wider than the sequence";
  Refused(attention(-1, 0), "unfused_attention_forward");
  Refused(attention(0, -1), "unfused_attention_forward");
}

TEST_F(OpCallTest, TensorsOfAListAreAlike) {
  EXPECT_NO_THROW(ops_.Fill(T({2, 3}), 1, s_));
  const Tensor result = T({1}, DType::kF64);
  const auto sum = [&](const std::vector<Tensor>& list) {
    return [=, this] { ops_.SumOfSquares(list, result, s_); };
  };
  EXPECT_NO_THROW(sum({T({2, 3}), T({7})})());
  EXPECT_NO_THROW(sum({})());
  Refused(sum({T({2, 3}), Ids(2)}), "sum_of_squares");
  Refused(sum({T({2, 3}), T({2, 3}, DType::kBF16)}), "sum_of_squares");
  const auto update = [&](const std::vector<UpdatedTensor>& list) {
    return [=, this] { ops_.AdamW(list, {}, s_); };
  };
  const auto clipped_by = [&](const Tensor& squared_norm) {
    return [=, this] {
      ops_.AdamW(std::array{UpdatedTensor{T({5}), T({5}), {}, T({5}), T({5})}},
                 {.clip_norm = 1, .squared_norm = squared_norm}, s_);
    };
  };
  EXPECT_NO_THROW(clipped_by(result)());
  Refused(clipped_by({}), "adamw");
  Refused(clipped_by(T({2}, DType::kF64)), "adamw");
  Refused(clipped_by(Ids(1)), "adamw");
  const auto good = [&](std::initializer_list<std::int64_t> shape) {
    return UpdatedTensor{T(shape), T(shape), {}, T(shape), T(shape)};
  };
  EXPECT_NO_THROW(update({good({2, 3}), good({5})})());
  EXPECT_NO_THROW(update({})());
  Refused(update({good({5}), {T({2, 3}), T({3, 2}), {}, T({2, 3}), T({2, 3})}}), "adamw");
  Refused(update({{T({2, 3}), T({2, 3}), {}, T({6}), T({2, 3})}}), "adamw");
  Refused(update({{T({2, 3}), T({2, 3}), {}, T({2, 3}), T({1, 3})}}), "adamw");
  Refused(update({{T({2, 3}), T({2, 3}), T({3, 2}), T({2, 3}), T({2, 3})}}), "adamw");
  Refused(update({good({5}), {T({2, 3}), T({2, 3}), T({2, 3}), T({2, 3}), T({2, 3})}}), "adamw");
  Refused(update({good({5}), {T({2}), T({2}), {}, T({2}), T({2}, DType::kF64)}}), "adamw");
}

}  // namespace
}  // namespace autocfg
