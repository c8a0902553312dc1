// A device on host memory and the CPU's ops, whose memory the host cannot access and whose streams are as
// late as a GPU's may be. Operations that are invalid on a GPU fail here. Tensor addresses point to
// inaccessible pages; the data are elsewhere, and only copies and ops can find them. Work issued on a stream
// runs when a host waits for something. One rank, one thread.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "trainer/comm/waiting.h"

namespace autocfg {

// The execution order of one device: independent queues, each in its own order.
class RemoteEngine {
 public:
  using Item = std::function<bool()>;  // runs its part; returns false to be called again later

  int AddQueue() {
    queues_.emplace_back();
    return static_cast<int>(queues_.size()) - 1;
  }
  void Push(int queue, Item item) { queues_.at(static_cast<std::size_t>(queue)).push_back(std::move(item)); }

  // Runs once over all queues and executes what can run. Returns true if anything ran.
  bool Pump() {
    bool moved = false;
    for (std::deque<Item>& queue : queues_) {
      while (!queue.empty() && queue.front()()) {
        queue.pop_front();
        moved = true;
      }
    }
    return moved;
  }
  bool IsIdle() const {
    return std::all_of(queues_.begin(), queues_.end(), [](const auto& queue) { return queue.empty(); });
  }
  bool IsIdle(int queue) const { return queues_.at(static_cast<std::size_t>(queue)).empty(); }

  // Waits until the queue is empty, as a host does. Calls `meanwhile` between rounds.
  void Drain(int queue) {
    for (trainer::Idle idle; !IsIdle(queue);) {
      if (Pump()) {
        idle = trainer::Idle{};
      } else {
        idle();
      }
      if (meanwhile) meanwhile();
    }
  }
  void DrainAll() {
    for (std::size_t i = 0; i < queues_.size(); ++i) Drain(static_cast<int>(i));
  }

  std::function<void()> meanwhile;
  std::int64_t host_waits = 0;  // stream waits

 private:
  std::deque<std::deque<Item>> queues_;
};

class RemoteStream final : public Stream {
 public:
  explicit RemoteStream(std::shared_ptr<RemoteEngine> engine)
      : engine_(std::move(engine)), queue_(engine_->AddQueue()) {}

  void Synchronize() override {
    ++engine_->host_waits;
    engine_->Drain(queue_);
  }
  void Push(std::function<void()> work) {
    engine_->Push(queue_, [work = std::move(work)] {
      work();
      return true;
    });
  }
  int queue() const { return queue_; }

  static RemoteStream& Of(Stream& stream) {
    auto* ours = dynamic_cast<RemoteStream*>(&stream);
    if (ours == nullptr) throw std::logic_error("a stream of another device was given to the remote device");
    return *ours;
  }

 private:
  const std::shared_ptr<RemoteEngine> engine_;
  const int queue_;
};

class RemoteDevice final : public Device {
 public:
  std::string Name() const override { return "remote"; }
  bool ComputesOnHost() const override { return false; }
  bool ComputesIn(DType) const override { return true; }  // memory for any type; the caller provides the ops

  void* Allocate(std::int64_t bytes) override {
    void* real = cpu_->Allocate(bytes);
    void* address = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) throw DeviceError("remote: no addresses are left");
    blocks_[static_cast<char*>(address)] = {static_cast<char*>(real), bytes};
    return address;
  }

