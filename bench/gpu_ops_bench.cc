// Times single ops of the GPU engine at the shapes of a file (deploy/gpu/op_shapes.json), on random data:
// bf16 with fp32 statistics, gradients and optimizer. Each time is the median of many runs, measured by
// events on the stream after warm-up. bench/gpu_ops_torch.py times PyTorch's ops at the same shapes.
//
// usage: autocfg_gpu_ops_bench SHAPES.json [NAME,NAME...]
//     Prints one JSON object: {"device", "ops": {name: {part: {"median_s", "min_s", "runs"}}}, "errors":
//     {name: why}, "choices": [implementation chosen for each shape]}. Exit code 1 if an op failed; later ops
//     still run.
//   autocfg_gpu_ops_bench --step MODEL.json MICRO_BATCH SEQ_LEN
//     Times every op of a step on one rank (gpu_step_ops.h). Prints one JSON object: {"device", "ops":
//     [{"op", "times_a_step", "median_s", "min_s", "runs", "flops", "bytes"}], "errors", "choices"}; an op
//     that failed has no times. Exit code as above.
//   autocfg_gpu_ops_bench --device
//     Prints one JSON object that describes the GPU.
//   autocfg_gpu_ops_bench --hold BYTES
//     Allocates that much GPU memory, prints "held" and keeps it until standard input ends.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/gpu_op_timer.h"
#include "bench/gpu_step_ops.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/cuda_stream.h"
#include "kernels/cuda/ops/cuda_ops.h"
#include "kernels/op_log.h"
#include "nlohmann/json.hpp"
#include "search/ops/memory_sizes.h"
#include "search/ops/op_desc.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRuns = 30;
constexpr std::chrono::milliseconds kWarmUp{200};

