// The functions of cuDNN that the engine calls. The library is opened when first asked for, at run time: the
// headers are needed to build, cuDNN itself only where attention is to run on it. It opens libraries of its
// own, which lie beside it. Thread-safe.
#pragma once

#include <cudnn.h>

#include <string>

#include "kernels/cuda/loaded_library.h"

namespace autocfg::cuda {

inline constexpr char kCudnnLibrary[] = "libcudnn.so.9";
static_assert(CUDNN_MAJOR == 9, "kCudnnLibrary is that of other headers");

// As their names are without "cudnn".
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

// Throws LibraryMissing where a function is not there, and where the version is not one of the headers' major
// number.
CudnnApi FindCudnn(const SymbolSource& source);

// Those of the file that AUTOCFG_CUDNN_LIBRARY of the environment names, else of kCudnnLibrary, wherever the
// dynamic loader finds it. Throws LibraryMissing, in one line that names cuDNN, where there is none that can
// be used. What was found once stays. In cudnn_library.cc.
const CudnnApi& Cudnn();

}  // namespace autocfg::cuda
