// Gives this process a driver that is not there (fake_driver.cc) where the machine has none.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace autocfg {

// Whether the driver is the fake one. It stays for as long as the process lives. Throws std::runtime_error
// where it cannot be loaded.
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

// What the driver may say of a kernel that is not loaded.
inline constexpr int kNoMemory = 2, kInvalidImage = 200;

// So many of the next kernels are not loaded. The driver must be the fake one.
inline void RefuseLoads(int count, int why = kInvalidImage) {
  void* const symbol = dlsym(dlopen(AUTOCFG_FAKE_DRIVER, RTLD_NOW | RTLD_NOLOAD), "AutocfgRefuseLoads");
  if (symbol == nullptr) throw std::runtime_error("the fake driver is not loaded");
  reinterpret_cast<void (*)(int, int)>(symbol)(count, why);
}

}  // namespace autocfg
