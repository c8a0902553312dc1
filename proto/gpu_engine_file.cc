#include "proto/gpu_engine_file.h"

#include <filesystem>
#include <system_error>

#include "base/os/host.h"
#include "fmt/format.h"

namespace autocfg {

std::string FindGpuEngine(const std::string& trainer) {
  std::error_code error;
  if (std::string named = base::Environment("AUTOCFG_GPU_MODULE"); !named.empty()) {
    const bool for_the_loader = named.find('/') == std::string::npos;
    return for_the_loader || std::filesystem::exists(named, error) ? named : "";
  }
  const std::filesystem::path program = std::filesystem::canonical(trainer, error);
  if (error) return "";
  for (const auto& directory : {program.parent_path(), program.parent_path().parent_path() / "bin"}) {
    if (std::filesystem::exists(directory / kGpuEngine, error)) return (directory / kGpuEngine).string();
  }
  return "";
}

std::string NoGpuEngine(const std::string& trainer) {
  if (const std::string named = base::Environment("AUTOCFG_GPU_MODULE"); !named.empty())
    return fmt::format("the GPU engine {} that AUTOCFG_GPU_MODULE names does not exist", named);
  return fmt::format("this build has no GPU engine: {} is not beside {}", kGpuEngine, trainer);
}

}  // namespace autocfg
