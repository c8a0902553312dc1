// The NCCL functions that the engine calls. The library is opened at run time, at the first use: a build
// needs only its headers, and NCCL itself is needed only if ranks communicate through it. Thread-safe.
#pragma once

#include <nccl.h>

#include "kernels/cuda/device/loaded_library.h"

namespace autocfg::trainer {

inline constexpr char kNcclLibrary[] = "libnccl.so.2";
static_assert(NCCL_MAJOR == 2, "kNcclLibrary does not match the headers");

struct NcclApi {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) recv = nullptr;
};

// Throws cuda::LibraryMissing if a function is missing or if the library's major version differs from the
// headers'.
NcclApi FindNccl(const cuda::SymbolSource& source);

// Returns the functions of the library named by the environment variable AUTOCFG_NCCL_LIBRARY, or else of
// kNcclLibrary as the dynamic loader finds it. Throws NotSupported if no usable library is found; its message
// is one line and says what to do. A successful result is cached.
const NcclApi& Nccl();

}  // namespace autocfg::trainer
