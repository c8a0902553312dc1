// A GPU's memory as the driver counts it and as a computing process sees it. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace autocfg {

// Formats a GPU's 16-byte UUID as the driver does: "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::string GpuUuidText(std::span<const unsigned char, 16> bytes);

// Returns the bytes of the GPU that the driver counts as memory (kernels/nvml, the source of capacities) but
// withholds from all processes: those beyond the `visible_bytes` that CUDA reports. Returns 0 if the driver's
// library is missing or does not know the GPU.
std::int64_t KeptBackBytes(const std::string& uuid, std::int64_t visible_bytes);

}  // namespace autocfg
