#include "tests/support/cuda_emulator/emulator.h"

#include <link.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/cuda_emulator/device_memory.h"
#include "tests/support/cuda_emulator/fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace autocfg::cuda_emulator {
namespace {

constexpr int kLanes = 32;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kMostShared = std::size_t{256} << 10;

struct Copy {
  void* to;
  const void* from;  // null: zeros
};

void Make(const Copy& copy) {
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, 16);
  } else {
    std::memcpy(copy.to, copy.from, 16);
  }
}

struct Thread {
  Fiber fiber;
  uint3 index;
  int id = 0;                               // in the block
  const char* waits_for = nullptr;          // null: may run
  unsigned mask = 0;                        // the lanes that it waits for
  std::deque<std::vector<Copy>> copies{1};  // by group; the last one is not committed
};

// Lanes of a warp that wait for each other.
struct Meeting {
  unsigned mask = 0, arrived = 0;
  Combine combine = nullptr;
  void* brought[kLanes] = {};
};

// The state of the current launch; only one runs at a time.
struct State {
  Order order = Order::kForward;
  std::mt19937_64 random;
  bool reverse = false;                          // of this run, unless order is kShuffled
  std::vector<std::unique_ptr<Thread>> threads;  // reused by later launches
  std::vector<unsigned char> may_run;            // by thread of the block
  std::vector<std::vector<Meeting>> meetings;    // by warp of the block
  int block_threads = 0;
  Thread* running = nullptr;
  int at_barrier = 0;
  std::vector<std::span<unsigned char>> static_shared;
  std::size_t shared_bytes = 0;
  alignas(1024) unsigned char shared[kGuardBytes + kMostShared + kGuardBytes];
};
State state;

std::string Place(uint3 at) {
  return '(' + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ')';
}

// Calls body(i) for n items in the configured order.
template <typename Body>
void InOrder(std::int64_t n, const Body& body) {
  if (state.order != Order::kShuffled) {
    for (std::int64_t i = 0; i < n; ++i) body(state.reverse ? n - 1 - i : i);
    return;
  }
  std::vector<std::int64_t> sequence(static_cast<std::size_t>(n));
  std::iota(sequence.begin(), sequence.end(), std::int64_t{0});
  std::shuffle(sequence.begin(), sequence.end(), state.random);
  for (const std::int64_t i : sequence) body(i);
}

// Static __shared__ variables are thread-local, and the shared libraries of emulated kernels have no other
// thread-local variables (see CMakeLists.txt). So the thread-local memory of such a library is all of its
// static shared memory.
int FindStaticShared(dl_phdr_info* info, std::size_t, void*) {
  const bool kernels =
      info->dlpi_name != nullptr && std::strstr(info->dlpi_name, "_emulated_kernels.so") != nullptr;
  if (!kernels || info->dlpi_tls_data == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
    state.static_shared.emplace_back(static_cast<unsigned char*>(info->dlpi_tls_data),
                                     info->dlpi_phdr[i].p_memsz);
  }
  return 0;
}

void PoisonShared() {
  std::memset(state.shared, kPoison, 2 * kGuardBytes + state.shared_bytes);
  for (const std::span<unsigned char> memory : state.static_shared)
    std::fill(memory.begin(), memory.end(), kPoison);
}

void CheckShared() {
  if (!IsPoison(state.shared, kGuardBytes)) Fail("a block wrote before its dynamic shared memory");
  if (!IsPoison(state.shared + kGuardBytes + state.shared_bytes, kGuardBytes)) {
    Fail("a block wrote beyond its " + std::to_string(state.shared_bytes) +
         " bytes of dynamic shared memory");
  }
}

