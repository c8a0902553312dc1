// Makes this process and those that it starts see GPUs that are not there
// (tests/support/fake_nvml/fake_nvml.cc), for as long as it lives.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/build_paths.h"

namespace autocfg {

// Sets a variable of the environment, or takes it away; its end puts back what was.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::optional<std::string>& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    Set(value);
  }
  ~ScopedVariable() { Set(before_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void Set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  std::string name_;
  std::optional<std::string> before_;
};

inline constexpr std::int64_t kFakeGpuBytes = std::int64_t{141} << 30;

// So many equal GPUs, half of them on either board, with uuids GPU-0000-a, GPU-0001-b, ...; `more` is added
// to each, such as ",mig=1".
inline std::string EqualGpus(int count, const std::string& more = "") {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text +=
        fmt::format("{}name=NVIDIA H200,uuid=GPU-{:04}-{},total={},nvlinks=18,board={}{}", i == 0 ? "" : ";",
                    i, static_cast<char>('a' + i), kFakeGpuBytes, i < (count + 1) / 2 ? 0 : 1, more);
  }
  return text;
}

class FakeGpus {
 public:
  explicit FakeGpus(const std::string& description)
      : library_("AUTOCFG_NVML_LIBRARY", BuildPath("tests/libfake_nvml.so")),
        gpus_("AUTOCFG_FAKE_GPUS", description),
        visible_("CUDA_VISIBLE_DEVICES", std::nullopt) {}

 private:
  const ScopedVariable library_, gpus_, visible_;
};

// A machine without a driver, whatever this one has.
class NoGpus {
 public:
  NoGpus()
      : library_("AUTOCFG_NVML_LIBRARY", "libautocfg-no-nvml.so.1"),
        visible_("CUDA_VISIBLE_DEVICES", std::nullopt) {}

 private:
  const ScopedVariable library_, visible_;
};

}  // namespace autocfg