// Device tensors with random contents, freed together.
class Tensors {
 public:
  Tensors(Device& device, Stream& stream) : device_(device), stream_(stream) {}
  ~Tensors() {
    for (const Tensor& t : all_) device_.Free(t.data, t.Bytes());
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  // Returns normally distributed elements of kBF16 or kF32.
  Tensor Normal(DType type, std::initializer_list<std::int64_t> shape, float mean = 0, float deviation = 1) {
    const Tensor t = Take(type, shape);
    std::normal_distribution<float> value(mean, deviation);
    // Repeats a block whose length is not a power of two.
    std::vector<std::uint32_t> block(250'007);
    for (auto& word : block) {
      const auto bits = std::bit_cast<std::uint32_t>(value(random_));
      word = type == DType::kBF16 ? bits >> 16 | (std::bit_cast<std::uint32_t>(value(random_)) & 0xffff0000u)
                                  : bits;
    }
    Repeat(t, block.data(), static_cast<std::int64_t>(block.size() * sizeof(block[0])));
    return t;
  }

  Tensor Ids(std::int64_t n, std::int64_t below) {
    const Tensor t = Take(DType::kI32, {n});
    std::uniform_int_distribution<std::int32_t> value(0, static_cast<std::int32_t>(below - 1));
    std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
    for (auto& id : ids) id = value(random_);
    Repeat(t, ids.data(), t.Bytes());
    return t;
  }

  Tensor Zeros(DType type, std::initializer_list<std::int64_t> shape) { return Take(type, shape); }

 private:
  Tensor Take(DType type, std::initializer_list<std::int64_t> shape) {
    Tensor t;
    t.dtype = type;
    for (const std::int64_t dim : shape) t.shape[t.rank++] = dim;
    t.data = device_.Allocate(t.Bytes());
    all_.push_back(t);
    return t;
  }
  void Repeat(const Tensor& t, const void* block, std::int64_t block_bytes) {
    for (std::int64_t done = 0; done < t.Bytes(); done += block_bytes) {
      device_.CopyFromHost(t.As<char>() + done, block, std::min(block_bytes, t.Bytes() - done), stream_);
    }
    stream_.Synchronize();
  }

  Device& device_;
  Stream& stream_;
  std::vector<Tensor> all_;
  std::mt19937 random_{std::random_device{}()};
};

Json ToJson(const OpSeconds& seconds) {
  return {{"median_s", seconds.median}, {"min_s", seconds.least}, {"runs", seconds.runs}};
}

class Bench {
 public:
  Bench()
      : device_(cuda::CreateCudaDevice(0)), ops_(cuda::CreateCudaOps()), stream_(device_->CreateStream()) {}

  std::vector<std::string> Choices() const {
    std::vector<std::string> texts;
    for (const OpChoice& choice : cuda::ChoicesOf(*ops_)) texts.push_back(choice.text);
    return texts;
  }

  // Times the parts of one shape. Throws std::invalid_argument for an unknown kind.
  Json Run(const Json& shape) {
    const std::string kind = shape.at("kind");
    if (kind == "matmul") return Product(shape);
    if (kind == "copy") return Copy(shape);
    if (kind == "attention") return Attention(shape);
    if (kind == "layer_norm") return LayerNorm(shape);
    if (kind == "cross_entropy") return CrossEntropy(shape);
    if (kind == "adamw") return AdamW(shape);
    throw std::invalid_argument("op_shapes: unknown kind \"" + kind + "\"");
  }

  void Time(StepOp& op) { TimeStepOp(op, *device_, *ops_, *stream_); }

 private:
  Json TimeOf(const std::function<void()>& work, const std::function<void()>& prepare = {}) {
    return ToJson(TimeOnStream(*stream_, kRuns, kWarmUp, work, prepare));
  }

  void CopyOnDevice(const Tensor& to, const Tensor& from) {
    cuda::Check(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(to.Bytes()),
                                cudaMemcpyDeviceToDevice, cuda::HandleOf(*stream_)),
                "a copy on the device");
  }

  Json Product(const Json& shape) {
    const std::int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
    Tensors tensors(*device_, *stream_);
    const Tensor a = tensors.Normal(DType::kBF16, {m, k}), b = tensors.Normal(DType::kBF16, {k, n}),
                 c = tensors.Zeros(DType::kBF16, {m, n});
    return {{"product_s",
             TimeOf([&] { ops_->Matmul(a, Transpose::kNo, b, Transpose::kNo, c, false, *stream_); })}};
  }

  Json Copy(const Json& shape) {
    const std::int64_t n = shape.at("bytes").get<std::int64_t>() / SizeOf(DType::kF32);
    Tensors tensors(*device_, *stream_);
    const Tensor from = tensors.Normal(DType::kF32, {n}), to = tensors.Zeros(DType::kF32, {n});
    return {{"copy_s", TimeOf([&] { CopyOnDevice(to, from); })}};
  }

  Json Attention(const Json& shape) {
    const std::int64_t b = shape.at("batch"), s = shape.at("seq"), n = shape.at("heads"),
                       g = shape.at("kv_heads"), d = shape.at("head_dim");
    Tensors tensors(*device_, *stream_);
    const std::int64_t q = (n + 2 * g) * d;
    const Tensor qkv = tensors.Normal(DType::kBF16, {b, s, q}),
                 dout = tensors.Normal(DType::kBF16, {b, s, n * d});
    const Tensor out = tensors.Zeros(DType::kBF16, {b, s, n * d}),
                 dqkv = tensors.Zeros(DType::kBF16, {b, s, q});
    const Tensor lse = tensors.Zeros(DType::kF32, {b, n, s});
    const Tensor workspace = tensors.Zeros(DType::kF32, {AttentionWorkspaceElements(s, d)});
    Json forward = TimeOf([&] { ops_->AttentionForward(qkv, {n, g}, out, lse, workspace, *stream_); });
    Json backward = TimeOf([&] {
      ops_->AttentionBackward(qkv, {n, g}, out, lse, dout, dqkv, workspace, *stream_);
    });
    return {{"forward_s", std::move(forward)}, {"backward_s", std::move(backward)}};
  }

  Json LayerNorm(const Json& shape) {
    const std::int64_t t = shape.at("tokens"), h = shape.at("width");
    Tensors tensors(*device_, *stream_);
    const Tensor x = tensors.Normal(DType::kBF16, {t, h}), gamma = tensors.Normal(DType::kBF16, {h}, 1, 0.1f),
                 beta = tensors.Normal(DType::kBF16, {h});
    const Tensor dy = tensors.Normal(DType::kBF16, {t, h}), y = tensors.Zeros(DType::kBF16, {t, h}),
                 dx = tensors.Zeros(DType::kBF16, {t, h});
    const Tensor mean = tensors.Zeros(DType::kF32, {t}), rstd = tensors.Zeros(DType::kF32, {t});
    const Tensor dgamma = tensors.Zeros(DType::kF32, {h}), dbeta = tensors.Zeros(DType::kF32, {h});
    Json forward = TimeOf([&] { ops_->LayerNormForward(x, gamma, beta, 1e-5, y, mean, rstd, *stream_); });
    Json backward = TimeOf(
        [&] { ops_->LayerNormBackward(dy, x, gamma, mean, rstd, dx, false, dgamma, dbeta, true, *stream_); });
    return {{"forward_s", std::move(forward)}, {"backward_s", std::move(backward)}};
  }

  // Times forward and backward together, as one rank of no tensor group runs them. They overwrite the logits,
  // which are restored before each run.
  Json CrossEntropy(const Json& shape) {
    const std::int64_t t = shape.at("tokens"), v = shape.at("vocab");
    Tensors tensors(*device_, *stream_);
    const Tensor fresh = tensors.Normal(DType::kBF16, {t, v}), logits = tensors.Zeros(DType::kBF16, {t, v});
    const Tensor targets = tensors.Ids(t, v), loss = tensors.Zeros(DType::kF64, {1});
    const auto both = [&] {
      ops_->CrossEntropy(logits, {v}, targets, 1.0 / static_cast<double>(t), loss, *stream_);
    };
    return {{"both_s", TimeOf(both, [&] { CopyOnDevice(logits, fresh); })}};
  }

  // Uses tensors of a transformer's size rather than one large tensor.
  Json AdamW(const Json& shape) {
    constexpr std::int64_t kEach = std::int64_t{1} << 24;
    Tensors tensors(*device_, *stream_);
    std::vector<UpdatedTensor> list;
    for (std::int64_t left = shape.at("elements"); left >= kEach; left -= kEach) {
      UpdatedTensor& t = list.emplace_back();
      t.param = tensors.Normal(DType::kBF16, {kEach});
      t.grad = tensors.Normal(DType::kF32, {kEach});
      t.master = tensors.Normal(DType::kF32, {kEach});
      t.m = tensors.Normal(DType::kF32, {kEach});
      t.v = tensors.Normal(DType::kF32, {kEach}, 4, 0.5f);
      t.weight_decay = 0.1;
    }
    UpdateParams params;  // gradients are not clipped
    params.lr = 1e-5;
    return {{"step_s", TimeOf([&] { ops_->AdamW(list, params, *stream_); })}};
  }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Stream> stream_;
};

int Hold(const char* text) {
  const std::int64_t bytes = std::strtoll(text, nullptr, 10);
  if (bytes < 1) throw std::invalid_argument("--hold: expected a number of bytes");
  const auto device = cuda::CreateCudaDevice(0);
  void* const data = device->Allocate(bytes);
  std::cout << "held" << std::endl;
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  device->Free(data, bytes);
  return 0;
}

cudaDeviceProp Properties() {
  cudaDeviceProp properties{};
  cuda::Check(cudaGetDeviceProperties(&properties, 0), "querying the GPU's properties");
  return properties;
}

int Describe() {
  const auto device = cuda::CreateCudaDevice(0);
  const cudaDeviceProp properties = Properties();
  std::size_t free_bytes = 0, total_bytes = 0;
  cuda::Check(cudaMemGetInfo(&free_bytes, &total_bytes), "querying the GPU's memory");
  std::cout << Json{{"device", properties.name},
                    {"memory_bytes", total_bytes},
                    {"free_bytes", free_bytes},
                    {"compute_capability",
                     std::to_string(properties.major) + "." + std::to_string(properties.minor)},
                    {"multiprocessors", properties.multiProcessorCount},
                    {"l2_cache_bytes", properties.l2CacheSize}}
                   .dump()
            << "\n";
  return 0;
}

void Complain(const std::string& name, const std::string& error) {
  std::cerr << "autocfg_gpu_ops_bench: " << name << ": " << error << "\n";
}

// Prints the answer; returns the exit code.
int Answer(const Json& ops, const Json& errors, const Bench& bench) {
  std::cout << Json{{"device", Properties().name},
                    {"ops", ops},
                    {"errors", errors},
                    {"choices", bench.Choices()}}
                   .dump()
            << "\n";
  return errors.empty() ? 0 : 1;
}

int TimeShapes(const char* path, const char* only) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument(std::string(path) + ": cannot be read");
  const Json shapes = Json::parse(file);
  std::set<std::string> chosen;
  std::stringstream names(only);
  for (std::string name; std::getline(names, name, ',');) chosen.insert(name);
  Bench bench;
  Json ops = Json::object(), errors = Json::object();
  for (const Json& shape : shapes) {
    const std::string name = shape.at("name");
    if (!chosen.empty() && !chosen.contains(name)) continue;
    try {
      ops[name] = bench.Run(shape);
    } catch (const std::exception& error) {
      errors[name] = error.what();
      Complain(name, error.what());
    }
  }
  return Answer(ops, errors, bench);
}

