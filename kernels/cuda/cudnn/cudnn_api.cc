#include "kernels/cuda/cudnn/cudnn_api.h"

#include <fmt/format.h>

#include <cstddef>

namespace autocfg::cuda {
namespace {

constexpr std::size_t kMajor = 10000;  // version numbering since cuDNN 9; older versions have smaller numbers

}  // namespace

CudnnApi FindCudnn(const SymbolSource& source) {
  CudnnApi api;
  FindFunction(source, "cudnnGetVersion", api.get_version);
  const std::size_t version = api.get_version();
  if (version / kMajor != CUDNN_MAJOR) {
    throw LibraryMissing(fmt::format("{} is cuDNN {}, and this build needs version {}", source.name(),
                                     CudnnVersionText(version), CUDNN_MAJOR));
  }
  FindFunction(source, "cudnnGetErrorString", api.get_error_string);
  FindFunction(source, "cudnnGetLastErrorString", api.get_last_error_string);
  FindFunction(source, "cudnnCreate", api.create);
  FindFunction(source, "cudnnDestroy", api.destroy);
  FindFunction(source, "cudnnSetStream", api.set_stream);
  FindFunction(source, "cudnnBackendCreateDescriptor", api.create_descriptor);
  FindFunction(source, "cudnnBackendDestroyDescriptor", api.destroy_descriptor);
  FindFunction(source, "cudnnBackendSetAttribute", api.set_attribute);
  FindFunction(source, "cudnnBackendGetAttribute", api.get_attribute);
  FindFunction(source, "cudnnBackendFinalize", api.finalize);
  FindFunction(source, "cudnnBackendExecute", api.execute);
  return api;
}

std::string CudnnVersionText(std::size_t version) {
  const std::size_t major = version < 90000 ? 1000 : 10000;  // cuDNN 9 changed the version numbering
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

}  // namespace autocfg::cuda
