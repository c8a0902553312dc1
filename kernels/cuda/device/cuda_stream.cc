#include "kernels/cuda/device/cuda_stream.h"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "kernels/cuda/device/cuda_error.h"

namespace autocfg::cuda {

namespace {

constexpr std::chrono::milliseconds kHookEvery{1};

struct Hook {
  std::function<void()> call;  // empty: none is set
  bool often = false;
};

Hook& HostWaitHook() {
  thread_local Hook hook;
  return hook;
}

// Polls `query` until it no longer reports that the device is busy.
template <typename Query>
void Poll(const Query& query) {
  auto called = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady) return Check(status, "the work on a stream");
    (void)cudaGetLastError();  // busy is not an error, but the next call would report it
    const auto now = std::chrono::steady_clock::now();
    if (HostWaitHook().often || now - called > kHookEvery) {
      HostWaitHook().call();
      called = now;
    }
    std::this_thread::yield();
  }
}

}  // namespace

CudaStream::CudaStream() {
  Check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "creating a stream");
}

// fails only if the device is already lost
CudaStream::~CudaStream() { (void)cudaStreamDestroy(handle_); }

void CudaStream::Synchronize() {
  if (!HostWaitHook().call) return Check(cudaStreamSynchronize(handle_), "the work on a stream");
  Poll([this] { return cudaStreamQuery(handle_); });
}

void WaitForEvent(cudaEvent_t event) {
  if (!HostWaitHook().call) return Check(cudaEventSynchronize(event), "the work before an event");
  Poll([event] { return cudaEventQuery(event); });
}

void SetHostWaitHook(std::function<void()> hook, bool often) { HostWaitHook() = {std::move(hook), often}; }

cudaStream_t HandleOf(Stream& stream) {
  auto* ours = dynamic_cast<CudaStream*>(&stream);
  if (ours == nullptr) throw std::logic_error("a stream of another device was given to the CUDA device");
  return ours->handle();
}

}  // namespace autocfg::cuda
