// ThreadSanitizer's options for every program of such a build; TSAN_OPTIONS in the environment adds to them.

// Named by no header: ThreadSanitizer looks for it.
extern "C" const char* __tsan_default_options();

extern "C" const char* __tsan_default_options() {
  // What the system's libraries, built without it, do through functions that it does see (memcpy, delete,
  // sendmsg) is not looked at: gRPC's core hands its buffers from thread to thread by atomics of its own,
  // which it does not see.
  return "ignore_noninstrumented_modules=1";
}
