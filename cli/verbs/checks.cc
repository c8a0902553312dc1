#include "cli/verbs/checks.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/os/blas_core.h"
#include "base/text.h"
#include "cli/input/devices.h"
#include "cli/terminal/console.h"
#include "cli/train/train_runner.h"
#include "fmt/format.h"
#include "proto/gpu_engine_file.h"
#include "search/text/model_json.h"
#include "server/coordinator/database_path.h"
#include "server/store/sqlite/sqlite_store.h"
#include "worker/jobs/job_runner.h"
#include "worker/launcher/process_launcher.h"
#include "worker/machine/cgroup.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

using std::filesystem::path;

constexpr std::int64_t kLittleMemory = std::int64_t{1} << 30;
constexpr std::int64_t kLittleSharedMemory = std::int64_t{64} << 20;
constexpr rlim_t kFewDescriptors = 1024;
constexpr double kEngineTimeLimitS = 60;

Check Ok(std::string name, std::string found) {
  return {std::move(name), CheckState::kOk, std::move(found), ""};
}
Check Warning(std::string name, std::string found, std::string advice) {
  return {std::move(name), CheckState::kWarning, std::move(found), std::move(advice)};
}
Check Missing(std::string name, std::string found, std::string advice) {
  return {std::move(name), CheckState::kMissing, std::move(found), std::move(advice)};
}

// Returns the libraries that the dynamic loader resolves for `program`, one "NAME => PATH (ADDRESS)" per
// line. Empty if the loader prints nothing.
std::string LoadedLibraries(const std::string& program) {
  const std::string command = fmt::format("LD_TRACE_LOADED_OBJECTS=1 {} 2>/dev/null", ShellWord(program));
  const auto close = [](std::FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(popen(command.c_str(), "re"), close);
  if (!pipe) return "";
  std::string text;
  std::array<char, 4096> bytes{};
  while (const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), pipe.get()))
    text.append(bytes.data(), got);
  return text;
}

// Returns the path of the first library in `loaded` whose name starts with one of `names`; empty if none
// does.
std::string FindLibrary(const std::string& loaded, std::initializer_list<std::string_view> names) {
  std::istringstream lines(loaded);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(" \t");
    const auto arrow = line.find(" => /");
    if (begin == std::string::npos || arrow == std::string::npos) continue;
    for (const auto name : names) {
      if (line.compare(begin, name.size(), name) != 0) continue;
      const auto end = line.find(' ', arrow + 4);
      return line.substr(arrow + 4, end == std::string::npos ? end : end - arrow - 4);
    }
  }
  return "";
}

// RAII handle of a dynamically loaded library.
class Library {
 public:
  // Stays loaded: UCX leaks what it has allocated if it is unloaded.
  explicit Library(const std::string& file)
      : handle_(dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE)) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  template <typename Function>
  Function* Find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* const handle_;
};

Check CheckBlas(const std::string& loaded) {
  const std::string file =
      FindLibrary(loaded, {"libopenblas", "libblas", "libmkl_rt", "libblis", "libflexiblas"});
  if (file.empty()) return Warning("blas", "cannot determine which library the trainer uses", "");
  std::error_code error;
  const path real = std::filesystem::canonical(file, error);
  std::string found = error ? file : real.string();
  const Library library(file);
  if (auto* config = library.Find<const char*()>("openblas_get_config"))
    found += fmt::format(" ({})", config());
  if (auto* core = library.Find<const char*()>("openblas_get_corename")) {
    const std::string_view better = base::BlasCoreInstead(core(), base::ThisCpusVectorUnits());
    if (!better.empty())
      found += fmt::format("; it does not know this CPU, and ranks run its {} kernels", better);
  }
  if (library.Find<void(int)>("openblas_set_num_threads") == nullptr) {
    return Warning(
        "blas", found + "; not OpenBLAS",
        "install libopenblas-dev: another BLAS may be slow or use threads of its own in each rank");
  }
  return Ok("blas", found + "; one thread per rank");
}

Check CheckUcx(const std::string& loaded) {
  const std::string file = FindLibrary(loaded, {"libucp"});
  if (file.empty()) return Warning("ucx", "cannot determine which library the trainer uses", "");
  std::string found = file;
  const Library library(file);
  if (auto* version = library.Find<const char*()>("ucp_get_version_string"))
    found = fmt::format("{} ({})", version(), file);
  const char* transports = std::getenv("UCX_TLS");
  found += transports == nullptr ? "; transports: all available" : fmt::format("; UCX_TLS={}", transports);
  return Ok("ucx", found);
}

// Returns the nearest existing ancestor of `directory`, or `directory` itself if it exists.
path Existing(path directory) {
  std::error_code error;
  while (!std::filesystem::exists(directory, error) && directory.has_relative_path())
    directory = directory.parent_path();
  return directory;
}

