// Opens the machine's cuDNN. Tests of cuDNN failures define their own Cudnn().
#include <fmt/format.h>

#include <cstdlib>

#include "kernels/cuda/cudnn/cudnn_api.h"

namespace autocfg::cuda {
namespace {

CudnnApi Open() {
  const char* what = "cuDNN is not on this machine";
  try {
    LoadedLibrary library(LibraryName(std::getenv("AUTOCFG_CUDNN_LIBRARY"), kCudnnLibrary));
    what = "the cuDNN of this machine does not fit this build";
    const CudnnApi api = FindCudnn(library);
    library.Stay();
    return api;
  } catch (const LibraryMissing& missing) {
    throw LibraryMissing(fmt::format("{}: {}", what, missing.what()));
  }
}

}  // namespace

const CudnnApi& Cudnn() {
  static const CudnnApi api = Open();  // after a failure, the next call tries again
  return api;
}

}  // namespace autocfg::cuda
