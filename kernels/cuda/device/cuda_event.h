// CUDA events: points in a stream that other streams and the host wait for, and that times are taken between.
// Functions throw DeviceError. One rank, one thread: the thread whose current GPU is the rank's.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "kernels/cuda/device/cuda_error.h"

namespace autocfg::cuda {

inline void RecordEvent(cudaEvent_t event, cudaStream_t stream) {
  Check(cudaEventRecord(event, stream), "recording an event");
}

// An event that takes the time.
class TimedEvent {
 public:
  TimedEvent() { Check(cudaEventCreate(&handle_), "creating an event"); }
  ~TimedEvent() { (void)cudaEventDestroy(handle_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  cudaEvent_t handle() const { return handle_; }
  void Record(cudaStream_t stream) { RecordEvent(handle_, stream); }

 private:
  cudaEvent_t handle_ = nullptr;
};

// Returns the seconds from `start` to `end`, by the device's own clock. Requires that both are complete.
inline double SecondsBetween(const TimedEvent& start, const TimedEvent& end) {
  float milliseconds = 0;
  Check(cudaEventElapsedTime(&milliseconds, start.handle(), end.handle()), "reading an event");
  return static_cast<double>(milliseconds) / 1e3;
}

// Events that only order work, to be used again.
class EventPool {
 public:
  EventPool() = default;
  ~EventPool() {
    for (cudaEvent_t event : free_) (void)cudaEventDestroy(event);
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Returns an event after everything on the stream so far. The caller gives it back.
  cudaEvent_t Record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    if (free_.empty()) {
      Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
      free_.push_back(event);  // owned if recording fails
    }
    event = free_.back();
    RecordEvent(event, stream);
    free_.pop_back();
    return event;
  }
  // A wait that was issued refers to the event as recorded then, so the event can be recorded again.
  void GiveBack(cudaEvent_t event) noexcept { free_.push_back(event); }

 private:
  std::vector<cudaEvent_t> free_;
};

}  // namespace autocfg::cuda
