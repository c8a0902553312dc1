// Runs tests whose tensors are in host memory on a world of a device that the host cannot access. Every
// tensor is copied to the device, on its stream, and back once its operation is complete. One rank, one
// thread.
#pragma once

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "trainer/comm/comm_world.h"

namespace autocfg {

class FacadeWork final : public trainer::Work {
 public:
  FacadeWork(Device& device, Stream& stream, trainer::Communicator& inner, trainer::CollectiveCall call)
      : device_(device), stream_(stream), tensor_(Copied(call.whole)) {
    const Tensor host = call.whole, part = call.part;
    const char* const begin = host.As<char>();
    const bool inside = part.data != nullptr && part.As<char>() >= begin &&
                        part.As<char>() + part.Bytes() <= begin + host.Bytes();
    call.whole = tensor_.remote;
    if (inside) {
      call.part.data = tensor_.remote.As<char>() + (part.As<char>() - begin);
    } else if (part.IsPresent()) {
      part_ = Copied(part);
      call.part = part_.remote;
    }
    try {
      work_ = inner.Run(call, stream_);
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
    for (const Copy& copy : {tensor_, part_}) {
      if (copy.Exists()) device_.CopyToHost(copy.host.data, copy.remote.data, copy.host.Bytes(), stream_);
    }
    stream_.Synchronize();
    complete_ = true;
  }
  bool Test() override {
    if (!complete_ && work_->Test()) Wait();
    return complete_;
  }

 private:
  struct Copy {
    Tensor host, remote;
    bool Exists() const { return host.IsPresent() && host.Bytes() > 0; }
  };

  Copy Copied(const Tensor& host) {
    Copy copy{host, host};
    if (!copy.Exists()) return copy;
    copy.remote.data = device_.Allocate(host.Bytes());
    device_.CopyFromHost(copy.remote.data, host.data, host.Bytes(), stream_);
    return copy;
  }
  void Release() {
    for (const Copy& copy : {tensor_, part_}) {
      if (copy.Exists()) device_.Free(copy.remote.data, copy.host.Bytes());
    }
  }

  Device& device_;
  Stream& stream_;
  Copy tensor_, part_;
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
  std::unique_ptr<trainer::Work> Run(const trainer::CollectiveCall& call, Stream&) override {
    return std::make_unique<FacadeWork>(device_, stream_, *inner_, call);
  }
  void Barrier() override { inner_->Barrier(); }

 private:
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
