#include "cli/report/rejected_csv.h"

#include <system_error>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_options.h"

namespace autocfg::cli {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{1} << 16;

absl::Status CannotWriteRows(const std::string& path, std::error_code error) {
  return absl::InvalidArgumentError(
      fmt::format("{}: cannot be written: {}; name another file", path, error.message()));
}

// Returns the text as a field: quoted if it has a comma, a quote or a line break (RFC 4180).
std::string Field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

}  // namespace

absl::Status RejectedCsv::Open() {
  if (const std::error_code error = file_.Open()) return CannotWriteRows(path_, error);
  rows_ = fmt::format("{},reason,detail\n", fmt::join(JsonNames(PlanOptions()), ","));
  return absl::OkStatus();
}

absl::Status RejectedCsv::Add(const v1::RejectedPlans& message) {
  for (const v1::RejectedPlan& rejected : message.plans()) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto plan, FromProto(rejected.plan()));
    for (const PlanOption& option : PlanOptions()) {
      rows_ += Field(option.print(plan));
      rows_ += ',';
    }
    rows_ += fmt::format("{},{}\n", Field(rejected.reason()), Field(rejected.detail()));
    ++written_;
    if (rows_.size() < kFlushBytes) continue;
    AUTOCFG_RETURN_IF_ERROR(Flush());
  }
  for (const auto& [reason, count] : message.left_out()) left_out_[reason] += count;
  return absl::OkStatus();
}

absl::Status RejectedCsv::Flush() {
  const std::error_code error = file_.Append(rows_);
  rows_.clear();
  return error ? CannotWriteRows(path_, error) : absl::OkStatus();
}

absl::Status RejectedCsv::Finish() {
  AUTOCFG_RETURN_IF_ERROR(Flush());
  const std::error_code error = file_.Finish();
  return error ? CannotWriteRows(path_, error) : absl::OkStatus();
}

std::string RejectedCsv::LeftOut() const {
  std::string reasons;
  std::int64_t left = 0;
  for (const auto& [reason, count] : left_out_) {
    left += count;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, base::CountText(count));
  }
  if (left == 0) return "";
  return fmt::format("{} has {} of {} rejected plans; left out: {}", path_, base::CountText(written_),
                     base::CountText(written_ + left), reasons);
}

}  // namespace autocfg::cli
