#include "worker/machine/gpu_health.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#include "fmt/format.h"
#include "kernels/nvml/nvml_session.h"

namespace autocfg::worker {
namespace {

using Clock = std::chrono::steady_clock;

// Memory in use on an idle GPU: monitoring, a display, and the driver's reserve if it is not reported
// separately.
constexpr std::int64_t kIdleBytes = std::int64_t{1} << 30;
constexpr std::chrono::milliseconds kPoll{200};

std::string GibibytesText(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string HoldersText(const std::vector<GpuProcess>& processes) {
  if (processes.empty()) return "by a process that the driver does not name";
  std::string text;
  for (const GpuProcess& process : processes) {
    text += fmt::format("{}{}", text.empty() ? "by process " : ", ", process.pid);
    if (process.bytes) text += fmt::format(" ({})", GibibytesText(*process.bytes));
  }
  return text;
}

// Describes the first of these GPUs that is not free. Empty if all are free.
std::string Shortage(const NvmlSession& nvml, const std::vector<std::string>& uuids) {
  const int count = nvml.Count();
  for (const std::string& uuid : uuids) {
    int index = 0;
    while (index < count && nvml.Uuid(index) != uuid) ++index;
    if (index == count) return fmt::format("GPU {} is gone: the driver does not know it any more", uuid);
    const auto memory = nvml.Memory(index);
    if (!memory)
      return fmt::format("GPU {} ({}): the driver no longer reports its memory", index, nvml.Name(index));
    const std::int64_t used = memory->Used();
    if (used <= kIdleBytes) continue;
    return fmt::format("GPU {} ({}): {} of its {} are in use, {} more than on an idle GPU, {}", index,
                       nvml.Name(index), GibibytesText(used), GibibytesText(memory->total),
                       GibibytesText(used - kIdleBytes), HoldersText(nvml.Processes(index)));
  }
  return "";
}

}  // namespace

std::string WaitForFreeGpus(const std::vector<std::string>& uuids, std::chrono::duration<double> patience,
                            const std::atomic<bool>* cancel) {
  std::string why;
  const auto nvml = NvmlSession::Open(why);
  if (nvml == nullptr) return "no GPU: " + why;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  for (;;) {
    std::string shortage = Shortage(*nvml, uuids);
    if (shortage.empty() || (cancel != nullptr && cancel->load())) return "";
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) return shortage;
    std::this_thread::sleep_for(std::min<Clock::duration>(kPoll, left));
  }
}

}  // namespace autocfg::worker
