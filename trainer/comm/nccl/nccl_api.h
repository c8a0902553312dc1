// The functions of NCCL that the engine calls. The library is opened when first asked for, at run time: the
// headers are needed to build, NCCL itself only where ranks talk by it. Thread-safe.
#pragma once

#include <nccl.h>

#include "kernels/cuda/loaded_library.h"

namespace autocfg {

inline constexpr char kNcclLibrary[] = "libnccl.so.2";
static_assert(NCCL_MAJOR == 2, "kNcclLibrary is that of other headers");

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
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) recv = nullptr;
};

// Throws cuda::LibraryMissing where a function is not there, and where the version is not one of the headers'
// major number.
NcclApi FindNccl(const cuda::SymbolSource& source);

// Those of the file that AUTOCFG_NCCL_LIBRARY of the environment names, else of kNcclLibrary, wherever the
// dynamic loader finds it. Throws NotSupported, in one line that says what to do, where there is none that
// can be used. What was found once stays.
const NcclApi& Nccl();

}  // namespace autocfg
