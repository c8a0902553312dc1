// Gives this process a fake driver (fake_driver.cc) if the machine has none.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace autocfg {

// Returns whether the driver is the fake one. It stays loaded until the process ends. Throws
// std::runtime_error if it cannot be loaded.
inline bool WithAnyDriver() {
  static const bool fake = [] {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr) return false;
    if (dlopen(AUTOCFG_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* why = dlerror();
      throw std::runtime_error(std::string("the fake driver: ") + (why == nullptr ? "not loaded" : why));
    }
    return true;
  }();
  return fake;
}

// Driver statuses for a kernel that is not loaded.
inline constexpr int kNoMemory = 2, kInvalidImage = 200;

// Makes the next `count` kernel loads fail. Requires the fake driver.
inline void RefuseLoads(int count, int why = kInvalidImage) {
  void* const symbol = dlsym(dlopen(AUTOCFG_FAKE_DRIVER, RTLD_NOW | RTLD_NOLOAD), "AutocfgRefuseLoads");
  if (symbol == nullptr) throw std::runtime_error("the fake driver is not loaded");
  reinterpret_cast<void (*)(int, int)>(symbol)(count, why);
}

}  // namespace autocfg
