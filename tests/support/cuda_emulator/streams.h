// The order in which the work on emulated streams runs. Each stream is a queue. Work of one stream runs in
// order; an event orders it after work of another. Everything else is up to the device, so that correct host
// code gives the same results under every Drain. One thread of the operating system.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "tests/support/cuda_emulator/host_api.h"

namespace autocfg::cuda_emulator {

enum class Drain {
  kAtOnce,  // when it is issued
  kLate,    // when the host waits for it, and no earlier; of several streams, the newest first
  kRandom,  // some of it at each call, drawn from the seed
};

// Initially AUTOCFG_EMULATED_DRAIN says: "late", "random" or "random:SEED"; else kAtOnce. Aborts while work
// is left.
void SetDrain(Drain drain, std::uint64_t seed = 0);

cudaStream_t CreateStream();
void DestroyStream(cudaStream_t stream);  // finishes its work

// Puts work on a stream. On the null stream, it runs at once.
void Issue(cudaStream_t stream, std::function<void()> work);
// Returns whether work was issued since the host last waited for the stream, even if it has run.
bool HasWork(cudaStream_t stream);

// The host waits. Aborts if streams wait for each other in a circle.
void Finish(cudaStream_t stream);
void FinishAll();
// Returns whether the work is done. If it is not, it is at one of the next calls: a host that polls goes on.
bool Query(cudaStream_t stream);
bool Query(cudaEvent_t event);

cudaEvent_t CreateEvent();
void DestroyEvent(cudaEvent_t event);
void Record(cudaEvent_t event, cudaStream_t stream);
void Await(cudaStream_t stream, cudaEvent_t event);  // what was recorded before the call; nothing if never
void Finish(cudaEvent_t event);
std::chrono::steady_clock::time_point TimeOf(cudaEvent_t event);  // when the last record ran

}  // namespace autocfg::cuda_emulator