std::int64_t Positive(const char* name, const char* text) {
  const std::int64_t value = std::strtoll(text, nullptr, 10);
  if (value < 1) throw std::invalid_argument(std::string(name) + ": expected a positive number");
  return value;
}

int TimeStep(const char* model, const char* micro_batch, const char* seq_len) {
  std::vector<StepOp> step =
      StepOps(model, Positive("MICRO_BATCH", micro_batch), Positive("SEQ_LEN", seq_len));
  Bench bench;
  Json ops = Json::array(), errors = Json::object();
  for (StepOp& timed : step) {
    bench.Time(timed);
    const std::string name = ToString(timed.op);
    Json entry{{"op", name},
               {"times_a_step", timed.times_a_step},
               {"flops", Flops(timed.op)},
               {"bytes", MinBytes(timed.op)}};
    if (timed.error.empty()) {
      entry.update(ToJson(timed.seconds));
    } else {
      errors[name] = timed.error;
      Complain(name, timed.error);
    }
    ops.push_back(std::move(entry));
  }
  return Answer(ops, errors, bench);
}

int Usage() {
  std::cerr
      << "usage: autocfg_gpu_ops_bench SHAPES.json [NAME,NAME...] | --step MODEL.json MICRO_BATCH SEQ_LEN "
         "| --device | --hold BYTES\n";
  return 2;
}

int Main(const std::vector<const char*>& args) {
  const std::string verb = args.empty() ? "" : args[0];
  if (verb == "--step") return args.size() == 4 ? TimeStep(args[1], args[2], args[3]) : Usage();
  if (verb == "--hold") return args.size() == 2 ? Hold(args[1]) : Usage();
  if (verb == "--device") return args.size() == 1 ? Describe() : Usage();
  if (args.empty() || args.size() > 2) return Usage();
  return TimeShapes(args[0], args.size() == 2 ? args[1] : "");
}

}  // namespace
}  // namespace autocfg

int main(int argc, char** argv) {
  try {
    return autocfg::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "autocfg_gpu_ops_bench: " << error.what() << "\n";
    return 1;
  }
}
