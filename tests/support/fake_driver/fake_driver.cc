// Replaces NVIDIA's driver (libcuda.so.1) if there is none, as far as cuDNN uses it to build plans for a
// described GPU. There is no device. Every kernel can be loaded, except as many as the test specifies; none
// can run. Loading this library makes it the driver of the process, by its name. The types are those of
// cuda.h at the ABI level; the real functions have more parameters, which are ignored here.
#include <cstdint>

namespace {

using Result = int;
constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100;

int loads_to_refuse = 0;
Result why_refused = kSuccess;

// Handles are never dereferenced.
Result Give(void** handle) {
  static std::intptr_t last = 0;
  *handle = reinterpret_cast<void*>(++last);  // NOLINT(performance-no-int-to-ptr): opaque
  return kSuccess;
}

Result Tell(Result result, const char** text) {
  *text = result == kOutOfMemory ? "out of memory" : "an error of a driver that is not there";
  return kSuccess;
}

}  // namespace

extern "C" {

Result cuInit(unsigned) { return kNoDevice; }
Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
Result cuGetErrorName(Result result, const char** text) { return Tell(result, text); }
Result cuGetErrorString(Result result, const char** text) { return Tell(result, text); }

Result cuLibraryLoadData(void** library, ...) {
  if (loads_to_refuse > 0) {
    --loads_to_refuse;
    return why_refused;
  }
  return Give(library);
}
void AutocfgRefuseLoads(int count, int why) {
  loads_to_refuse = count;
  why_refused = why;
}

Result cuLibraryUnload(void*) { return kSuccess; }
Result cuLibraryGetKernel(void** kernel, ...) { return Give(kernel); }
Result cuLibraryGetModule(void** module, ...) { return Give(module); }
Result cuKernelGetFunction(void** function, ...) { return Give(function); }
Result cuKernelSetAttribute(...) { return kSuccess; }
Result cuFuncSetAttribute(...) { return kSuccess; }

// Functions that need a device. cuDNN accepts the driver only if all of these exist.
#define AUTOCFG_NO_DEVICE(name) \
  Result name() { return kNoDevice; }
AUTOCFG_NO_DEVICE(cuCtxGetCurrent)
AUTOCFG_NO_DEVICE(cuCtxGetLimit)
AUTOCFG_NO_DEVICE(cuCtxPopCurrent)
AUTOCFG_NO_DEVICE(cuCtxPushCurrent)
AUTOCFG_NO_DEVICE(cuDeviceGet)
AUTOCFG_NO_DEVICE(cuDeviceGetCount)
AUTOCFG_NO_DEVICE(cuKernelGetAttribute)
AUTOCFG_NO_DEVICE(cuLaunchCooperativeKernel)
AUTOCFG_NO_DEVICE(cuLaunchKernel)
AUTOCFG_NO_DEVICE(cuLaunchKernelEx)
AUTOCFG_NO_DEVICE(cuLibraryEnumerateKernels)
AUTOCFG_NO_DEVICE(cuLibraryGetKernelCount)
AUTOCFG_NO_DEVICE(cuLibraryLoadFromFile)
AUTOCFG_NO_DEVICE(cuLinkAddData)
AUTOCFG_NO_DEVICE(cuLinkComplete)
AUTOCFG_NO_DEVICE(cuLinkCreate)
AUTOCFG_NO_DEVICE(cuLinkDestroy)
AUTOCFG_NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
AUTOCFG_NO_DEVICE(cuStreamGetCtx)
#undef AUTOCFG_NO_DEVICE

}  // extern "C"
