#include "worker/supervisor/rank_environment.h"

#include <algorithm>
#include <iterator>

namespace autocfg::worker {
namespace {

constexpr std::string_view kNames[] = {"PATH",     "HOME", "USER",   "LOGNAME",       "LANG",
                                       "LANGUAGE", "TZ",   "TMPDIR", "GLIBC_TUNABLES"};

constexpr std::string_view kPrefixes[] = {
    // ours, the locale, the dynamic loader
    "AUTOCFG_", "LC_", "LD_",
    // GPUs and communication
    "CUDA_", "CUDNN_", "CUBLAS", "NVIDIA_", "NCCL_", "OFI_", "FI_", "UCX_", "IBV_", "MLX5_", "RDMAV_",
    // threads of matrix products
    "OMP_", "GOMP_", "KMP_", "GOTO_", "OPENBLAS_",
    // the allocator, sanitizers
    "MALLOC_", "ASAN_", "LSAN_", "TSAN_", "UBSAN_",
    // profilers: what Nsight loads into a process finds its own process by these, and crashes without them
    "NV_", "NVTX_", "NSYS_", "QUADD_", "CUPTI_"};

// The end of a name that has a prefix above and is a secret all the same, like NVIDIA_API_KEY.
constexpr std::string_view kSecret = "_API_KEY";

constexpr std::string_view kOfWorkerAlone[] = {"AUTOCFG_TOKEN_FILE", "AUTOCFG_TLS_CA", "AUTOCFG_TLS_CERT",
                                               "AUTOCFG_TLS_KEY", "NOTIFY_SOCKET"};

// Returns the name in NAME=value.
std::string_view NameOf(std::string_view variable) { return variable.substr(0, variable.find('=')); }

}  // namespace

bool IsOfWorkerAlone(std::string_view name) {
  return std::find(std::begin(kOfWorkerAlone), std::end(kOfWorkerAlone), name) != std::end(kOfWorkerAlone);
}

bool RanksInherit(std::string_view name) {
  if (IsOfWorkerAlone(name) || name.ends_with(kSecret)) return false;
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> RankEnvironment(const char* const* own, const std::vector<std::string>& added,
                                         bool foreign) {
  std::vector<std::string> environment;
  for (; *own != nullptr; ++own) {
    // With duplicate names, the program would find the first.
    const std::string_view name = NameOf(*own);
    const bool inherited = foreign ? !IsOfWorkerAlone(name) : RanksInherit(name);
    if (inherited && std::none_of(added.begin(), added.end(),
                                  [name](const std::string& other) { return NameOf(other) == name; }))
      environment.emplace_back(*own);
  }
  environment.insert(environment.end(), added.begin(), added.end());
  return environment;
}

}  // namespace autocfg::worker
