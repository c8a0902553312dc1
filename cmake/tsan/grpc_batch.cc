// Tells ThreadSanitizer that what gRPC calls when a batch is done comes after what began the batch. Its core
// orders the two by atomics that are not seen.
//
// Linked into every program of such a build, as absl_mutex.cc is. Only batches of the callback interface are
// looked at: their tags begin with the function to call, an inline one of gRPC's headers, and so the
// program's own; other tags begin with a table of virtual functions.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The bounds of the program's code, by the linker.
extern "C" const char __executable_start;
extern "C" const char etext;

namespace {

using Functor = grpc_completion_queue_functor;
using Run = void (*)(Functor*, int);

// Each function that a batch has called at its end, and what is called in its place. The headers have one for
// each of two kinds of tags.
constexpr int kFunctions = 4;
std::array<std::atomic<Run>, kFunctions> functions;

template <int kIndex>
void Done(Functor* functor, int ok) {
  __tsan_acquire(functor);
  const Run run = functions[kIndex].load(std::memory_order_relaxed);
  functor->functor_run = run;
  run(functor, ok);
}
constexpr std::array<Run, kFunctions> kInPlace = {Done<0>, Done<1>, Done<2>, Done<3>};

Run InPlaceOf(Run run) {
  for (int i = 0; i < kFunctions; ++i) {
    Run known = nullptr;
    if (functions[i].compare_exchange_strong(known, run, std::memory_order_relaxed) || known == run)
      return kInPlace[i];
  }
  std::fputs("cmake/tsan/grpc_batch.cc: more kinds of callbacks than it has room for; raise kFunctions\n",
             stderr);
  std::abort();
}

bool IsFunctor(const void* tag) {
  if (tag == nullptr) return false;
  std::uintptr_t first = 0;
  std::memcpy(&first, tag, sizeof(first));
  return first >= reinterpret_cast<std::uintptr_t>(&__executable_start) &&
         first < reinterpret_cast<std::uintptr_t>(&etext);
}

}  // namespace

extern "C" grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                                 void* reserved) {
  using Start = grpc_call_error(grpc_call*, const grpc_op*, size_t, void*, void*);
  static Start* const start = reinterpret_cast<Start*>(dlsym(RTLD_NEXT, "grpc_call_start_batch"));
  if (start == nullptr) {
    std::fputs(
        "cmake/tsan/grpc_batch.cc: no grpc_call_start_batch in libgrpc; adapt this file to that version of "
        "gRPC\n",
        stderr);
    std::abort();
  }
  if (!IsFunctor(tag)) return start(call, ops, count, tag, reserved);
  auto* const functor = static_cast<Functor*>(tag);
  const Run run = functor->functor_run;
  functor->functor_run = InPlaceOf(run);
  __tsan_release(functor);
  const grpc_call_error error = start(call, ops, count, tag, reserved);
  if (error != GRPC_CALL_OK) functor->functor_run = run;
  return error;
}
