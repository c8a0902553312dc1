#include "base/subject.h"

#include <optional>

#include "absl/strings/cord.h"
#include "fmt/format.h"

namespace autocfg::base {
namespace {

constexpr char kSubject[] = "autocfg/subject";
constexpr char kOption[] = "autocfg/option";
constexpr char kProblem[] = "autocfg/problem";

absl::Status Make(absl::StatusCode code, std::string_view subject, std::string_view label,
                  std::string_view problem) {
  absl::Status status(code, fmt::format("{}: {}", label, problem));
  status.SetPayload(kSubject, absl::Cord(std::string(subject)));
  status.SetPayload(kProblem, absl::Cord(std::string(problem)));
  return status;
}

std::optional<std::string> PayloadOf(const absl::Status& status, const char* key) {
  const auto payload = status.GetPayload(key);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

void CopyOption(const absl::Status& from, absl::Status& to) {
  if (const auto option = from.GetPayload(kOption)) to.SetPayload(kOption, *option);
}

}  // namespace

absl::Status SubjectError(absl::StatusCode code, std::string_view subject, std::string_view problem) {
  return Make(code, subject, subject, problem);
}

absl::Status InvalidArgument(std::string_view subject, std::string_view problem) {
  return SubjectError(absl::StatusCode::kInvalidArgument, subject, problem);
}

absl::Status Unimplemented(std::string_view subject, std::string_view problem) {
  return SubjectError(absl::StatusCode::kUnimplemented, subject, problem);
}

absl::Status NotFound(std::string_view subject, std::string_view problem) {
  return SubjectError(absl::StatusCode::kNotFound, subject, problem);
}

absl::Status SubjectError(absl::StatusCode code, std::string_view subject, std::string_view label,
                          std::string_view problem) {
  return Make(code, subject, label, problem);
}

absl::Status OptionError(absl::StatusCode code, std::string_view subject, std::string_view option,
                         std::string_view problem) {
  absl::Status status = Make(code, subject, subject, problem);
  status.SetPayload(kOption, absl::Cord(std::string(option)));
  return status;
}

std::string SubjectOf(const absl::Status& status) { return PayloadOf(status, kSubject).value_or(""); }
std::string OptionOf(const absl::Status& status) { return PayloadOf(status, kOption).value_or(""); }

std::string ProblemOf(const absl::Status& status) {
  if (auto problem = PayloadOf(status, kProblem)) return *std::move(problem);
  return std::string(status.message());
}

absl::Status WithSubject(std::string_view subject, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status renamed = Make(status.code(), subject, subject, ProblemOf(status));
  CopyOption(status, renamed);
  return renamed;
}

absl::Status Within(std::string_view outer, const absl::Status& status) {
  if (status.ok()) return status;
  const std::string message(status.message());
  absl::Status wrapped(status.code(), fmt::format("{}: {}", outer, message));
  wrapped.SetPayload(kSubject, absl::Cord(std::string(outer)));
  wrapped.SetPayload(kProblem, absl::Cord(ProblemOf(status)));
  CopyOption(status, wrapped);
  return wrapped;
}

}  // namespace autocfg::base
