#include "worker/process_launcher.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "worker/job_watch.h"

namespace autocfg {
namespace {

// What is wrong with a request, or empty.
std::string CheckRequest(const JobRequest& request) {
  const std::size_t size = request.ranks.size();
  if (size == 0) return "a job has at least one rank";
  for (std::size_t rank = 0; rank < size; ++rank) {
    const auto& spec = request.ranks[rank];
    if (spec.rank() != static_cast<int>(rank) || spec.world_size() != static_cast<int>(size)) {
      return fmt::format("the run spec of rank {} of {} says rank {} of {}", rank, size, spec.rank(),
                         spec.world_size());
    }
  }
  if (!request.cores.empty() && request.cores.size() != size) {
    return fmt::format("cores are given for {} of {} ranks", request.cores.size(), size);
  }
  if (!request.gpus.empty() && request.gpus.size() != size) {
    return fmt::format("GPUs are given for {} of {} ranks", request.gpus.size(), size);
  }
  return "";
}

}  // namespace

ProcessLauncher::ProcessLauncher(std::string trainer_path) : trainer_path_(std::move(trainer_path)) {}

JobResult ProcessLauncher::Run(const JobRequest& request, const LaunchHooks& hooks) {
  if (std::string wrong = CheckRequest(request); !wrong.empty()) {
    JobResult result;
    result.outcome = JobOutcome::kBadInput;
    result.message = std::move(wrong);
    result.ranks.resize(request.ranks.size());
    return result;
  }
  return JobWatch(request, hooks).Run(trainer_path_);
}

std::string FindTrainer() {
  if (const char* path = std::getenv("AUTOCFG_TRAINER"); path != nullptr && *path != '\0') return path;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "autocfg-trainer").string();
}

}  // namespace autocfg
