// Makes this process and its children see fake GPUs (tests/support/fake_nvml/fake_nvml.cc) for the lifetime
// of the object.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/support/build_paths.h"
#include "tests/support/scoped_variable.h"

namespace autocfg {

inline constexpr std::int64_t kFakeGpuBytes = std::int64_t{141} << 30;

// Describes `count` equal GPUs, half of them on each board, with uuids GPU-0000-a, GPU-0001-b, ... Appends
// `more`, such as ",mig=1", to each.
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

// Simulates a machine without a driver.
class NoGpus {
 public:
  NoGpus()
      : library_("AUTOCFG_NVML_LIBRARY", "libautocfg-no-nvml.so.1"),
        visible_("CUDA_VISIBLE_DEVICES", std::nullopt) {}

 private:
  const ScopedVariable library_, visible_;
};

}  // namespace autocfg
