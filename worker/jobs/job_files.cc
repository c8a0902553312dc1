#include "worker/jobs/job_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/status/statusor.h"
#include "base/os/atomic_file.h"
#include "base/text.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;

struct FieldUse {
  std::string_view field;
  TextUse use;
};

constexpr FieldUse kFieldUses[] = {
    {"autocfg.v1.TrainSpec.data_path", TextUse::kRead},
    {"autocfg.v1.TrainSpec.init_path", TextUse::kRead},
    {"autocfg.v1.TrainSpec.save_path", TextUse::kWritten},
    {"autocfg.v1.TrainSpec.checkpoint_path", TextUse::kWritten},
    {"autocfg.v1.TrainSpec.resume_path", TextUse::kRead},
    {"autocfg.v1.Job.name", TextUse::kNotAPath},
    {"autocfg.v1.Job.device", TextUse::kNotAPath},
    {"autocfg.v1.Job.engine", TextUse::kNotAPath},
    {"autocfg.v1.Job.trace_parent", TextUse::kNotAPath},
};

// Messages that describe models, plans, numbers and ops: none of their texts is a path.
constexpr std::string_view kWithoutPaths[] = {"autocfg.v1.ModelSpec",     "autocfg.v1.Workload",
                                              "autocfg.v1.Optimizer",     "autocfg.v1.ParallelPlan",
                                              "autocfg.v1.OptimizerSpec", "autocfg.v1.OpDesc"};

// Returns the file that `path` leads to, which need not exist in a directory that does.
absl::StatusOr<fs::path> Resolve(const std::string& path) {
  if (path.find('\0') != std::string::npos) return absl::InvalidArgumentError("it contains a NUL byte");
  std::error_code error;
  const fs::path target = base::FollowLinks(fs::absolute(path, error));
  fs::path resolved = fs::canonical(target, error);
  if (error == std::errc::no_such_file_or_directory) {
    // FollowLinks has followed a dangling link, so only the last name may be missing.
    const fs::path name = target.filename();
    if (name.empty() || name == "." || name == "..") return absl::NotFoundError(error.message());
    resolved = fs::canonical(target.parent_path(), error) / name;
  }
  if (error) return absl::NotFoundError(error.message());
  return resolved;
}

bool IsInside(const fs::path& file, const std::string& directory) {
  std::error_code error;
  const fs::path resolved = fs::canonical(directory, error);
  if (error) return false;
  const auto [end, rest] = std::mismatch(resolved.begin(), resolved.end(), file.begin(), file.end());
  return end == resolved.end() && rest != file.end();
}

absl::Status CheckFile(const std::string& name, const std::string& path,
                       const std::vector<std::string>& directories, std::string_view option) {
  const auto refuse = [&](const std::string& why) {
    return absl::PermissionDeniedError(fmt::format("{} '{}' {}", name, base::Printable(path), why));
  };
  if (directories.empty())
    return refuse(fmt::format("names a file, and this worker allows none; start it with {} DIR", option));
  const auto file = Resolve(path);
  if (!file.ok())
    return refuse(
        fmt::format("cannot be checked against {}: {}", option, std::string(file.status().message())));
  if (std::any_of(directories.begin(), directories.end(),
                  [&](const std::string& directory) { return IsInside(*file, directory); }))
    return absl::OkStatus();
  return refuse(
      fmt::format("is outside the directories that this worker allows; start it with {} DIR", option));
}

absl::Status CheckText(const google::protobuf::FieldDescriptor& field, const std::string& text,
                       const JobFileRules& rules) {
  if (text.empty()) return absl::OkStatus();
  const std::optional<TextUse> use = TextUseOf(field.full_name());
  if (!use)
    return absl::PermissionDeniedError(
        fmt::format("{} is a text that this worker does not know; update the worker", field.full_name()));
  switch (*use) {
    case TextUse::kNotAPath: break;
    case TextUse::kRead: return CheckFile(field.name(), text, rules.data_dirs, "--data-dir");
    case TextUse::kWritten: return CheckFile(field.name(), text, rules.save_dirs, "--save-dir");
  }
  return absl::OkStatus();
}

// Checks every text in the message, and in the messages in it.
absl::Status CheckTexts(const google::protobuf::Message& message, const JobFileRules& rules) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const Field*> set;
  reflection.ListFields(message, &set);
  for (const Field* field : set) {
    const bool is_text = field->cpp_type() == Field::CPPTYPE_STRING;
    if (!is_text && field->cpp_type() != Field::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      absl::Status status;
      if (is_text) {
        std::string scratch;
        status = CheckText(*field,
                           field->is_repeated()
                               ? reflection.GetRepeatedStringReference(message, field, i, &scratch)
                               : reflection.GetStringReference(message, field, &scratch),
                           rules);
      } else {
        status = CheckTexts(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                 : reflection.GetMessage(message, field),
                            rules);
      }
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<TextUse> TextUseOf(std::string_view field) {
  const std::string_view message = field.substr(0, field.rfind('.'));
  if (std::find(std::begin(kWithoutPaths), std::end(kWithoutPaths), message) != std::end(kWithoutPaths))
    return TextUse::kNotAPath;
  const auto* found = std::find_if(std::begin(kFieldUses), std::end(kFieldUses),
                                   [field](const FieldUse& known) { return known.field == field; });
  if (found == std::end(kFieldUses)) return std::nullopt;
  return found->use;
}

absl::Status CheckJobFiles(const v1::Job& job, const JobFileRules& rules) { return CheckTexts(job, rules); }

}  // namespace autocfg::worker
