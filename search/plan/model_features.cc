// What is predicted and run of the features of a model that not every model has.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/plan/model_spec.h"

namespace autocfg {
namespace {

constexpr std::array<std::string_view, 5> kRopeScalings = {"linear", "dynamic", "yarn", "longrope", "llama3"};

// How much of a feature works.
enum class Support : std::uint8_t {
  kNone,       // neither predicted nor run
  kPredicted,  // its time and memory are predicted, the engine does not run it
  kRun,        // both
};

// A feature, as the field of the model that turns it on.
struct Feature {
  std::string_view field;
  std::string (*value)(const ModelSpec&);  // as text; empty: the model does not have the feature
  Support support;
  std::string_view instead;  // what to do, as the end of a message
};

std::string Text(double value, double none) { return value == none ? "" : fmt::format("{}", value); }
std::string Text(std::int64_t value) { return value == 0 ? "" : fmt::format("{}", value); }
std::string Text(bool value) { return value ? "true" : ""; }

// A feature that predictor and engine learn changes its row here, and nothing else says what they support.
constexpr Feature kFeatures[] = {
    {"position",
     [](const ModelSpec& m) -> std::string { return m.position == Position::kAlibi ? "alibi" : ""; },
     Support::kRun, "use learned, rope or none"},
    {"qk_norm",
     [](const ModelSpec& m) { return m.qk_norm == QkNorm::kNone ? "" : std::string(Name(m.qk_norm)); },
     Support::kRun, "use none"},
    {"norm_placement",
     [](const ModelSpec& m) {
       return m.norm_placement == NormPlacement::kPre ? "" : std::string(Name(m.norm_placement));
     },
     Support::kRun, "use pre"},
    {"parallel_residual", [](const ModelSpec& m) { return Text(m.parallel_residual); }, Support::kRun,
     "use false"},
    {"embedding_norm", [](const ModelSpec& m) { return Text(m.embedding_norm); }, Support::kRun, "use false"},
    {"partial_rotary_factor", [](const ModelSpec& m) { return Text(m.partial_rotary_factor, 1); },
     Support::kRun, "use 1, which rotates whole heads"},
    {"no_rope_layer_interval", [](const ModelSpec& m) { return Text(m.no_rope_layer_interval); },
     Support::kRun, "use 0, which rotates in all layers"},
    {"embedding_scale", [](const ModelSpec& m) { return Text(m.embedding_scale, 1); }, Support::kRun,
     "use 1"},
    {"residual_scale", [](const ModelSpec& m) { return Text(m.residual_scale, 1); }, Support::kRun, "use 1"},
    {"logit_scale", [](const ModelSpec& m) { return Text(m.logit_scale, 1); }, Support::kRun, "use 1"},
    {"sliding_window", [](const ModelSpec& m) { return Text(m.sliding_window); }, Support::kPredicted,
     "remove it to attend to the whole sequence"},
    {"attention_softcap", [](const ModelSpec& m) { return Text(m.attention_softcap, 0); },
     Support::kPredicted, "remove it"},
    {"output_softcap", [](const ModelSpec& m) { return Text(m.output_softcap, 0); }, Support::kPredicted,
     "remove it"},
    {"attention_scale", [](const ModelSpec& m) { return Text(m.attention_scale, 0); }, Support::kRun,
     "remove it to scale scores by 1 / sqrt(head_dim)"},
    {"rope_scaling", [](const ModelSpec& m) { return m.rope_scaling; }, Support::kPredicted,
     "remove it to train with the frequencies of rope_theta alone"},
};

}  // namespace

absl::Status CheckRopeScaling(std::string_view name) {
  if (IsRopeScaling(name)) return absl::OkStatus();
  return base::InvalidArgument("model",
                               fmt::format("rope_scaling is not known; it must be one of {}, or left out",
                                           fmt::join(kRopeScalings, ", ")));
}

bool IsRopeScaling(std::string_view name) {
  return std::find(kRopeScalings.begin(), kRopeScalings.end(), name) != kRopeScalings.end();
}

absl::Status CheckPredictable(const ModelSpec& model) {
  for (const Feature& feature : kFeatures) {
    if (feature.support != Support::kNone) continue;
    if (const std::string value = feature.value(model); !value.empty())
      return base::Unimplemented(
          "model", fmt::format("{} {} is not supported yet; {}", feature.field, value, feature.instead));
  }
  return absl::OkStatus();
}

absl::Status CheckEngineSupports(const ModelSpec& model) {
  AUTOCFG_RETURN_IF_ERROR(CheckPredictable(model));
  for (const Feature& feature : kFeatures) {
    if (feature.support == Support::kRun) continue;
    if (const std::string value = feature.value(model); !value.empty()) {
      return base::Unimplemented(
          "model", fmt::format("{} {} can be predicted, but running it is not supported yet; {}",
                               feature.field, value, feature.instead));
    }
  }
  return absl::OkStatus();
}

}  // namespace autocfg
