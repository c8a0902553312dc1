// Times work on a GPU's stream by events. One rank, one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cuda/device/cuda_event.h"
#include "kernels/cuda/device/cuda_stream.h"

namespace autocfg {

// Seconds of one run, over many.
struct OpSeconds {
  double median = 0;
  double least = 0;
  int runs = 0;
};

// Times `work`, issued `runs` times after a warm-up of at least `warm_up`, which lets an idle GPU's clocks
// rise. `prepare` is issued before every run and is not timed.
inline OpSeconds TimeOnStream(Stream& stream, int runs, std::chrono::milliseconds warm_up,
                              const std::function<void()>& work, const std::function<void()>& prepare = {}) {
  constexpr int kLeastWarmUps = 5;
  const auto begin = std::chrono::steady_clock::now();
  for (int run = 0; run < kLeastWarmUps || std::chrono::steady_clock::now() - begin < warm_up; ++run) {
    if (prepare) prepare();
    work();
    stream.Synchronize();
  }
  struct Events {
    cuda::TimedEvent start, end;
  };
  std::vector<std::unique_ptr<Events>> events;
  const cudaStream_t handle = cuda::HandleOf(stream);
  for (int run = 0; run < runs; ++run) {
    if (prepare) prepare();
    events.push_back(std::make_unique<Events>());
    events.back()->start.Record(handle);
    work();
    events.back()->end.Record(handle);
  }
  stream.Synchronize();
  std::vector<double> seconds;
  for (const auto& run : events) seconds.push_back(cuda::SecondsBetween(run->start, run->end));
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  return {.median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2, .least = seconds.front(), .runs = runs};
}

}  // namespace autocfg
