#include "cli/input/option_errors.h"

#include <string>
#include <utility>

#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg::cli {

absl::Status OfOption(const absl::Status& status, std::string_view cluster) {
  static constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
      {"model", "--model"},
      {"plan", "--plan"},
      {"space", "--space"},
      {"spec.model", "--model"},
      {"spec.workload.global_batch", "--global-batch"},
      {"spec.workload.precision", "--precision"},
      {"spec.workload", "workload"},
      {"spec.space", "--space"},
      {"spec.device", "--device"},
  };
  const std::string subject = base::SubjectOf(status);
  if (subject == "cluster" || subject == "spec.cluster")
    return base::WithSubject(cluster.empty() ? "--cluster" : fmt::format("--cluster: {}", cluster), status);
  if (base::OptionOf(status) == "precision") return base::WithSubject("--precision", status);
  for (const auto& [known, option] : kOptions) {
    if (subject == known) return base::WithSubject(option, status);
  }
  return status;
}

}  // namespace autocfg::cli
