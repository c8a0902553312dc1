#include "trainer/backend/gpu_engine.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "base/os/process.h"
#include "proto/gpu_engine_file.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

const GpuEngine& Load() {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  const std::string path = FindGpuEngine(program);
  if (path.empty()) {
    throw NotSupported(fmt::format(
        "device cuda: {}; build where a CUDA toolkit with cuDNN and NCCL is installed, or use the "
        "cpu device",
        NoGpuEngine(program)));
  }
  // The module is never unloaded: its objects may outlive any owner.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw NotSupported(fmt::format("device cuda: {}", dlerror()));
  const auto function = reinterpret_cast<GpuEngineFunction>(dlsym(module, kGpuEngineSymbol));
  if (function == nullptr)
    throw NotSupported(fmt::format("device cuda: {} is not this program's GPU engine", path));
  const GpuEngine& engine = *function();
  if (engine.build_id != base::BuildId()) {
    throw NotSupported(fmt::format("device cuda: {} is of build {}, this program of {}; build both together",
                                   path, engine.build_id, base::BuildId()));
  }
  return engine;
}

}  // namespace

const GpuEngine& LoadGpuEngine() {
  static const GpuEngine& engine = Load();  // a failed load is tried again
  return engine;
}

}  // namespace autocfg::trainer
