#include "trainer/run/gpu_engine.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "trainer/errors.h"
#include "trainer/run/build_id.h"

namespace autocfg {
namespace {

constexpr char kModule[] = "libautocfg_cuda.so";

// Empty where there is none.
std::filesystem::path FindModule() {
  if (const char* named = std::getenv("AUTOCFG_GPU_MODULE"); named != nullptr && *named != '\0') return named;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  for (const auto& directory : {program.parent_path(), program.parent_path().parent_path() / "bin"}) {
    if (std::filesystem::exists(directory / kModule, error)) return directory / kModule;
  }
  return {};
}

const GpuEngine& Load() {
  const std::filesystem::path path = FindModule();
  if (path.empty()) {
    throw NotSupported(
        fmt::format("device cuda: this build has no GPU engine ({} is not beside the program): build where a "
                    "CUDA toolkit "
                    "with cuDNN and NCCL is installed, or use the cpu device",
                    kModule));
  }
  // Never unloaded: what it made may outlive any owner that could be named here.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw NotSupported(fmt::format("device cuda: {}", dlerror()));
  const auto function = reinterpret_cast<GpuEngineFunction>(dlsym(module, kGpuEngineSymbol));
  if (function == nullptr)
    throw NotSupported(fmt::format("device cuda: {} is not this program's GPU engine", path.string()));
  const GpuEngine& engine = *function();
  if (engine.build_id != TrainerBuildId()) {
    throw NotSupported(fmt::format("device cuda: {} is of build {}, this program of {}; build both together",
                                   path.string(), engine.build_id, TrainerBuildId()));
  }
  return engine;
}

}  // namespace

const GpuEngine& LoadGpuEngine() {
  static const GpuEngine& engine = Load();  // a failed load is tried again
  return engine;
}

}  // namespace autocfg
