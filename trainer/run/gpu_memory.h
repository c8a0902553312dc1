// A GPU's memory as the driver counts it and as a process that computes does. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace autocfg {

// A GPU's uuid in the driver's words, of its 16 bytes: "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::string GpuUuidText(std::span<const unsigned char, 16> bytes);

// Bytes of the GPU that the driver counts as memory (kernels/nvml, from which capacities come) and keeps back
// from all processes: what it has beyond the `visible_bytes` that CUDA tells of. 0 where the driver's library
// is not there or does not know the GPU.
std::int64_t KeptBackBytes(const std::string& uuid, std::int64_t visible_bytes);

}  // namespace autocfg
