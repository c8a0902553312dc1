// Times every op of the CPU device, in fp32, at the shapes of a GPT-2 124M step (sequence 256, micro batch
// 4). Matrix products and attention report FLOP/s. The others report bytes/s, with each operand that is read
// or written counted once, for comparison with the bandwidth of `Copy`.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/arena.h"
#include "kernels/cpu/cpu_device.h"
#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

constexpr std::int64_t B = 4, S = 256, T = B * S, H = 768, F = 3072, N = 12, D = 64, V = 50304;

// A device, its ops, and random tensors in one arena.
class Bench {
 public:
  Bench()
      : device_(CreateCpuDevice()),
        ops_(CreateCpuOps()),
        stream_(device_->CreateStream()),
        arena_(*device_) {}

  Reservation Add(std::initializer_list<std::int64_t> shape, DType type = DType::kF32) {
    reservations_.push_back(arena_.Reserve(Region::kWorkspace, type, shape));
    return reservations_.back();
  }

  void Commit() {
    arena_.Commit();
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-1, 1);
    for (const Reservation& r : reservations_) {
      const Tensor t = arena_.At(r);
      for (std::int64_t i = 0; i < t.Elements(); ++i) {
        if (t.dtype == DType::kF32) t.As<float>()[i] = value(random);
        if (t.dtype == DType::kI32) t.As<std::int32_t>()[i] = static_cast<std::int32_t>(random() % V);
      }
    }
  }

  Tensor operator()(const Reservation& r) const { return arena_.At(r); }
  Ops& ops() { return *ops_; }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Stream> stream_;
  Arena arena_;
  std::vector<Reservation> reservations_;
};

