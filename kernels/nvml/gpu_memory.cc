#include "kernels/nvml/gpu_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "kernels/nvml/nvml_session.h"

namespace autocfg {

std::string GpuUuidText(std::span<const unsigned char, 16> bytes) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  }
  return text;
}

std::int64_t KeptBackBytes(const std::string& uuid, std::int64_t visible_bytes) {
  std::string why;  // without NVML, no capacity was taken from it either
  const auto nvml = NvmlSession::Open(why);
  if (nvml == nullptr) return 0;
  for (int index = 0; index < nvml->Count(); ++index) {
    if (nvml->Uuid(index) != uuid) continue;
    const auto memory = nvml->Memory(index);
    return memory ? std::max<std::int64_t>(memory->total - visible_bytes, 0) : 0;
  }
  return 0;
}

}  // namespace autocfg
