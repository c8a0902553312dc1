#include "cli/input/devices.h"

#include <cctype>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "proto/gpu_engine_file.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::cli {
namespace {

std::vector<std::string> LeftOutNotes(const GpuList& list) {
  std::vector<std::string> notes;
  for (const GpuInfo& gpu : list.left_out)
    notes.push_back(fmt::format("{} is left out: {}", TextOf(gpu), gpu.left_out));
  return notes;
}

RunDevice OnCpu(std::vector<std::string> notes = {}) {
  return {.engine = EngineDevice::kCpu, .machine = {}, .notes = std::move(notes)};
}

// Chooses the device if the user named none.
RunDevice ChooseForAuto(GpuList list, std::string_view precision, const std::string& trainer) {
  if (list.gpus.empty()) {
    return OnCpu(list.left_out.empty() ? std::vector<std::string>{}
                                       : std::vector{fmt::format("on the CPU: {}", list.why_none)});
  }
  if (FindGpuEngine(trainer).empty())
    return OnCpu({fmt::format("on the CPU, though there is a GPU: {}", NoGpuEngine(trainer))});
  if (precision.starts_with("fp64"))
    return OnCpu({"on the CPU, though there is a GPU: fp64 is for CPUs only"});
  RunDevice device{.engine = EngineDevice::kCuda, .machine = {}, .notes = LeftOutNotes(list)};
  device.machine = std::move(list);
  return device;
}

}  // namespace

absl::StatusOr<RunDevice> ChooseDevice(std::optional<EngineDevice> asked, std::string_view precision) {
  if (asked && !UsesGpus(*asked)) return RunDevice{.engine = *asked};
  GpuList list = ListGpus();
  const std::string trainer = worker::FindTrainer();
  if (!asked) return ChooseForAuto(std::move(list), precision, trainer);
  if (list.gpus.empty())
    return absl::FailedPreconditionError(
        fmt::format("--device: cuda: {}; give cpu, or paced", list.why_none));
  if (FindGpuEngine(trainer).empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "--device: cuda: {}; build where a CUDA toolkit with cuDNN and NCCL is installed, or give cpu",
        NoGpuEngine(trainer)));
  }
  RunDevice device{.engine = *asked, .machine = {}, .notes = LeftOutNotes(list)};
  device.machine = std::move(list);
  return device;
}

std::string SharedGpusNote(std::int64_t ranks, const GpuList& list) {
  const auto gpus = static_cast<std::int64_t>(list.gpus.size());
  if (gpus == 0 || ranks <= gpus) return "";
  return fmt::format("{} ranks share {} GPU{} and the memory; times are not those of {} GPUs", ranks, gpus,
                     gpus == 1 ? "" : "s", ranks);
}

bool IsLike(std::string_view described, const GpuInfo& gpu) {
  if (described == gpu.name) return true;
  const std::string model = absl::AsciiStrToLower(std::string(described.substr(0, described.find('-'))));
  const std::string name = absl::AsciiStrToLower(gpu.name);
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (auto at = name.find(model); !model.empty() && at != std::string::npos; at = name.find(model, at + 1)) {
    const auto end = at + model.size();
    if ((at == 0 || !is_word(name[at - 1])) && (end == name.size() || !is_word(name[end]))) return true;
  }
  return false;
}

}  // namespace autocfg::cli
