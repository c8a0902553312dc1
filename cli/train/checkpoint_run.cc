#include "cli/train/checkpoint_run.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "autocfg/v1/model.pb.h"
#include "base/json_reader.h"
#include "base/numbers.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/input/files.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"
#include "proto/convert/spec_convert.h"
#include "search/plan/layer_kinds.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr std::string_view kStep = "step-";

absl::Status WrongField(std::string_view name, std::string_view value) {
  return absl::InvalidArgumentError(fmt::format("run: cannot read {} '{}'; give --model and --plan too",
                                                base::Printable(name), base::Printable(value)));
}

// Sets a field from the text that a manifest has for it.
bool SetField(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
              const std::string& text) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& values = *message.GetReflection();
  if (field.is_repeated()) return false;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT64: {
      const auto value = base::ParseNumber<std::int64_t>(text);
      if (value) values.SetInt64(&message, &field, *value);
      return value.has_value();
    }
    case Field::CPPTYPE_DOUBLE: {
      const auto value = base::ParseNumber<double>(text);
      if (value) values.SetDouble(&message, &field, *value);
      return value.has_value();
    }
    case Field::CPPTYPE_BOOL:
      if (text != "true" && text != "false") return false;
      values.SetBool(&message, &field, text == "true");
      return true;
    case Field::CPPTYPE_STRING: values.SetString(&message, &field, text); return true;
    default: return false;
  }
}

// Returns the message that has the last field of a path, such as layer_kinds.0.window, and makes the path the
// name of that field. Adds messages to lists that are too short. Null: no list has the name in the path.
google::protobuf::Message* HolderOf(google::protobuf::Message& message, std::string_view& path) {
  using Field = google::protobuf::FieldDescriptor;
  google::protobuf::Message* holder = &message;
  const auto next = [&path] {
    const std::string_view part = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    return part;
  };
  while (path.find('.') != std::string_view::npos) {
    const Field* field = holder->GetDescriptor()->FindFieldByName(std::string(next()));
    if (field == nullptr || !field->is_repeated() || field->cpp_type() != Field::CPPTYPE_MESSAGE)
      return nullptr;
    const google::protobuf::Reflection& values = *holder->GetReflection();
    const auto number = base::ParseNumber<int>(next(), 0, static_cast<int>(kMostLayerRuns) - 1);
    if (!number) return nullptr;
    while (values.FieldSize(*holder, field) <= *number) values.AddMessage(holder, field);
    holder = values.MutableRepeatedMessage(holder, field, *number);
  }
  return holder;
}

// Sets the fields that the run names with this prefix. A field that it lacks keeps its default.
absl::Status SetFields(std::string_view prefix, const nlohmann::json& run,
                       google::protobuf::Message& message) {
  for (const auto& [name, value] : run.items()) {
    if (!name.starts_with(prefix)) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::string_view path = std::string_view(name).substr(prefix.size());
    google::protobuf::Message* holder = HolderOf(message, path);
    const auto* field =
        holder == nullptr ? nullptr : holder->GetDescriptor()->FindFieldByName(std::string(path));
    if (field == nullptr || !SetField(*holder, *field, text)) return WrongField(name, text);
  }
  return absl::OkStatus();
}

// Returns the directories of checkpoints with a manifest, newest first.
std::vector<std::filesystem::path> CheckpointsIn(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(directory) / kManifest, error)) return {directory};
  std::map<std::int64_t, std::filesystem::path, std::greater<>> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStep)) continue;
    const auto step = base::ParseNumber<std::int64_t>(std::string_view(name).substr(kStep.size()), 0);
    if (step && std::filesystem::exists(entry.path() / kManifest, error)) found.emplace(*step, entry.path());
  }
  std::vector<std::filesystem::path> newest_first;
  newest_first.reserve(found.size());
  for (auto& [step, path] : found) newest_first.push_back(std::move(path));
  return newest_first;
}

// Returns the manifest of a checkpoint whose files are all there, in their sizes; null if it is incomplete.
nlohmann::json CompleteManifest(const std::filesystem::path& checkpoint) {
  const auto text = ReadTextFile(checkpoint / kManifest);
  if (!text.ok()) return nullptr;
  const auto parsed = base::ParseJson("manifest", *text);
  if (!parsed.ok() || !parsed->is_object()) return nullptr;
  nlohmann::json manifest = *parsed;
  if (!manifest.contains("step") || !manifest["step"].is_number_integer() || !manifest.contains("run") ||
      !manifest["run"].is_object() || !manifest.contains("files") || !manifest["files"].is_array())
    return nullptr;
  for (const auto& file : manifest["files"]) {
    if (!file.is_object() || !file.contains("rank") || !file["rank"].is_number_integer() ||
        !file.contains("bytes") || !file["bytes"].is_number_integer())
      return nullptr;
    std::error_code error;
    const auto bytes = std::filesystem::file_size(
        checkpoint / fmt::format("rank-{}.safetensors", file["rank"].get<std::int64_t>()), error);
    if (error || static_cast<std::int64_t>(bytes) != file["bytes"].get<std::int64_t>()) return nullptr;
  }
  return manifest;
}

