// ThreadSanitizer's options for every such build; TSAN_OPTIONS in the environment adds to them.

// No header declares these; ThreadSanitizer looks them up.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_options() {
  // Ignores what uninstrumented system libraries do through intercepted functions (memcpy, delete, sendmsg).
  // gRPC's core passes its buffers between threads by atomics that ThreadSanitizer does not see.
  return "ignore_noninstrumented_modules=1";
}

extern "C" const char* __tsan_default_suppressions() {
  // gRPC deletes a callback's call when its user count is zero. Part of the counting is in its library and is
  // not seen. An interceptor's data are created on one of gRPC's threads and used on another; the transfer is
  // not seen either.
  return "race:ServerCallbackUnaryImpl::CallOnDone\n"
         "race:grpc::internal::InterceptorBatchMethodsImpl\n";
}