void Bytes(benchmark::State& state, std::int64_t elements) {
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(elements) * 4e-9 * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
void Flops(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void Copy(benchmark::State& state) {
  Bench b;
  const auto from = b.Add({T, V}), to = b.Add({T, V});
  b.Commit();
  for (auto _ : state) std::memcpy(b(to).data, b(from).data, static_cast<std::size_t>(b(to).Bytes()));
  Bytes(state, 2 * T * V);
}
BENCHMARK(Copy)->Unit(benchmark::kMillisecond);

// Arguments: m, n, k, transposes, accumulate.
void Matmul(benchmark::State& state) {
  Bench b;
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3) != 0, tb = state.range(4) != 0;
  const auto a = ta ? b.Add({k, m}) : b.Add({m, k});
  const auto x = tb ? b.Add({n, k}) : b.Add({k, n});
  const auto c = b.Add({m, n});
  b.Commit();
  for (auto _ : state) {
    b.ops().Matmul(b(a), Transpose{ta}, b(x), Transpose{tb}, b(c), state.range(5) != 0, b.stream());
  }
  Flops(state, 2.0 * static_cast<double>(m * n * k));
}
BENCHMARK(Matmul)
    ->ArgNames({"m", "n", "k", "ta", "tb", "acc"})
    ->Args({T, 3 * H, H, 0, 0, 0})
    ->Args({T, H, 3 * H, 0, 1, 0})
    ->Args({H, 3 * H, T, 1, 0, 1})
    ->Args({T, H, H, 0, 0, 0})
    ->Args({T, H, H, 0, 1, 0})
    ->Args({H, H, T, 1, 0, 1})
    ->Args({T, F, H, 0, 0, 0})
    ->Args({T, H, F, 0, 1, 0})
    ->Args({H, F, T, 1, 0, 1})
    ->Args({T, H, F, 0, 0, 0})
    ->Args({T, F, H, 0, 1, 0})
    ->Args({F, H, T, 1, 0, 1})
    ->Args({T, V, H, 0, 1, 0})
    ->Args({T, H, V, 0, 0, 0})
    ->Args({V, H, T, 1, 0, 1})
    ->Unit(benchmark::kMillisecond);

void LayerNorm(benchmark::State& state) {
  Bench b;
  const bool forward = state.range(0) != 0;
  const auto x = b.Add({T, H}), y = b.Add({T, H}), dx = b.Add({T, H});
  const auto gamma = b.Add({H}), beta = b.Add({H}), mean = b.Add({T}), rstd = b.Add({T});
  b.Commit();
  for (auto _ : state) {
    if (forward) {
      b.ops().LayerNormForward(b(x), b(gamma), b(beta), 1e-5, b(y), b(mean), b(rstd), b.stream());
    } else {
      b.ops().LayerNormBackward(b(y), b(x), b(gamma), b(mean), b(rstd), b(dx), true, b(gamma), b(beta), true,
                                b.stream());
    }
  }
  Bytes(state, forward ? 2 * T * H : 4 * T * H);
}
BENCHMARK(LayerNorm)->ArgName("forward")->Arg(1)->Arg(0)->Unit(benchmark::kMicrosecond);

// Argument: the number of the Epilogue, from the first after kNone. Times the products of a layer that have
// one.
void MatmulEpilogue(benchmark::State& state) {
  Bench b;
  const auto epilogue = static_cast<Epilogue>(state.range(0));
  const auto x = b.Add({T, H}), w = b.Add({H, F}), wt = b.Add({F, H}), pre = b.Add({T, F}), y = b.Add({T, F}),
             bias = b.Add({F});
  const auto residual = b.Add({T, F});
  b.Commit();
  for (auto _ : state) {
    if (epilogue == Epilogue::kResidual)
      b.ops().MatmulResidual(b(x), b(w), b(bias), b(residual), b(y), b.stream());
    if (epilogue == Epilogue::kBias) b.ops().MatmulBias(b(x), b(w), b(bias), b(y), b.stream());
    if (epilogue == Epilogue::kActivation)
      b.ops().MatmulActivation(Activation::kGelu, b(x), b(w), b(bias), b(pre), b(y), b.stream());
    if (epilogue == Epilogue::kActivationGradient) {
      b.ops().MatmulActivationBackward(Activation::kGelu, b(x), b(wt), b(pre), b(y), b.stream());
    }
    if (epilogue == Epilogue::kBiasGradient)
      b.ops().MatmulBiasGradient(b(x), b(y), b(w), b(bias), true, b.stream());
  }
  Flops(state, 2.0 * static_cast<double>(T * H * F));
}
BENCHMARK(MatmulEpilogue)->DenseRange(1, kEpilogueCount - 1)->Unit(benchmark::kMillisecond);

void BiasResidual(benchmark::State& state) {
  Bench b;
  const auto y = b.Add({T, H}), bias = b.Add({H}), residual = b.Add({T, H});
  b.Commit();
  for (auto _ : state) b.ops().BiasResidual(b(y), b(bias), b(residual), b.stream());
  Bytes(state, 3 * T * H);
}
BENCHMARK(BiasResidual)->Unit(benchmark::kMicrosecond);

// Times swiglu or geglu with [T,F] results.
void GatedActivation(benchmark::State& state) {
  Bench b;
  const bool forward = state.range(0) != 0;
  const auto activation = static_cast<Activation>(state.range(1));
  const auto x = b.Add({T, 2 * F}), y = b.Add({T, F}), dx = b.Add({T, 2 * F});
  b.Commit();
  for (auto _ : state) {
    if (forward) b.ops().ActivationForward(activation, b(x), Tensor{}, b(y), b.stream());
    if (!forward) b.ops().ActivationBackward(activation, b(x), b(y), b(dx), b.stream());
  }
  Bytes(state, (forward ? 3 : 5) * T * F);
}
BENCHMARK(GatedActivation)
    ->ArgNames({"forward", "activation"})
    ->ArgsProduct({{1, 0}, {static_cast<int>(Activation::kSwiGlu), static_cast<int>(Activation::kGeGlu)}})
    ->Unit(benchmark::kMicrosecond);

void RmsNorm(benchmark::State& state) {
  Bench b;
  const bool forward = state.range(0) != 0;
  const auto x = b.Add({T, H}), y = b.Add({T, H}), dy = b.Add({T, H}), gamma = b.Add({H}),
             dgamma = b.Add({H}), rstd = b.Add({T});
  b.Commit();
  b.ops().RmsNormForward(b(x), b(gamma), 1e-5, b(y), b(rstd), b.stream());
  for (auto _ : state) {
    if (forward) {
      b.ops().RmsNormForward(b(x), b(gamma), 1e-5, b(y), b(rstd), b.stream());
    } else {
      b.ops().RmsNormBackward(b(dy), b(x), b(gamma), b(rstd), b(y), true, b(dgamma), true, b.stream());
    }
  }
  Bytes(state, (forward ? 2 : 4) * T * H);
}
BENCHMARK(RmsNorm)->ArgNames({"forward"})->Arg(1)->Arg(0)->Unit(benchmark::kMicrosecond);

void Rope(benchmark::State& state) {
  Bench b;
  const auto qkv = b.Add({B, S, 3 * N * D});
  b.Commit();
  for (auto _ : state) b.ops().Rope(b(qkv), 2 * N, D, D, {1e4}, false, b.stream());
  Bytes(state, 2 * T * 2 * N * D);
}
BENCHMARK(Rope)->Unit(benchmark::kMicrosecond);

// FLOP/s count the whole matrix, not only the causal part.
void Attention(benchmark::State& state) {
  Bench b;
  const bool forward = state.range(0) != 0;
  const std::int64_t seq = state.range(1), batch = T / seq;
  const auto qkv = b.Add({batch, seq, 3 * N * D}), dqkv = b.Add({batch, seq, 3 * N * D}),
             lse = b.Add({batch, N, seq});
  const auto out = b.Add({batch, seq, N * D}), dout = b.Add({batch, seq, N * D});
  const auto workspace = b.Add({AttentionWorkspaceElements(seq, D)});
  b.Commit();
  b.ops().AttentionForward(b(qkv), {N, N}, b(out), b(lse), b(workspace), b.stream());
  for (auto _ : state) {
    if (forward) {
      b.ops().AttentionForward(b(qkv), {N, N}, b(out), b(lse), b(workspace), b.stream());
    } else {
      b.ops().AttentionBackward(b(qkv), {N, N}, b(out), b(lse), b(dout), b(dqkv), b(workspace), b.stream());
    }
  }
  Flops(state, (forward ? 4.0 : 10.0) * static_cast<double>(T * seq * N * D));
}
BENCHMARK(Attention)
    ->ArgNames({"forward", "seq"})
    ->Args({1, S})
    ->Args({0, S})
    ->Args({1, T})
    ->Args({0, T})
    ->Unit(benchmark::kMillisecond);

void Embedding(benchmark::State& state) {
  Bench b;
  const bool forward = state.range(0) != 0;
  const auto tokens = b.Add({T}, DType::kI32), table = b.Add({V, H}), rows = b.Add({T, H});
  b.Commit();
  for (auto _ : state) {
    if (forward) b.ops().EmbeddingForward(b(tokens), b(table), 0, b(rows), b.stream());
    if (!forward) b.ops().EmbeddingBackward(b(tokens), b(rows), 0, b(table), true, b.stream());
  }
  Bytes(state, (forward ? 2 : 3) * T * H);
}
BENCHMARK(Embedding)->ArgName("forward")->Arg(1)->Arg(0)->Unit(benchmark::kMicrosecond);

void Position(benchmark::State& state) {
  Bench b;
  const bool forward = state.range(0) != 0;
  const auto table = b.Add({1024, H}), rows = b.Add({B, S, H});
  b.Commit();
  for (auto _ : state) {
    if (forward) b.ops().PositionForward(b(rows).Reshape({T, H}), S, 0, b(table), b.stream());
    if (!forward) b.ops().PositionBackward(b(rows), b(table), true, b.stream());
  }
  Bytes(state, (forward ? 3 : 1) * T * H);
}
BENCHMARK(Position)->ArgName("forward")->Arg(1)->Arg(0)->Unit(benchmark::kMicrosecond);

// Times whole rows (step 0), and the two steps over a rank's columns that touch the logits.
void CrossEntropy(benchmark::State& state) {
  Bench b;
  const std::int64_t step = state.range(0);
  const auto logits = b.Add({T, V}), max = b.Add({T}), sums = b.Add({2, T});
  const auto targets = b.Add({T}, DType::kI32), loss = b.Add({1}, DType::kF64);
  b.Commit();
  b.ops().Fill(b(sums), 1, b.stream());
  for (auto _ : state) {
    if (step == 0) b.ops().CrossEntropy(b(logits), {V - 47}, b(targets), 1.0, b(loss), b.stream());
    if (step == 1) {
      b.ops().CrossEntropyForward(b(logits), {V - 47}, b(targets), 0, b(max), b(sums), b.stream());
    }
    if (step == 2) {
      b.ops().CrossEntropyBackward(b(logits), {V - 47}, b(sums), b(targets), 0, 1.0, b.stream());
    }
  }
  Bytes(state, (step == 1 ? 1 : 2) * T * V);
}
BENCHMARK(CrossEntropy)->ArgName("step")->Arg(0)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

void Fill(benchmark::State& state) {
  Bench b;
  const auto y = b.Add({V, H});
  b.Commit();
  for (auto _ : state) b.ops().Fill(b(y), 0, b.stream());
  Bytes(state, V * H);
}
BENCHMARK(Fill)->Unit(benchmark::kMillisecond);

void SumOfSquares(benchmark::State& state) {
  Bench b;
  const auto x = b.Add({V, H}), result = b.Add({1}, DType::kF64);
  b.Commit();
  for (auto _ : state) {
    const Tensor tensor = b(x);
    b.ops().SumOfSquares({&tensor, 1}, b(result), b.stream());
  }
  Bytes(state, V * H);
}
BENCHMARK(SumOfSquares)->Unit(benchmark::kMillisecond);

void AdamW(benchmark::State& state) {
  Bench b;
  const auto param = b.Add({V, H}), grad = b.Add({V, H}), m = b.Add({V, H}), v = b.Add({V, H});
  b.Commit();
  b.ops().Fill(b(v), 1, b.stream());
  UpdateParams params;
  params.lr = 1e-4;
  const UpdatedTensor tensor{b(param), b(grad), Tensor{}, b(m), b(v), 0.1};
  for (auto _ : state) b.ops().AdamW({&tensor, 1}, params, b.stream());
  Bytes(state, 7 * V * H);
}
BENCHMARK(AdamW)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace autocfg
