// ThreadSanitizer's options for every program of such a build; TSAN_OPTIONS in the environment adds to them.

// Named by no header: ThreadSanitizer looks for them.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_options() {
  // What the system's libraries, built without it, do through functions that it does see (memcpy, delete,
  // sendmsg) is not looked at: gRPC's core hands its buffers from thread to thread by atomics of its own,
  // which it does not see.
  return "ignore_noninstrumented_modules=1";
}

extern "C" const char* __tsan_default_suppressions() {
  // gRPC deletes a callback's call when a count of its users is at nothing. Part of the counting is in its
  // library, and is not seen.
  // What an interceptor is given is made on one of its threads and used on another; how it gets there is not
  // seen either.
  return "race:ServerCallbackUnaryImpl::CallOnDone\n"
         "race:grpc::internal::InterceptorBatchMethodsImpl\n";
}
