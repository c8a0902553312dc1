#include "cli/study/rejected_file.h"

#include <filesystem>
#include <system_error>

#include "cli/input/files.h"
#include "cli/report/rejected_csv.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace autocfg::cli {

int CheckRejected(const std::string& rejected, const std::string& output) {
  if (rejected.empty()) return kExitDone;
  const auto path = ReplaceablePath(rejected);
  if (!path.ok()) return Fail(kExitUsage, fmt::format("--rejected: {}", Text(path.status())));
  std::error_code ignored;
  const auto place = [&](const std::string& file) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(file, ignored), ignored);
  };
  if (output.empty() || place(output) != place(*path)) return kExitDone;
  return Fail(kExitUsage,
              fmt::format("--rejected: {} is also the file of --output; name another file", rejected));
}

absl::Status WriteRejected(const std::string& rejected, StudyClient& client, const std::string& study,
                           const Interrupt& interrupt) {
  if (rejected.empty()) return absl::OkStatus();
  const auto path = ReplaceablePath(rejected);
  if (!path.ok()) return Where("--rejected", path.status());
  RejectedCsv file(*path);
  absl::Status status = file.Open();
  if (!status.ok()) return Where("--rejected", status);
  const absl::Status listed = client.ListRejected(study, [&](const v1::RejectedPlans& plans) {
    status = file.Add(plans);
    return status.ok() && !interrupt.requested();
  });
  if (interrupt.requested()) return absl::CancelledError("--rejected: interrupted; the file was not written");
  if (status.ok()) status = listed;
  if (status.ok()) status = file.Finish();
  if (!status.ok()) return Where("--rejected", status);
  if (const std::string left_out = file.LeftOut(); !left_out.empty()) Note(left_out);
  return absl::OkStatus();
}

int EndOfRejected(int code, const absl::Status& rejected) {
  if (rejected.ok()) return code;
  return Fail(absl::IsCancelled(rejected) ? kExitInterrupted : ExitCodeOf(rejected), Text(rejected));
}

}  // namespace autocfg::cli