[[noreturn]] void Deadlock() {
  std::string what = "threads wait for others that never come:";
  int ended = 0;
  std::map<std::string, int> waiting;  // number of threads by the call that they wait in
  for (int i = 0; i < state.block_threads; ++i) {
    const Thread& thread = *state.threads[static_cast<std::size_t>(i)];
    if (thread.fiber.done()) {
      ++ended;
      continue;
    }
    std::string name = thread.waits_for;
    if (thread.mask != 0) {
      char mask[32];
      std::snprintf(mask, sizeof(mask), " of the lanes %08x", thread.mask);
      name += mask;
    }
    ++waiting[name];
  }
  for (const auto& [name, count] : waiting) what += ' ' + std::to_string(count) + " in " + name + ',';
  Fail(what + ' ' + std::to_string(ended) + " have ended");
}

void RunThread(Thread& thread) {
  state.running = &thread;
  threadIdx = thread.index;
  thread.fiber.Resume();
  state.running = nullptr;
}

// Suspends the running thread until it is resumed.
void WaitFor(const char* what, unsigned mask) {
  Thread& self = *state.running;
  self.waits_for = what;
  self.mask = mask;
  state.may_run[static_cast<std::size_t>(self.id)] = 0;
  self.fiber.Yield();
}

void GoOn(int id) {
  Thread& thread = *state.threads[static_cast<std::size_t>(id)];
  thread.waits_for = nullptr;
  thread.mask = 0;
  state.may_run[static_cast<std::size_t>(id)] = 1;
}

void RunBlock(uint3 index, void (*body)(void*), void* argument) {
  blockIdx = index;
  state.at_barrier = 0;
  for (int i = 0; i < state.block_threads; ++i) {
    Thread& thread = *state.threads[static_cast<std::size_t>(i)];
    thread.copies.resize(1);
    thread.copies.front().clear();
    thread.fiber.Start(body, argument);
    GoOn(i);
  }
  for (std::vector<Meeting>& of_warp : state.meetings) of_warp.clear();
  PoisonShared();
  for (int left = state.block_threads; left > 0;) {
    bool ran = false;
    InOrder(state.block_threads, [&](std::int64_t i) {
      if (state.may_run[static_cast<std::size_t>(i)] == 0) return;
      Thread& thread = *state.threads[static_cast<std::size_t>(i)];
      RunThread(thread);
      ran = true;
      if (!thread.fiber.done()) return;
      state.may_run[static_cast<std::size_t>(i)] = 0;
      --left;
    });
    if (!ran) Deadlock();
  }
  CheckShared();
}

void RunGrid(const Geometry& g, void (*body)(void*), void* argument) {
  const std::int64_t x = g.grid.x, y = g.grid.y, z = g.grid.z;
  InOrder(x * y * z, [&](std::int64_t i) {
    RunBlock(
        {static_cast<unsigned>(i % x), static_cast<unsigned>(i / x % y), static_cast<unsigned>(i / x / y)},
        body, argument);
  });
  CheckDeviceMemory();
}

void Prepare(const Geometry& g) {
  if (state.running != nullptr) Fail("a kernel was started inside a kernel");
  if (g.shared_bytes > kMostShared)
    Fail("a block asks for " + std::to_string(g.shared_bytes) + " bytes of shared memory");
  state.static_shared.clear();
  dl_iterate_phdr(FindStaticShared, nullptr);
  gridDim = g.grid;
  blockDim = g.block;
  state.shared_bytes = g.shared_bytes;
  state.block_threads = static_cast<int>(g.block.x * g.block.y * g.block.z);
  const auto n = static_cast<std::size_t>(state.block_threads);
  while (state.threads.size() < n) state.threads.push_back(std::make_unique<Thread>());
  state.may_run.resize(n);
  state.meetings.resize((n + kLanes - 1) / kLanes);
  for (unsigned i = 0; i < n; ++i) {
    state.threads[i]->id = static_cast<int>(i);
    state.threads[i]->index = {i % g.block.x, i / g.block.x % g.block.y, i / g.block.x / g.block.y};
  }
}

}  // namespace

void SetOrder(Order order, std::uint64_t seed) {
  state.order = order;
  state.random.seed(seed);
}

