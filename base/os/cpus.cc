#include "base/os/cpus.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "base/numbers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg::base {
namespace {

// Size of the fixed cpu_set_t. Larger machines need larger masks.
constexpr int kFewestCpus = CPU_SETSIZE;

class CpuMask {
 public:
  explicit CpuMask(int cpus)
      : bytes_(CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus))),
        set_(CPU_ALLOC(static_cast<std::size_t>(cpus))) {
    if (set_ == nullptr) throw std::bad_alloc();
    CPU_ZERO_S(bytes_, set_);
  }
  ~CpuMask() { CPU_FREE(set_); }
  CpuMask(const CpuMask&) = delete;
  CpuMask& operator=(const CpuMask&) = delete;

  std::size_t bytes() const { return bytes_; }
  cpu_set_t* get() { return set_; }
  bool Has(int cpu) const { return CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes_, set_) != 0; }
  void Add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), bytes_, set_); }

 private:
  const std::size_t bytes_;
  cpu_set_t* const set_;
};

}  // namespace

std::vector<int> AllowedCpus(const GetAffinity& get) {
  int error = EINVAL;
  for (int cpus = kFewestCpus; cpus <= kMostCpus; cpus *= 2) {
    CpuMask mask(cpus);
    if (get(mask.bytes(), mask.get()) == 0) {
      std::vector<int> allowed;
      for (int cpu = 0; cpu < cpus; ++cpu) {
        if (mask.Has(cpu)) allowed.push_back(cpu);
      }
      if (!allowed.empty()) return allowed;
      error = ENODATA;
      break;
    }
    error = errno;
    if (error != EINVAL) break;  // EINVAL: the mask is too small
  }
  throw std::system_error(error, std::generic_category(), "cannot determine which CPUs may be used");
}

std::vector<int> AllowedCpus() {
  return AllowedCpus([](std::size_t bytes, cpu_set_t* mask) { return sched_getaffinity(0, bytes, mask); });
}

void RunOnCpus(const std::vector<int>& cpus) {
  CpuMask mask(std::max(kFewestCpus, *std::max_element(cpus.begin(), cpus.end()) + 1));
  for (const int cpu : cpus) mask.Add(cpu);
  if (sched_setaffinity(0, mask.bytes(), mask.get()) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("cannot run on CPUs {}", CpuListText(cpus)));
  }
}

std::optional<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t stop = std::min(text.find(',', begin), text.size());
    const std::string_view number = text.substr(begin, stop - begin);
    const auto cpu = ParseNumber<int>(number, 0, kMostCpus - 1);
    if (!cpu) return std::nullopt;
    cpus.push_back(*cpu);
    begin = stop + 1;
  }
  return cpus;
}

std::string CpuListText(const std::vector<int>& cpus) { return fmt::format("{}", fmt::join(cpus, ",")); }

}  // namespace autocfg::base