  // Waits for all running work, as a GPU's free does. During exception handling, pending work is not run.
  void Free(void* data, std::int64_t bytes) noexcept override {
    if (std::uncaught_exceptions() == 0) engine_->DrainAll();
    const auto it = blocks_.find(static_cast<char*>(data));
    cpu_->Free(it->second.real, bytes);
    munmap(data, static_cast<std::size_t>(bytes));
    blocks_.erase(it);
  }

  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<RemoteStream>(engine_); }

  void CopyFromHost(void* device, const void* host, std::int64_t bytes, Stream& stream) override {
    const auto* from = static_cast<const char*>(host);
    RemoteStream::Of(stream).Push([to = Real(device, bytes), data = std::vector<char>(from, from + bytes)] {
      std::memcpy(to, data.data(), data.size());
    });
  }
  void CopyToHost(void* host, const void* device, std::int64_t bytes, Stream& stream) override {
    RemoteStream::Of(stream).Push([host, from = Real(device, bytes), bytes] {
      std::memcpy(host, from, static_cast<std::size_t>(bytes));
    });
  }

  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return cpu_->OverheadBytes(arena_bytes);
  }

  // Returns the location of the data of an address. Throws for addresses that are not this device's.
  void* Real(const void* address, std::int64_t bytes) const {
    const auto* wanted = static_cast<const char*>(address);
    auto it = blocks_.upper_bound(const_cast<char*>(wanted));
    if (it != blocks_.begin()) --it;
    if (it == blocks_.end() || wanted < it->first || wanted + bytes > it->first + it->second.bytes) {
      throw std::logic_error("remote: an address that is not the device's");
    }
    return it->second.real + (wanted - it->first);
  }
  Tensor Real(const Tensor& tensor) const {
    Tensor real = tensor;
    if (tensor.data != nullptr) real.data = Real(tensor.data, tensor.Bytes());
    return real;
  }

  const std::shared_ptr<RemoteEngine>& engine() const { return engine_; }

 private:
  struct Block {
    char* real;
    std::int64_t bytes;
  };

  const std::shared_ptr<RemoteEngine> engine_ = std::make_shared<RemoteEngine>();
  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
  std::map<char*, Block> blocks_;
};