// Runs one training step of gpt2-tiny.
worker::JobResult RunSmallStep(const std::string& trainer, EngineDevice device, const ParallelPlan& plan,
                               const std::vector<std::string>& gpus) {
  worker::JobResult failed;
  auto model = ModelPreset("gpt2-tiny");
  if (!model.ok()) {
    failed.message = Text(model.status());
    return failed;
  }
  FillDefaults(*model);
  const Workload workload{2, model->max_seq_len, *ParsePrecision("fp32")};
  v1::Job job = MakeTrainJob({*model, workload, plan}, device);
  job.mutable_train()->set_steps(1);
  job.mutable_train()->set_seed(1);
  job.set_time_limit_s(kEngineTimeLimitS);
  worker::ProcessLauncher launcher(trainer);
  return launcher.Run(worker::MakeJobRequest(job, worker::PhysicalCores(), gpus));
}

}  // namespace

std::string_view Name(CheckState state) {
  return state == CheckState::kOk ? "ok" : state == CheckState::kWarning ? "warning" : "missing";
}

Check CheckCores() {
  const auto cores = worker::PhysicalCores().size();
  std::string found = fmt::format("{} physical core{} to run ranks on, {} hardware thread{} in all; {}",
                                  cores, cores == 1 ? "" : "s", std::thread::hardware_concurrency(),
                                  std::thread::hardware_concurrency() == 1 ? "" : "s",
                                  worker::LocalInventory().device_fingerprint());
  if (const auto limit = worker::ReadCgroupLimits().cpus)
    found += fmt::format("; control group: {:g} CPUs", *limit);
  return Ok("cores", found);
}

Check CheckMemory() {
  const std::int64_t limit = worker::MemoryLimitBytes();
  std::string found = fmt::format("{} for all ranks, of which they use at most 80%", base::BytesText(limit));
  if (const auto group = worker::ReadCgroupLimits().memory_bytes; group && *group == limit)
    found += "; the limit of the control group";
  if (limit < kLittleMemory)
    return Warning("memory", found, "only the smallest models fit; give this machine or container more");
  return Ok("memory", found);
}

Check CheckSharedMemory(const std::string& directory) {
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0 || access(directory.c_str(), W_OK | X_OK) != 0) {
    return Warning("shared memory",
                   fmt::format("{} cannot be used ({})", directory, std::generic_category().message(errno)),
                   "ranks use a slower transport; mount a tmpfs there that this user can write to");
  }
  const auto block = static_cast<std::int64_t>(info.f_frsize);
  const std::int64_t whole = block * static_cast<std::int64_t>(info.f_blocks),
                     left = block * static_cast<std::int64_t>(info.f_bavail);
  std::string found =
      fmt::format("{}: {} free of {}", directory, base::BytesText(left), base::BytesText(whole));
  if (left < kLittleSharedMemory) {
    return Warning(
        "shared memory", found,
        fmt::format(
            "ranks may fail to connect; free some or make it larger (docker run --shm-size 1g), at least {}",
            base::BytesText(kLittleSharedMemory)));
  }
  return Ok("shared memory", found);
}

Check CheckDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Warning("open files", "the limit cannot be read", "");
  std::string found =
      limit.rlim_cur == RLIM_INFINITY ? std::string("no limit") : fmt::format("at most {}", limit.rlim_cur);
  if (limit.rlim_cur < kFewDescriptors)
    return Warning("open files", found,
                   fmt::format("runs of many ranks may fail; raise it with ulimit -n {}", kFewDescriptors));
  return Ok("open files", found);
}

std::vector<Check> CheckLibraries(const std::string& trainer) {
  const std::string loaded = access(trainer.c_str(), X_OK) == 0 ? LoadedLibraries(trainer) : "";
  return {CheckBlas(loaded), CheckUcx(loaded)};
}

std::vector<Check> CheckGpus(const GpuList& list, const std::string& root) {
  std::vector<Check> checks;
  if (!list.driver.empty()) {
    checks.push_back(Ok("gpu driver", fmt::format("NVIDIA {}{}", list.driver,
                                                  list.gpus.empty() ? "; " + list.why_none : "")));
  } else if (std::ifstream file(root + "/proc/driver/nvidia/version"); file) {
    checks.push_back(Warning("gpu driver", fmt::format("the machine has one, but {}", list.why_none),
                             "give the container its GPUs (docker run --gpus all)"));
  } else {
    checks.push_back(Ok("gpu driver", fmt::format("{}; plans are measured on the CPU", list.why_none)));
  }
  for (const GpuInfo& gpu : list.gpus) {
    std::string found = fmt::format("{}, {}, {} of {} free", gpu.name, gpu.uuid,
                                    base::BytesText(gpu.free_bytes), base::BytesText(gpu.memory_bytes));
    if (gpu.nvlinks > 0) found += fmt::format(", {} NVLink{}", gpu.nvlinks, gpu.nvlinks == 1 ? "" : "s");
    if (!gpu.farthest.empty()) found += fmt::format(", farthest GPU reached by {}", gpu.farthest);
    checks.push_back(Ok(fmt::format("gpu {}", gpu.index), std::move(found)));
  }
  for (const GpuInfo& gpu : list.left_out) {
    checks.push_back(
        Warning(fmt::format("gpu {}", gpu.index),
                fmt::format("{}: left out: {}", gpu.name.empty() ? "not named" : gpu.name, gpu.left_out),
                "ranks run on whole GPUs that the driver describes"));
  }
  return checks;
}

