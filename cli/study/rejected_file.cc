#include "cli/study/rejected_file.h"

#include "cli/input/files.h"
#include "cli/report/rejected_csv.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace autocfg::cli {

int CheckRejected(const std::string& rejected, const std::string& output) {
  if (rejected.empty()) return kExitDone;
  const auto path = ReplaceablePath(rejected);
  if (!path.ok()) return Fail(kExitUsage, fmt::format("--rejected: {}", Text(path.status())));
  const auto status = CheckBothWritten({"--rejected", rejected}, {"--output", output});
  return status.ok() ? kExitDone : Fail(status);
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
