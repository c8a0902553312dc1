#include "worker/gpu_engine.h"

#include <filesystem>
#include <system_error>

#include "fmt/format.h"

namespace autocfg {

std::string FindGpuEngine(const std::string& trainer) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::canonical(trainer, error);
  if (error) return "";
  for (const auto& directory : {program.parent_path(), program.parent_path().parent_path() / "bin"}) {
    if (std::filesystem::exists(directory / kGpuEngine, error)) return (directory / kGpuEngine).string();
  }
  return "";
}

std::string NoGpuEngine(const std::string& trainer) {
  return fmt::format("this build has no GPU engine: {} is not beside {}", kGpuEngine, trainer);
}

}  // namespace autocfg
