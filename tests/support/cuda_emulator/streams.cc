#include "tests/support/cuda_emulator/streams.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulator/emulator.h"
#include "tests/support/cuda_emulator/launches/faults.h"

// A point in a stream, as one call of cudaEventRecord made it.
struct EmulatedPoint {
  bool passed = false;
  std::chrono::steady_clock::time_point at;
};

struct EmulatedEvent {
  std::shared_ptr<EmulatedPoint> point;  // null: never recorded
  int asked = 0;                         // queries that found it pending
};

struct EmulatedStream {
  struct Item {
    std::function<void()> work;  // empty: waits for the point
    std::shared_ptr<const EmulatedPoint> after;
  };
  std::deque<Item> items;
  bool has_work = false;
  int asked = 0;
};

namespace autocfg::cuda_emulator {
namespace {

constexpr int kPendingQueries = 2;  // of an event or stream, before its work is done

struct Streams {
  Drain drain = Drain::kAtOnce;
  std::mt19937_64 random;
  std::vector<cudaStream_t> all;
};

Streams FromEnvironment() {
  Streams streams;
  const char* const set = std::getenv("AUTOCFG_EMULATED_DRAIN");
  const std::string value = set == nullptr ? "" : set;
  if (value.empty()) return streams;
  if (value == "late") {
    streams.drain = Drain::kLate;
  } else if (value.starts_with("random")) {
    streams.drain = Drain::kRandom;
    if (value.size() > 7) streams.random.seed(std::strtoull(value.c_str() + 7, nullptr, 10));
  } else {
    Fail("AUTOCFG_EMULATED_DRAIN is '" + value + "'; expected late, random or random:SEED");
  }
  return streams;
}

Streams& All() {
  static Streams& streams = *new Streams(FromEnvironment());
  return streams;
}

bool MayRun(const EmulatedStream& stream) {
  return !Hangs() && !stream.items.empty() &&
         (stream.items.front().work || stream.items.front().after->passed);
}

void RunFront(EmulatedStream& stream) {
  const EmulatedStream::Item item = std::move(stream.items.front());
  stream.items.pop_front();
  if (item.work) item.work();
}

// As the host waits for a device that never answers.
void WaitWhileHanging() {
  while (Hangs()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Runs one item of the newest stream that can go on.
void RunAny(const char* waiting_for) {
  std::vector<cudaStream_t>& all = All().all;
  const auto next = std::find_if(all.rbegin(), all.rend(), [](cudaStream_t s) { return MayRun(*s); });
  if (next == all.rend()) Fail(std::string(waiting_for) + " waits for an event that never comes");
  RunFront(**next);
}

void RunSome() {
  Streams& streams = All();
  if (streams.drain == Drain::kAtOnce) {
    for (cudaStream_t stream : streams.all) {
      while (MayRun(*stream)) RunFront(*stream);
    }
  } else if (streams.drain == Drain::kRandom) {
    std::vector<cudaStream_t> able;
    for (;;) {
      able.clear();
      std::copy_if(streams.all.begin(), streams.all.end(), std::back_inserter(able),
                   [](cudaStream_t s) { return MayRun(*s); });
      const std::uint64_t drawn = streams.random();
      if (able.empty() || drawn % 2 == 0) return;
      RunFront(*able[drawn / 2 % able.size()]);
    }
  }
}

void Put(cudaStream_t stream, EmulatedStream::Item item) {
  stream->items.push_back(std::move(item));
  RunSome();
}

}  // namespace

void SetDrain(Drain drain, std::uint64_t seed) {
  for (cudaStream_t stream : All().all) {
    if (!stream->items.empty()) Fail("the order of streams was changed while they have work");
  }
  All().drain = drain;
  All().random.seed(seed);
}

cudaStream_t CreateStream() {
  All().all.push_back(new EmulatedStream);
  return All().all.back();
}

void DestroyStream(cudaStream_t stream) {
  Finish(stream);
  std::erase(All().all, stream);
  delete stream;
}

void Issue(cudaStream_t stream, std::function<void()> given) {
  std::function<void()> work = [given = std::move(given)] {
    if (StickyError() == cudaSuccess && !Hangs()) given();
  };
  if (stream == nullptr) return work();
  stream->has_work = true;
  stream->asked = 0;
  Put(stream, {std::move(work), nullptr});
}

bool HasWork(cudaStream_t stream) { return stream->has_work; }

void Finish(cudaStream_t stream) {
  if (stream == nullptr) return;
  while (!stream->items.empty()) {
    WaitWhileHanging();
    if (MayRun(*stream)) {
      RunFront(*stream);
    } else {
      RunAny("a stream");
    }
  }
  stream->has_work = false;
}

void FinishAll() {
  for (cudaStream_t stream : All().all) Finish(stream);
}

bool Query(cudaStream_t stream) {
  RunSome();
  if (stream == nullptr) return true;
  if (Hangs()) return false;
  if (!stream->items.empty() && stream->asked++ < kPendingQueries) return false;
  Finish(stream);
  return true;
}

bool Query(cudaEvent_t event) {
  RunSome();
  if (Hangs()) return event->point == nullptr || event->point->passed;
  if (event->point != nullptr && !event->point->passed && event->asked++ < kPendingQueries) return false;
  Finish(event);
  return true;
}

cudaEvent_t CreateEvent() { return new EmulatedEvent; }
void DestroyEvent(cudaEvent_t event) { delete event; }

void Record(cudaEvent_t event, cudaStream_t stream) {
  event->point = std::make_shared<EmulatedPoint>();
  event->asked = 0;
  const auto pass = [point = event->point] {
    point->passed = true;
    point->at = std::chrono::steady_clock::now();
  };
  if (stream == nullptr) return pass();
  Put(stream, {pass, nullptr});
}

void Await(cudaStream_t stream, cudaEvent_t event) {
  if (stream == nullptr || event->point == nullptr) return;
  Put(stream, {nullptr, event->point});
}

void Finish(cudaEvent_t event) {
  while (event->point != nullptr && !event->point->passed) {
    WaitWhileHanging();
    RunAny("the host");
  }
}

std::chrono::steady_clock::time_point TimeOf(cudaEvent_t event) {
  return event->point == nullptr ? std::chrono::steady_clock::time_point() : event->point->at;
}

}  // namespace autocfg::cuda_emulator
