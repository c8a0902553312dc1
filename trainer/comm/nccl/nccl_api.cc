#include "trainer/comm/nccl/nccl_api.h"

#include <fmt/format.h>

#include <cstdlib>

#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

NcclApi Open() {
  const char* what = "NCCL is not installed on this machine";
  try {
    cuda::LoadedLibrary library(cuda::LibraryName(std::getenv("AUTOCFG_NCCL_LIBRARY"), kNcclLibrary));
    what = "the NCCL library on this machine does not suit this build";
    const NcclApi api = FindNccl(library);
    library.Stay();
    return api;
  } catch (const cuda::LibraryMissing& missing) {
    throw NotSupported(
        fmt::format("{}: {}; install NCCL {}, or set AUTOCFG_GPU_TRANSPORT=host for host communication", what,
                    missing.what(), NCCL_MAJOR));
  }
}

}  // namespace

NcclApi FindNccl(const cuda::SymbolSource& source) {
  NcclApi api;
  cuda::FindFunction(source, "ncclGetVersion", api.get_version);
  int version = 0;
  const ncclResult_t result = api.get_version(&version);
  const int major = version / (version < 10000 ? 1000 : 10000);  // NCCL 2.9 changed the version encoding
  if (result != ncclSuccess || major != NCCL_MAJOR) {
    throw cuda::LibraryMissing(
        fmt::format("{} is NCCL {}, but this build needs version {}", source.name(), major, NCCL_MAJOR));
  }
  cuda::FindFunction(source, "ncclGetErrorString", api.get_error_string);
  cuda::FindFunction(source, "ncclGetLastError", api.get_last_error);
  cuda::FindFunction(source, "ncclGetUniqueId", api.get_unique_id);
  cuda::FindFunction(source, "ncclCommInitRankConfig", api.comm_init_rank_config);
  cuda::FindFunction(source, "ncclCommGetAsyncError", api.comm_get_async_error);
  cuda::FindFunction(source, "ncclCommFinalize", api.comm_finalize);
  cuda::FindFunction(source, "ncclCommDestroy", api.comm_destroy);
  cuda::FindFunction(source, "ncclCommAbort", api.comm_abort);
  cuda::FindFunction(source, "ncclAllReduce", api.all_reduce);
  cuda::FindFunction(source, "ncclReduceScatter", api.reduce_scatter);
  cuda::FindFunction(source, "ncclAllGather", api.all_gather);
  cuda::FindFunction(source, "ncclSend", api.send);
  cuda::FindFunction(source, "ncclRecv", api.recv);
  return api;
}

const NcclApi& Nccl() {
  static const NcclApi api = Open();  // a failure throws, so it is not cached: the next call tries again
  return api;
}

}  // namespace autocfg::trainer
