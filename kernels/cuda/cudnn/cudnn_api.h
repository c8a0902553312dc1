// The cuDNN functions that the engine calls. The library is opened at first use, at run time. Building needs
// only the headers; running needs cuDNN only for attention on it. cuDNN opens further libraries in its own
// directory. Thread-safe.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <string>

#include "kernels/cuda/device/loaded_library.h"

namespace autocfg::cuda {

inline constexpr char kCudnnLibrary[] = "libcudnn.so.9";
static_assert(CUDNN_MAJOR == 9, "kCudnnLibrary is that of other headers");

// The functions, named without the prefix "cudnn".
struct CudnnApi {
  decltype(&cudnnGetVersion) get_version = nullptr;
  decltype(&cudnnGetErrorString) get_error_string = nullptr;
  decltype(&cudnnGetLastErrorString) get_last_error_string = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
};

// Throws LibraryMissing if a function is missing, or if the version's major number differs from the headers'.
CudnnApi FindCudnn(const SymbolSource& source);

// Returns the functions of the library that the environment variable AUTOCFG_CUDNN_LIBRARY names, else of
// kCudnnLibrary as the dynamic loader finds it. Throws LibraryMissing, with one line that names cuDNN, if it
// is absent or unusable. A library that was found stays loaded. Defined in cudnn_library.cc.
const CudnnApi& Cudnn();

// Returns "9.19.0" for a version as cudnnGetVersion reports it.
std::string CudnnVersionText(std::size_t version);

}  // namespace autocfg::cuda
