#include "kernels/cuda/device/loaded_library.h"

#include <dlfcn.h>

#include <utility>

namespace autocfg::cuda {

std::string LibraryName(const char* value, const char* usual) {
  return value != nullptr && *value != '\0' ? value : usual;
}

LoadedLibrary::LoadedLibrary(std::string name)
    : name_(std::move(name)), library_(dlopen(name_.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
  if (library_ != nullptr) return;
  const char* error = dlerror();  // starts with the name of the library or of one of its dependencies
  throw LibraryMissing(error != nullptr ? error : name_ + " cannot be opened");
}

void* LoadedLibrary::Find(const char* symbol) const { return dlsym(library_.get(), symbol); }

void LoadedLibrary::Stay() noexcept { (void)library_.release(); }

void LoadedLibrary::Close::operator()(void* library) const { (void)dlclose(library); }

}  // namespace autocfg::cuda