Order OrderOfTests() {
  return std::getenv("AUTOCFG_EMULATED_DRAIN") == nullptr ? Order::kCompared : Order::kForward;
}

void RunKernel(const Geometry& geometry, void (*body)(void*), void* argument) {
  Prepare(geometry);
  state.reverse = state.order == Order::kReverse;
  if (state.order != Order::kCompared) {
    RunGrid(geometry, body, argument);
    return;
  }
  static auto& before = *new MemorySnapshot();  // never freed, to reuse its memory
  static auto& forward = *new MemorySnapshot();
  before.Take();
  RunGrid(geometry, body, argument);
  forward.Take();
  before.Restore();
  state.reverse = true;
  RunGrid(geometry, body, argument);
  if (const std::string difference = forward.Difference(); !difference.empty()) {
    Fail("the order of threads and blocks changes what the kernel computes: " + difference);
  }
}

void Fail(const std::string& what) {
  std::string where;
  if (state.running != nullptr) {
    where = "thread " + Place(state.running->index) + " of block " + Place(blockIdx) + ": ";
  } else if (state.block_threads > 0) {
    where = "block " + Place(blockIdx) + " of " + std::to_string(state.block_threads) + " threads: ";
  }
  std::fprintf(stderr, "CUDA emulator: %s%s\n", where.c_str(), what.c_str());
  std::abort();
}

unsigned char* DynamicShared() { return state.shared + kGuardBytes; }

int Lane() { return state.running->id % kLanes; }

bool ReadsFirst() { return !state.reverse; }

void JoinBlock() {
  if (++state.at_barrier < state.block_threads) {
    WaitFor("__syncthreads", 0);
    return;
  }
  state.at_barrier = 0;
  for (int i = 0; i < state.block_threads; ++i) {
    if (i != state.running->id) GoOn(i);
  }
}

void CopyAsync16(void* to, const void* from, bool valid) {
  const Copy copy{to, valid ? from : nullptr};
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(copy.from)) % 16 != 0) {
    Fail("cp.async: an address is not a multiple of 16");
  }
  if (state.reverse) {
    Make(copy);
  } else {
    state.running->copies.back().push_back(copy);
  }
}

void CommitCopies() { state.running->copies.emplace_back(); }

void WaitForCopies(int pending) {
  std::deque<std::vector<Copy>>& copies = state.running->copies;
  for (; copies.size() > static_cast<std::size_t>(pending) + 1; copies.pop_front()) {
    for (const Copy& copy : copies.front()) Make(copy);
  }
}

void JoinWarp(unsigned mask, const char* name, void* brought, Combine combine) {
  Thread& self = *state.running;
  const int lane = self.id % kLanes, first = self.id - lane;
  if ((mask >> lane & 1) == 0) Fail(std::string(name) + ": the lane is not in the mask that it names");
  if (first + static_cast<int>(std::bit_width(mask)) > state.block_threads)
    Fail(std::string(name) + ": the mask names lanes that the block does not have");
  std::vector<Meeting>& meetings = state.meetings[static_cast<std::size_t>(first / kLanes)];
  auto meeting = std::find_if(meetings.begin(), meetings.end(),
                              [&](const Meeting& m) { return m.mask == mask && m.combine == combine; });
  if (meeting == meetings.end())
    meeting =
        meetings.insert(meetings.end(), {.mask = mask, .arrived = 0, .combine = combine, .brought = {}});
  meeting->arrived |= 1u << lane;
  meeting->brought[lane] = brought;
  if (meeting->arrived != mask) {
    WaitFor(name, mask);
    return;
  }
  combine(meeting->brought, mask);
  meetings.erase(meeting);
  for (int i = 0; i < kLanes; ++i) {
    if (i != lane && (mask >> i & 1) != 0) GoOn(first + i);
  }
}

}  // namespace autocfg::cuda_emulator
