// A library of functions supplied by a test, in place of one that is opened at run time. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "kernels/cuda/device/loaded_library.h"

namespace autocfg::cuda {

class FakeLibrary final : public SymbolSource {
 public:
  FakeLibrary(std::string name, std::map<std::string, void*> functions)
      : name_(std::move(name)), functions_(std::move(functions)) {}
  const std::string& name() const override { return name_; }
  void* Find(const char* symbol) const override {
    const auto found = functions_.find(symbol);
    return found == functions_.end() ? nullptr : found->second;
  }

 private:
  const std::string name_;
  const std::map<std::string, void*> functions_;
};

}  // namespace autocfg::cuda
