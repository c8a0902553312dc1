#include "kernels/device.h"

#include <cstddef>
#include <new>

#include "kernels/arena.h"

namespace autocfg {
namespace {

constexpr std::align_val_t kAlignment{static_cast<std::size_t>(kArenaAlignment)};

}  // namespace

void* Device::AllocateHost(std::int64_t bytes) { return ::operator new(static_cast<std::size_t>(bytes), kAlignment); }

void Device::FreeHost(void* data, std::int64_t /*bytes*/) noexcept { ::operator delete(data, kAlignment); }

}  // namespace autocfg