Check CheckCudaEngine(const std::string& trainer, const GpuList& list) {
  constexpr const char* kName = "cuda engine";
  const std::string module = FindGpuEngine(trainer);
  if (module.empty()) {
    if (list.gpus.empty())
      return Ok(kName, "not in this build; clusters of GPUs are predicted, or emulated with --device paced");
    return Missing(
        kName, fmt::format("{}, though there is a GPU: plans are measured on the CPU", NoGpuEngine(trainer)),
        "install a CUDA toolkit with cuDNN and NCCL, then ./dev build");
  }
  if (list.gpus.empty()) return Ok(kName, module + "; no GPU to test it on");
  const worker::JobResult result = RunSmallStep(trainer, EngineDevice::kCuda, {}, UuidsOf(list));
  if (result.outcome != v1::OUTCOME_MEASURED)
    return Missing(kName, fmt::format("{}: a step of gpt2-tiny failed: {}", module, result.message),
                   "run ./dev gpu for details");
  return Ok(kName, fmt::format("{}: a step of gpt2-tiny ran on {}; {} in all", module,
                               TextOf(list.gpus.front()), base::SecondsText(result.wall_s)));
}

std::vector<Check> CheckStorage(const std::string& database) {
  const auto file = server::DatabasePath(database);
  if (!file.ok())
    return {Missing("state directory", Text(file.status()), "set HOME or XDG_STATE_HOME, or give --db")};
  std::error_code error;
  const path directory = std::filesystem::absolute(*file, error).parent_path();
  const path existing = Existing(directory);
  const bool is_directory = std::filesystem::is_directory(existing, error);
  const bool writable = is_directory && access(existing.c_str(), W_OK | X_OK) == 0;
  std::vector<Check> checks;
  if (writable) {
    checks.push_back(
        Ok("state directory", directory.string() + (existing == directory ? "" : ", created when needed")));
  } else {
    checks.push_back(Missing(
        "state directory",
        fmt::format("{} cannot be {}", directory.string(), existing == directory ? "written to" : "created"),
        "searches cannot be stored: set XDG_STATE_HOME to a directory of your own, or give --db"));
  }
  if (!std::filesystem::exists(*file, error)) {
    checks.push_back(
        Ok("database", fmt::format("{}: does not exist yet; the first search creates it", *file)));
    return checks;
  }
  const auto store = server::OpenSqliteStoreReadOnly(*file);
  checks.push_back(store.ok()
                       ? Ok("database", fmt::format("{} opens", *file))
                       : Warning("database", Text(store.status()), "move it away, or give another --db"));
  return checks;
}

Check CheckTrainer(const std::string& trainer) {
  if (!trainer.empty() && access(trainer.c_str(), X_OK) == 0) return Ok("trainer", trainer);
  return Missing(
      "trainer",
      trainer.empty() ? "no autocfg-trainer" : fmt::format("{}: missing or not executable", trainer),
      "build autocfg-trainer beside autocfg (./dev build), or set AUTOCFG_TRAINER");
}

Check CheckEngine(const std::string& trainer) {
  constexpr const char* kAdvice = "run ./dev build, then ./dev test for details";
  const worker::JobResult result = RunSmallStep(trainer, EngineDevice::kCpu, {{.dp = 2}}, {});
  if (result.outcome != v1::OUTCOME_MEASURED)
    return Missing("cpu engine", fmt::format("a step of gpt2-tiny on two ranks failed: {}", result.message),
                   kAdvice);
  return Ok("cpu engine",
            fmt::format("a step of gpt2-tiny on two ranks ran; {} in all", base::SecondsText(result.wall_s)));
}

std::vector<Check> CheckMachine(const std::string& database) {
  const std::string trainer = worker::FindTrainer();
  std::vector<Check> checks = {CheckCores(), CheckMemory(), CheckSharedMemory(), CheckDescriptors()};
  for (auto& check : CheckStorage(database)) checks.push_back(std::move(check));
  const GpuList gpus = ListGpus();
  for (auto& check : CheckGpus(gpus)) checks.push_back(std::move(check));
  checks.push_back(CheckCudaEngine(trainer, gpus));
  checks.push_back(CheckTrainer(trainer));
  if (checks.back().state == CheckState::kMissing) {
    checks.push_back(Missing("cpu engine", "cannot run without its trainer", ""));
    return checks;
  }
  for (auto& check : CheckLibraries(trainer)) checks.push_back(std::move(check));
  checks.push_back(CheckEngine(trainer));
  return checks;
}

}  // namespace autocfg::cli
