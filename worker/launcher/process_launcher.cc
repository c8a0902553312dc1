#include "worker/launcher/process_launcher.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "worker/launcher/failure_verdict.h"
#include "worker/launcher/job_watch.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;

// Returns the directory of this program's executable; empty if the system does not say.
fs::path OwnDirectory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

// Describes what is invalid in a request. Empty if it is valid.
std::string CheckRequest(const JobRequest& request, const LaunchHooks& hooks) {
  const std::size_t size = request.ranks.size();
  if (size == 0) return "a job has at least one rank";
  const int first = hooks.exchange ? request.ranks.front().rank() : 0;
  const int world = hooks.exchange ? request.ranks.front().world_size() : static_cast<int>(size);
  for (std::size_t place = 0; place < size; ++place) {
    const auto& spec = request.ranks[place];
    const int rank = first + static_cast<int>(place);
    if (spec.rank() != rank || spec.world_size() != world) {
      return fmt::format("the run spec of rank {} of {} says rank {} of {}", rank, world, spec.rank(),
                         spec.world_size());
    }
  }
  if (first < 0 || static_cast<std::size_t>(world) < size ||
      static_cast<std::size_t>(first) > static_cast<std::size_t>(world) - size) {
    return fmt::format("ranks {} to {} are not among the {} of the job", first,
                       first + static_cast<int>(size) - 1, world);
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

bool JobResult::bad_input() const { return IsBadInput(error); }

ProcessLauncher::ProcessLauncher(std::string trainer_path, std::string supervisor_path,
                                 const JobAllowance& allowance)
    : trainer_path_(std::move(trainer_path)),
      supervisor_path_(std::move(supervisor_path)),
      allowance_(allowance) {}

JobResult ProcessLauncher::Run(const JobRequest& request, const LaunchHooks& hooks) {
  if (std::string wrong = CheckRequest(request, hooks); !wrong.empty()) {
    JobResult result;
    result.failure = v1::FAILURE_KIND_OWN;
    result.error.set_code("INVALID_ARGUMENT");
    result.message = std::move(wrong);
    result.ranks.resize(request.ranks.size());
    return result;
  }
  return JobWatch(request, hooks).Run(trainer_path_, supervisor_path_);
}

std::string FindTrainer() {
  if (const char* path = std::getenv("AUTOCFG_TRAINER"); path != nullptr && *path != '\0') return path;
  return (OwnDirectory() / "autocfg-trainer").string();
}

std::string FindSupervisor() {
  constexpr const char* kName = "autocfg-supervisor";
  const fs::path beside = OwnDirectory() / kName;
  // Programs of a build that are not installed, such as tests.
  const fs::path in_bin = OwnDirectory().parent_path() / "bin" / kName;
  return (::access(beside.c_str(), X_OK) != 0 && ::access(in_bin.c_str(), X_OK) == 0 ? in_bin : beside)
      .string();
}

absl::Status CheckSupervisor() {
  const std::string path = FindSupervisor();
  if (::access(path.c_str(), X_OK) == 0) return absl::OkStatus();
  return absl::NotFoundError(
      fmt::format("{}: the program that starts and ends ranks is missing; build or install it there", path));
}

}  // namespace autocfg::worker