// The CPU's ops, issued on remote streams. `device` must outlive them.
class RemoteOps final : public Ops {
 public:
  explicit RemoteOps(RemoteDevice& device) : device_(device) {}

  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
              Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->Matmul(R(a), ta, R(b), tb, R(c), accumulate, h); });
  }
  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->MatmulBias(R(a), R(b), R(bias), R(c), h); });
  }
  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y, Stream& s) override {
    Issue(s,
          [=, this](Stream& h) { cpu_->MatmulActivation(activation, R(a), R(b), R(bias), R(pre), R(y), h); });
  }
  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre, Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->MatmulActivationBackward(activation, R(dy), R(b), R(pre), R(dpre), h);
    });
  }
  void MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->MatmulResidual(R(a), R(b), R(bias), R(residual), R(c), h); });
  }
  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->MatmulBiasGradient(R(x), R(dy), R(dw), R(dbias), accumulate, h); });
  }
  void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->LayerNormForward(R(x), R(gamma), R(beta), eps, R(y), R(mean), R(rstd), h);
    });
  }
  void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate, Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->LayerNormBackward(R(dy), R(x), R(gamma), R(mean), R(rstd), R(dx), add, R(dgamma), R(dbeta),
                              accumulate, h);
    });
  }
  void RmsNormForward(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd,
                      Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->RmsNormForward(R(x), R(gamma), eps, R(y), R(rstd), h); });
  }
  void RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add, const Tensor& dgamma, bool accumulate,
                       Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->RmsNormBackward(R(dy), R(x), R(gamma), R(rstd), R(dx), add, R(dgamma), accumulate, h);
    });
  }
  void BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->BiasResidual(R(y), R(bias), R(residual), h); });
  }
  void ResidualAdd(const Tensor& y, const Tensor& residual, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->ResidualAdd(R(y), R(residual), h); });
  }
  void Scale(const Tensor& x, double factor, const Tensor& y, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->Scale(R(x), factor, R(y), h); });
  }
  void ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y,
                         Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->ActivationForward(activation, R(x), R(bias), R(y), h); });
  }
  void ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx,
                          Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->ActivationBackward(activation, R(x), R(dy), R(dx), h); });
  }
  void HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& gamma_q,
                       const Tensor& gamma_k, double eps, const Tensor& raw, const Tensor& rstd,
                       Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->HeadNormForward(R(qkv), heads, kv_heads, R(gamma_q), R(gamma_k), eps, R(raw), R(rstd), h);
    });
  }
  void HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                        const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                        const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate, Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->HeadNormBackward(R(dqkv), heads, kv_heads, R(raw), R(gamma_q), R(gamma_k), R(rstd), R(dgamma_q),
                             R(dgamma_k), accumulate, h);
    });
  }
  void QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums,
                 Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->QkSquares(R(qkv), heads, kv_heads, R(sums), h); });
  }
  void QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                     const Tensor& gamma_q, const Tensor& gamma_k, double eps, const Tensor& raw,
                     const Tensor& rstd, Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->QkNormForward(R(qkv), heads, kv_heads, ranks, R(gamma_q), R(gamma_k), eps, R(raw), R(rstd), h);
    });
  }
  void QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                  const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd, const Tensor& products,
                  Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->QkProducts(R(dqkv), heads, kv_heads, R(raw), R(gamma_q), R(gamma_k), R(rstd), R(products), h);
    });
  }
  void QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                      const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                      const Tensor& products, const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate,
                      Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->QkNormBackward(R(dqkv), heads, kv_heads, ranks, R(raw), R(gamma_q), R(gamma_k), R(rstd),
                           R(products), R(dgamma_q), R(dgamma_k), accumulate, h);
    });
  }
  void Rope(const Tensor& qkv, std::int64_t heads, std::int64_t head_dim, std::int64_t rotary_dims,
            double theta, bool inverse, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->Rope(R(qkv), heads, head_dim, rotary_dims, theta, inverse, h); });
  }
  void AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                        const Tensor& workspace, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->AttentionForward(R(qkv), form, R(out), R(lse), R(workspace), h); });
  }
  void AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                         const Tensor& dout, const Tensor& dqkv, const Tensor& workspace,
                         Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->AttentionBackward(R(qkv), form, R(out), R(lse), R(dout), R(dqkv), R(workspace), h);
    });
  }
  void UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                               const Tensor& out, Stream& s) override {
    Issue(s,
          [=, this](Stream& h) { cpu_->UnfusedAttentionForward(R(qkv), form, R(probabilities), R(out), h); });
  }
  void UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                const Tensor& dscores, Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->UnfusedAttentionBackward(R(qkv), form, R(probabilities), R(out), R(dout), R(dqkv), R(dscores), h);
    });
  }
  void EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start,
                        const Tensor& out, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->EmbeddingForward(R(tokens), R(table), vocab_start, R(out), h); });
  }
  void EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start,
                         const Tensor& dtable, bool accumulate, Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->EmbeddingBackward(R(tokens), R(dout), vocab_start, R(dtable), accumulate, h);
    });
  }
  void PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table,
                       Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->PositionForward(R(y), seq_len, first, R(table), h); });
  }
  void PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->PositionBackward(R(dy), R(dtable), accumulate, h); });
  }
  void CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, double scale,
                    const Tensor& loss, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->CrossEntropy(R(logits), valid, R(targets), scale, R(loss), h); });
  }
  void CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets,
                           std::int64_t vocab_start, const Tensor& max, const Tensor& sums,
                           Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->CrossEntropyForward(R(logits), valid, R(targets), vocab_start, R(max), R(sums), h);
    });
  }
  void CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->CrossEntropyRescale(R(max), R(sums), h); });
  }
  void CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->CrossEntropyLoss(R(max), R(sums), R(loss), h); });
  }
  void CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                            const Tensor& targets, std::int64_t vocab_start, double scale,
                            Stream& s) override {
    Issue(s, [=, this](Stream& h) {
      cpu_->CrossEntropyBackward(R(logits), valid, R(sums), R(targets), vocab_start, scale, h);
    });
  }
  void Fill(const Tensor& y, double value, Stream& s) override {
    Issue(s, [=, this](Stream& h) { cpu_->Fill(R(y), value, h); });
  }
  void SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream& s) override {
    std::vector<Tensor> real;
    for (const Tensor& tensor : tensors) real.push_back(R(tensor));
    Issue(s, [this, real = std::move(real), result](Stream& h) { cpu_->SumOfSquares(real, R(result), h); });
  }
  void AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params, Stream& s) override {
    std::vector<AdamWTensor> real;
    for (const AdamWTensor& t : tensors)
      real.push_back({R(t.param), R(t.grad), R(t.master), R(t.m), R(t.v), t.weight_decay});
    AdamWParams real_params = params;
    real_params.squared_norm = R(params.squared_norm);
    Issue(s, [this, real = std::move(real), real_params](Stream& h) { cpu_->AdamW(real, real_params, h); });
  }

  // Waits for all pending work, as a GPU's does.
  void ReleaseSpare() override {
    if (!device_.engine()->IsIdle())
      throw std::logic_error("remote: memory is given back while the device has work");
    ++releases_;
  }
  int releases() const { return releases_; }

 private:
  class Now final : public Stream {
   public:
    void Synchronize() override {}
  };

  template <typename Op>
  void Issue(Stream& stream, Op op) {
    RemoteStream::Of(stream).Push([op = std::move(op)] {
      Now now;
      op(now);
    });
  }
  Tensor R(const Tensor& tensor) const { return device_.Real(tensor); }

  RemoteDevice& device_;
  const std::unique_ptr<Ops> cpu_ = CreateCpuOps();
  int releases_ = 0;
};

}  // namespace autocfg
