// A device on host memory and the CPU's ops, whose memory the host cannot access and whose streams are as
// late as a GPU's may be. Operations that are invalid on a GPU fail here. Tensor addresses point to
// inaccessible pages; the data are elsewhere, and only copies and ops can find them. Work issued on a stream
// runs when a host waits for something. One rank, one thread.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
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

  void Run(const OpCall& call, Stream& stream) override {
    const auto real = [&](const Tensor& tensor) { return device_.Real(tensor); };
    auto late = std::make_shared<LateCall>(LateCall{.call = call});
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (call.operands[i] == nullptr) continue;
      late->operands[i] = real(call[i]);
      late->call.operands[i] = &late->operands[i];
    }
    for (const Tensor& tensor : call.summed) late->summed.push_back(real(tensor));
    for (const UpdatedTensor& t : call.updated)
      late->updated.push_back(
          {real(t.param), real(t.grad), real(t.master), real(t.m), real(t.v), t.weight_decay});
    if (call.args.frequencies != nullptr) {
      late->frequencies = *call.args.frequencies;
      late->call.args.frequencies = &late->frequencies;
    }
    late->call.summed = late->summed;
    late->call.updated = late->updated;
    if (call.params != nullptr) {
      late->params = *call.params;
      late->params.squared_norm = real(call.params->squared_norm);
      late->call.params = &late->params;
    }
    RemoteStream::Of(stream).Push([this, late] {
      Now now;
      cpu_->Run(late->call, now);
    });
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

  // A call with what it views.
  struct LateCall {
    OpCall call;
    std::array<Tensor, OpCall::kMostOperands> operands{};
    std::vector<Tensor> summed{};
    std::vector<UpdatedTensor> updated{};
    UpdateParams params{};
    RotaryFrequencies frequencies{};
  };

  RemoteDevice& device_;
  const std::unique_ptr<Ops> cpu_ = CreateCpuOps();
  int releases_ = 0;
};

}  // namespace autocfg
