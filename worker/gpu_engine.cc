#include "worker/gpu_engine.h"

#include <filesystem>
#include <system_error>

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

}  // namespace autocfg