// Returns the text that a manifest has for a field of the message; nothing if there is no such field.
std::optional<std::string> TextOf(const google::protobuf::Message& message, std::string_view name) {
  using Field = google::protobuf::FieldDescriptor;
  const Field* const field = message.GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr || field->is_repeated()) return std::nullopt;
  const google::protobuf::Reflection& values = *message.GetReflection();
  switch (field->cpp_type()) {
    case Field::CPPTYPE_INT64: return fmt::format("{}", values.GetInt64(message, field));
    case Field::CPPTYPE_DOUBLE: return fmt::format("{}", values.GetDouble(message, field));
    case Field::CPPTYPE_BOOL: return fmt::format("{}", values.GetBool(message, field));
    case Field::CPPTYPE_STRING: return values.GetString(message, field);
    default: return std::nullopt;
  }
}

// Returns what the run has for a field that a manifest names; nothing if only the ranks know.
std::optional<std::string> TextOf(const ResumingRun& run, std::string_view name) {
  if (name == "seed") return fmt::format("{}", run.seed);
  if (name == "steps") return fmt::format("{}", run.steps);
  for (const auto& [prefix, message] :
       {std::pair<std::string_view, const google::protobuf::Message*>{"model.", &run.model},
        {"workload.", &run.workload},
        {"optimizer.", &run.optimizer}}) {
    if (name.starts_with(prefix)) return TextOf(*message, name.substr(prefix.size()));
  }
  return std::nullopt;
}

// Returns how to get the value that a manifest has for a field.
std::string Remedy(std::string_view name, const std::string& value) {
  if (name.starts_with("model.")) return "give the same --model, or leave it out";
  const std::size_t dot = name.find('.');
  std::string option(dot == std::string_view::npos ? name : name.substr(dot + 1));
  std::replace(option.begin(), option.end(), '_', '-');
  return fmt::format("give --{} {}", option, value);
}

}  // namespace

absl::StatusOr<BestPlan> ParseManifestRun(const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(const nlohmann::json json, base::ParseJson("manifest", text));
  if (!json.is_object() || !json.contains("run") || !json["run"].is_object() || !json.contains("plan") ||
      !json["plan"].is_string())
    return absl::InvalidArgumentError("it names no run and plan; give --model and --plan too");
  v1::ModelSpec model;
  v1::Workload workload;
  AUTOCFG_RETURN_IF_ERROR(SetFields("model.", json["run"], model));
  if (model.bias()) {  // it says all three, which the message then does not have
    model.clear_qkv_bias();
    model.clear_attention_out_bias();
    model.clear_mlp_bias();
  }
  AUTOCFG_RETURN_IF_ERROR(SetFields("workload.", json["run"], workload));
  BestPlan run;
  AUTOCFG_ASSIGN_OR_RETURN(run.model, FromProto(model));
  AUTOCFG_ASSIGN_OR_RETURN(run.workload, FromProto(workload));
  AUTOCFG_ASSIGN_OR_RETURN(run.plan, ParsePlanText(json["plan"].get<std::string>()));
  return run;
}

bool HoldsCheckpoint(const std::string& directory) {
  const std::vector<std::filesystem::path> checkpoints = CheckpointsIn(directory);
  return std::any_of(checkpoints.begin(), checkpoints.end(),
                     [](const auto& checkpoint) { return !CompleteManifest(checkpoint).is_null(); });
}

absl::StatusOr<BestPlan> RunOfCheckpoint(const std::string& directory) {
  const std::vector<std::filesystem::path> checkpoints = CheckpointsIn(directory);
  if (checkpoints.empty()) {
    return absl::NotFoundError(fmt::format(
        "{} holds no checkpoint; give a directory that --checkpoint wrote, or one step-N of it", directory));
  }
  const std::string path = checkpoints.front() / kManifest;
  AUTOCFG_ASSIGN_OR_RETURN(const auto text, ReadTextFile(path));
  auto run = ParseManifestRun(text);
  if (!run.ok()) return Where(path, run.status(), "manifest");
  return run;
}

absl::Status CheckResumes(const std::string& directory, const ResumingRun& run) {
  absl::Status finished;
  for (const std::filesystem::path& checkpoint : CheckpointsIn(directory)) {
    const nlohmann::json manifest = CompleteManifest(checkpoint);
    if (manifest.is_null()) continue;
    for (const auto& [name, value] : manifest["run"].items()) {
      const std::string there = value.is_string() ? value.get<std::string>() : value.dump();
      const std::optional<std::string> here = TextOf(run, name);
      if (!here || *here == there) continue;
      return absl::InvalidArgumentError(
          fmt::format("--resume: {} is of another run: {} is {} in the checkpoint and {} in this run; {}",
                      checkpoint.string(), name, base::Printable(there), base::Printable(*here),
                      Remedy(name, base::Printable(there))));
    }
    // The ranks read what is in its files. If it is damaged, they use an older one.
    const auto done = manifest["step"].get<std::int64_t>();
    if (done < run.steps) return absl::OkStatus();
    finished.Update(absl::InvalidArgumentError(
        fmt::format("--steps: {}: {} steps are done, and the run has {}; give more --steps",
                    checkpoint.string(), done, run.steps)));
  }
  return finished;
}

}  // namespace autocfg::cli
