// Runs tests whose tensors are in host memory on a world of a device that the host cannot access. Every
// tensor is copied to the device, on its stream, and back once its operation is complete. One rank, one
// thread.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "trainer/comm/comm_world.h"

namespace autocfg {

class FacadeWork final : public trainer::Work {
 public:
  FacadeWork(Device& device, Stream& stream, const Tensor& host,
             const std::function<std::unique_ptr<trainer::Work>(const Tensor&)>& start)
      : device_(device), stream_(stream), host_(host), remote_(host) {
    if (host.Bytes() > 0) {
      remote_.data = device.Allocate(host.Bytes());
      device.CopyFromHost(remote_.data, host.data, host.Bytes(), stream);
    }
    try {
      work_ = start(remote_);
    } catch (const std::exception&) {
      Release();
      throw;
    }
  }
  ~FacadeWork() override {
    if (work_ != nullptr) Wait();
    Release();
  }

  void Wait() override {
    if (complete_) return;
    work_->Wait();
    if (remote_.data != nullptr && host_.Bytes() > 0)
      device_.CopyToHost(host_.data, remote_.data, host_.Bytes(), stream_);
    stream_.Synchronize();
    complete_ = true;
  }
  bool Test() override {
    if (!complete_ && work_->Test()) Wait();
    return complete_;
  }

 private:
  void Release() {
    if (host_.Bytes() > 0) device_.Free(remote_.data, host_.Bytes());
  }

  Device& device_;
  Stream& stream_;
  const Tensor host_;
  Tensor remote_;
  std::unique_ptr<trainer::Work> work_;
  bool complete_ = false;
};

class FacadeCommunicator final : public trainer::Communicator {
 public:
  FacadeCommunicator(Device& device, Stream& stream, std::unique_ptr<trainer::Communicator> inner,
                     void* staging, std::int64_t bytes)
      : device_(device), stream_(stream), inner_(std::move(inner)), staging_(staging), bytes_(bytes) {}
  ~FacadeCommunicator() override {
    inner_.reset();
    if (staging_ != nullptr) device_.Free(staging_, bytes_);
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<trainer::Work> AllReduce(const Tensor& tensor, trainer::ReduceOp op, Stream&) override {
    return Start(tensor, [&](const Tensor& t) { return inner_->AllReduce(t, op, stream_); });
  }
  std::unique_ptr<trainer::Work> ReduceScatter(const Tensor& tensor, trainer::ReduceOp op, Stream&) override {
    return Start(tensor, [&](const Tensor& t) { return inner_->ReduceScatter(t, op, stream_); });
  }
  std::unique_ptr<trainer::Work> AllGather(const Tensor& tensor, Stream&) override {
    return Start(tensor, [&](const Tensor& t) { return inner_->AllGather(t, stream_); });
  }
  std::unique_ptr<trainer::Work> Send(const Tensor& tensor, int peer, int channel, Stream&) override {
    return Start(tensor, [&](const Tensor& t) { return inner_->Send(t, peer, channel, stream_); });
  }
  std::unique_ptr<trainer::Work> Recv(const Tensor& tensor, int peer, int channel, Stream&) override {
    return Start(tensor, [&](const Tensor& t) { return inner_->Recv(t, peer, channel, stream_); });
  }
  void Barrier() override { inner_->Barrier(); }

 private:
  std::unique_ptr<trainer::Work> Start(
      const Tensor& tensor, const std::function<std::unique_ptr<trainer::Work>(const Tensor&)>& start) {
    return std::make_unique<FacadeWork>(device_, stream_, tensor, start);
  }

  Device& device_;
  Stream& stream_;
  std::unique_ptr<trainer::Communicator> inner_;
  void* const staging_;
  const std::int64_t bytes_;
};

class FacadeWorld final : public trainer::CommWorld {
 public:
  // `inner` is a world of the device.
  FacadeWorld(std::unique_ptr<Device> device, std::unique_ptr<trainer::CommWorld> inner)
      : device_(std::move(device)), stream_(device_->CreateStream()), inner_(std::move(inner)) {}

  std::unique_ptr<trainer::Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                                     const Tensor& staging) override {
    Tensor remote = staging;
    const bool present = staging.data != nullptr && staging.Bytes() > 0;
    if (present) remote.data = device_->Allocate(staging.Bytes());
    return std::make_unique<FacadeCommunicator>(*device_, *stream_, inner_->CreateGroup(name, ranks, remote),
                                                present ? remote.data : nullptr, staging.Bytes());
  }

 private:
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_;
  const std::unique_ptr<trainer::CommWorld> inner_;
};

}  // namespace autocfg
