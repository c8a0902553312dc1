#include "trainer/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

#include "base/fnv1a.h"
#include "trainer/layout/element_copy.h"

namespace autocfg::trainer {
namespace {

constexpr std::size_t kChunk = 1 << 18;  // elements that one thread generates at once: at most 14 bytes each
constexpr unsigned kMostThreads = 32;

// Staging for a tensor's elements on the host: encoded in parallel, copied together.
class Staging {
 public:
  // `tensor` has the parameter's elements from `first` on. Throws NotSupported if its type has no encoding.
  Staging(const Tensor& tensor, std::int64_t first)
      : tensor_(tensor), first_(first), end_(first + tensor.Elements()) {
    EncodeDoubles({}, tensor.dtype, nullptr);
  }

  void Resize(std::size_t elements) { bytes_.resize(elements * width_); }
  void Encode(std::size_t first, std::span<const double> values) {
    EncodeDoubles(values, tensor_.dtype, bytes_.data() + first * width_);
  }
  // Copies what the tensor has of the staged elements, which are the parameter's from `offset` on.
  void CopyTo(std::int64_t offset, Device& device, Stream& stream) const {
    const auto width = static_cast<std::int64_t>(width_);
    const std::int64_t first = std::max(offset, first_);
    const std::int64_t end = std::min(offset + static_cast<std::int64_t>(bytes_.size()) / width, end_);
    if (first >= end) return;
    device.CopyFromHost(tensor_.As<char>() + (first - first_) * width,
                        bytes_.data() + (first - offset) * width, (end - first) * width, stream);
  }

 private:
  const Tensor& tensor_;
  const std::int64_t first_, end_;
  const std::size_t width_ = static_cast<std::size_t>(SizeOf(tensor_.dtype));
  std::vector<char> bytes_;
};

// Consecutive elements of a rank's part of a parameter. Collects them run by run, then draws, encodes and
// copies them together.
class Block {
 public:
  Block(const Parameter& parameter, std::uint64_t seed, const ParameterTensors& tensors, Device& device,
        Stream& stream)
      : parameter_(parameter), key_(PhiloxKey(seed, parameter.name)), device_(device), stream_(stream) {
    staged_.emplace_back(tensors.kept_value, tensors.kept.first);
    if (tensors.master.IsPresent()) staged_.emplace_back(tensors.master, tensors.own.first);
  }

  // Adds elements [local, local + count) of the tensors, which are the parameter's elements from `global` on.
  void Add(std::int64_t local, std::int64_t global, std::int64_t count) {
    while (count > 0) {
      if (local != start_ + static_cast<std::int64_t>(values_.size())) Flush();
      if (values_.empty()) start_ = local;
      const std::size_t taken = std::min(static_cast<std::size_t>(count), kChunk * threads_ - values_.size());
      pieces_.push_back({values_.size(), global, taken});
      values_.resize(values_.size() + taken);
      if (values_.size() == kChunk * threads_) Flush();
      const auto n = static_cast<std::int64_t>(taken);
      local += n;
      global += n;
      count -= n;
    }
  }

  void Flush() {
    if (values_.empty()) return;
    for (Staging& staging : staged_) staging.Resize(values_.size());
    // An element depends only on its index, so the assignment to threads does not matter.
    const std::size_t threads = std::clamp<std::size_t>(values_.size() / kChunk, 1, threads_);
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads; ++i) {
      others.emplace_back(
          [this, i, threads] { Make(values_.size() * i / threads, values_.size() * (i + 1) / threads); });
    }
    Make(0, values_.size() / threads);
    others.clear();  // joins them
    for (const Staging& staging : staged_) staging.CopyTo(start_, device_, stream_);
    values_.clear();
    pieces_.clear();
  }

 private:
  struct Piece {
    std::size_t offset = 0;  // in values_
    std::int64_t global = 0;
    std::size_t count = 0;
  };

  // Draws values_[begin, end) and encodes them into the staging buffers.
  void Make(std::size_t begin, std::size_t end) {
    Draw(begin, end);
    for (Staging& staging : staged_) {
      staging.Encode(begin, std::span<const double>(values_).subspan(begin, end - begin));
    }
  }

  void Draw(std::size_t begin, std::size_t end) {
    for (const Piece& piece : pieces_) {
      const std::size_t first = std::max(begin, piece.offset),
                        last = std::min(end, piece.offset + piece.count);
      if (first >= last) continue;
      const std::span<double> out(values_.data() + first, last - first);
      if (parameter_.initial == Initial::kOnes) {
        std::fill(out.begin(), out.end(), 1.0);
        continue;
      }
      NormalNumbers(key_, piece.global + static_cast<std::int64_t>(first - piece.offset), out);
      for (double& v : out) v *= parameter_.std;
    }
  }

  const Parameter& parameter_;
  const std::array<std::uint32_t, 2> key_;
  Device& device_;
  Stream& stream_;
  // The cores that the process may run on: one if the rank is bound to a core.
  const std::size_t threads_ = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
  std::int64_t start_ = 0;  // of values_, in the tensor
  std::vector<double> values_;
  std::vector<Piece> pieces_;
  std::vector<Staging> staged_;
};

}  // namespace

std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

std::array<std::uint32_t, 2> PhiloxKey(std::uint64_t seed, std::string_view name) {
  const std::uint64_t hash = base::Fnv1a(name);
  // The finalizer of SplitMix64 spreads small seeds over the whole key.
  std::uint64_t z = seed + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  const std::uint64_t key = hash ^ z ^ (z >> 31);
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

void NormalNumbers(std::array<std::uint32_t, 2> key, std::int64_t first, std::span<double> out) {
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  for (std::int64_t block = first / 4; block * 4 < end; ++block) {
    const auto words =
        Philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    double normal[4];
    for (std::size_t pair = 0; pair < 2; ++pair) {
      const double u = (words[2 * pair] + 0.5) * 0x1p-32;  // in (0, 1)
      const double v = (words[2 * pair + 1] + 0.5) * 0x1p-32;
      const double radius = std::sqrt(-2.0 * std::log(u));
      normal[2 * pair] = radius * std::cos(2.0 * std::numbers::pi * v);
      normal[2 * pair + 1] = radius * std::sin(2.0 * std::numbers::pi * v);
    }
    for (int lane = 0; lane < 4; ++lane) {
      const std::int64_t index = block * 4 + lane;
      if (index >= first && index < end) out[index - first] = normal[lane];
    }
  }
}

void InitializeParameter(const Parameter& parameter, std::uint64_t seed, const ParameterTensors& tensors,
                         Device& device, Stream& stream) {
  if (tensors.kept_value.data == nullptr || parameter.initial == Initial::kZeros) return;
  Block block(parameter, seed, tensors, device, stream);
  ForEachRun(parameter, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
    block.Add(local, global, count);
  });
  block.Flush();
}

}  // namespace autocfg::trainer
