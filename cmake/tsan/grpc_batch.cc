// Tells ThreadSanitizer that gRPC's callback at the end of a batch happens after the start of the batch.
// gRPC's core orders the two by atomics that ThreadSanitizer does not see.
//
// Linked into every ThreadSanitizer build, like absl_mutex.cc. Handles only batches of the callback
// interface. Their tags begin with the function to call, which is inline in gRPC's headers and so part of the
// program. Other tags begin with a vtable.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Bounds of the program's code, defined by the linker.
extern "C" const char __executable_start;
extern "C" const char etext;

namespace {

using Functor = grpc_completion_queue_functor;
using Run = void (*)(Functor*, int);

// The callback functions of batches seen so far; each has a replacement. The headers define one for each of
// two kinds of tags.
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
