#include "cli/train/checkpoint_run.h"

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "autocfg/v1/model.pb.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "cli/input/files.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr std::string_view kStep = "step-";

absl::Status WrongField(std::string_view name, std::string_view value) {
  return absl::InvalidArgumentError(
      fmt::format("run: cannot read {} '{}'; give --model and --plan too", name, base::Printable(value)));
}

template <typename T>
bool ParseAll(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Sets a field from the text that a manifest has for it.
bool SetField(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
              const std::string& text) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& values = *message.GetReflection();
  if (field.is_repeated()) return false;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT64: {
      std::int64_t value = 0;
      if (!ParseAll(text, value)) return false;
      values.SetInt64(&message, &field, value);
      return true;
    }
    case Field::CPPTYPE_DOUBLE: {
      double value = 0;
      if (!ParseAll(text, value)) return false;
      values.SetDouble(&message, &field, value);
      return true;
    }
    case Field::CPPTYPE_BOOL:
      if (text != "true" && text != "false") return false;
      values.SetBool(&message, &field, text == "true");
      return true;
    case Field::CPPTYPE_STRING: values.SetString(&message, &field, text); return true;
    default: return false;
  }
}

// Sets the fields that the run names with this prefix. A field that it lacks keeps its default.
absl::Status SetFields(std::string_view prefix, const nlohmann::json& run,
                       google::protobuf::Message& message) {
  for (const auto& [name, value] : run.items()) {
    if (!name.starts_with(prefix)) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const auto* field = message.GetDescriptor()->FindFieldByName(name.substr(prefix.size()));
    if (field == nullptr || !SetField(message, *field, text)) return WrongField(name, text);
  }
  return absl::OkStatus();
}

// Returns the directory of the newest checkpoint; empty if there is none.
std::filesystem::path NewestIn(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(directory) / kManifest, error)) return directory;
  std::filesystem::path newest;
  std::int64_t most = -1;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with(kStep) || !ParseAll(std::string_view(name).substr(kStep.size()), step)) continue;
    if (step <= most || !std::filesystem::exists(entry.path() / kManifest, error)) continue;
    most = step;
    newest = entry.path();
  }
  return newest;
}

}  // namespace

absl::StatusOr<BestPlan> ParseManifestRun(const std::string& text) {
  const auto parsed = base::ParseJson("manifest", text);
  if (!parsed.ok()) return parsed.status();
  const nlohmann::json json = *parsed;
  if (!json.is_object() || !json.contains("run") || !json["run"].is_object() || !json.contains("plan") ||
      !json["plan"].is_string())
    return absl::InvalidArgumentError("it names no run and plan; give --model and --plan too");
  v1::ModelSpec model;
  v1::Workload workload;
  if (auto status = SetFields("model.", json["run"], model); !status.ok()) return status;
  if (model.bias()) {  // it says all three, which the message then does not have
    model.clear_qkv_bias();
    model.clear_attention_out_bias();
    model.clear_mlp_bias();
  }
  if (auto status = SetFields("workload.", json["run"], workload); !status.ok()) return status;
  BestPlan run;
  auto read_model = FromProto(model);
  if (!read_model.ok()) return read_model.status();
  run.model = *std::move(read_model);
  auto read_workload = FromProto(workload);
  if (!read_workload.ok()) return read_workload.status();
  run.workload = *std::move(read_workload);
  auto plan = ParsePlanText(json["plan"].get<std::string>());
  if (!plan.ok()) return plan.status();
  run.plan = *std::move(plan);
  return run;
}

absl::StatusOr<BestPlan> RunOfCheckpoint(const std::string& directory) {
  const std::filesystem::path newest = NewestIn(directory);
  if (newest.empty()) {
    return absl::NotFoundError(fmt::format(
        "{} holds no checkpoint; give a directory that --checkpoint wrote, or one step-N of it", directory));
  }
  const std::string path = newest / kManifest;
  const auto text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  auto run = ParseManifestRun(*text);
  if (!run.ok()) return Where(path, run.status(), "manifest");
  return run;
}

}  // namespace autocfg::cli
