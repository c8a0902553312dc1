// Parsers of base and search. If a parser has a printer, what it parses is printed and parsed again.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "base/units.h"
#include "nlohmann/json.hpp"
#include "search/cost/shape_corrections.h"
#include "search/fit/measurements.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/said_options.h"
#include "search/frameworks/shell/shell_script.h"
#include "search/hugging_face/hugging_face.h"
#include "search/plan/cluster/calibration.h"
#include "search/plan/plan_text.h"
#include "search/predict/predict_plan.h"
#include "search/question/prediction_json.h"
#include "search/space/search_space.h"
#include "search/text/calibration_json.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"
#include "tests/fuzz/targets/fuzz_target.h"

namespace autocfg::test {
namespace {

constexpr std::size_t kMostShapesToTry = 100;  // of a calibration: more take long

// Calls `parse` with the input as JSON, unless it is none.
template <typename Parse>
void WithJson(std::string_view input, const Parse& parse) {
  const auto json = base::ParseJson("input", input);
  if (CheckStatus(json.status())) parse(*json);
}

void FuzzPlanText(std::string_view input) {
  const auto plan = ParsePlanText(input);
  if (!CheckStatus(plan.status())) return;
  const std::string text = PlanText(*plan);
  for (const std::string& printed : {text, WithShortSplit(text)}) {
    const auto again = ParsePlanText(printed);
    CheckThat(again.ok() && PlanJson(*again) == PlanJson(*plan), "the text of a plan is another plan");
  }
  CheckMessage(ShortPlanText(*plan));
}

void FuzzPlanJson(std::string_view input) {
  WithJson(input, [](const nlohmann::ordered_json& json) {
    const auto plan = ParsePlanJson(json);
    if (!CheckStatus(plan.status())) return;
    const auto again = ParsePlanJson(PlanJson(*plan));
    CheckThat(again.ok() && PlanJson(*again) == PlanJson(*plan), "the JSON of a plan is another plan");
  });
}

void FuzzModelJson(std::string_view input) {
  const auto model = ParseModelText(input);
  if (!CheckStatus(model.status())) return;
  const auto again = ParseModelText(ModelJson(*model).dump());
  CheckThat(again.ok() && *again == *model, "the JSON of a model is another model");
}

void FuzzClusterJson(std::string_view input) {
  WithJson(input, [](const nlohmann::ordered_json& json) {
    auto cluster = ParseClusterJson(json);
    if (!CheckStatus(cluster.status())) return;
    const auto again = base::ParseJson("cluster", ClusterJson(*cluster).dump());
    CheckThat(again.ok(), "the JSON of a cluster is no JSON");
    auto parsed = ParseClusterJson(*again);
    if (parsed.ok()) parsed->read_as = cluster->read_as = {};  // on how the text was written
    CheckThat(parsed.ok() && *parsed == *cluster, "the JSON of a cluster is another cluster");
  });
}

void FuzzClusterName(std::string_view input) { CheckStatus(PresetCluster(input).status()); }

void FuzzCalibrationJson(std::string_view input) {
  WithJson(input, [](const nlohmann::ordered_json& json) {
    const auto calibration = ParseCalibrationJson(json);
    if (!CheckStatus(calibration.status()) || !CheckStatus(Validate(*calibration))) return;
    if (calibration->layers.shapes.size() > kMostShapesToTry) return;
    const LogCorrection there = ShapeCorrections(calibration->layers).At({});
    CheckThat(std::isfinite(there.mean) && std::isfinite(there.sigma), "a correction is not finite");
  });
}

void FuzzEngineProfile(std::string_view input) {
  WithJson(input, [](const nlohmann::ordered_json& json) { CheckStatus(ParseEngineJson(json).status()); });
}

void FuzzUnits(std::string_view input) {
  if (input.empty()) return;
  const auto quantity = static_cast<base::Quantity>(static_cast<unsigned char>(input[0]) %
                                                    (static_cast<int>(base::Quantity::kPrice) + 1));
  const auto value = base::ParseQuantity(quantity, input.substr(1));
  if (!CheckStatus(value.status())) return;
  CheckThat(*value >= 0, "a quantity below 0");
  CheckMessage(quantity == base::Quantity::kPrice ? base::PriceText(*value)
                                                  : base::QuantityText(quantity, *value));
}

void FuzzMeasurements(std::string_view input) {
  static const ClusterSpec cluster = PresetCluster("a100-80gb-sxm:1x8").value();
  CheckStatus(ParseMeasurements(input, {}, cluster).status());
}

void FuzzColumnDefaults(std::string_view input) { CheckStatus(ParseColumnDefaults(input).status()); }
void FuzzSaidOptions(std::string_view input) { CheckStatus(ParseSaidOptions(input).status()); }

void FuzzAxes(std::string_view input) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= input.size() && lines.size() < 32;) {
    const std::size_t end = std::min(input.find('\n', begin), input.size());
    lines.emplace_back(input.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto axes = ParseAxisValues(lines);
  if (!CheckStatus(axes.status())) return;
  static const ModelSpec model = ModelPreset("gpt2-124m").value();
  CheckStatus(SearchSpace::Create(model, Workload{.global_batch = 16, .seq_len = 1024}, 8, *axes).status());
}

void FuzzHuggingFace(std::string_view input) {
  WithJson(input, [](const nlohmann::ordered_json& json) {
    std::vector<std::string> notes;
    CheckStatus(ImportHuggingFace(json, &notes).status());
    for (const std::string& note : notes) CheckMessage(note);
  });
}

void FuzzFramework(std::string_view framework, std::string_view input) {
  ReadingOptions options;
  options.ranks = 8;
  options.vocab = 50257;
  options.seq_len = 1024;
  if (framework == "deepspeed") options.model = ModelPreset("gpt2-124m").value();
  const auto run = ReadFrameworkFile(framework, "file", input, options);
  if (!CheckStatus(run.status())) return;
  for (const std::string& note : run->notes) CheckMessage(note);
  const auto again = ParsePlanText(PlanText(run->plan));
  CheckThat(again.ok() && PlanJson(*again) == PlanJson(run->plan), "the text of a read plan is another plan");
}
void FuzzMegatron(std::string_view input) { FuzzFramework("megatron", input); }
void FuzzMegatronBridge(std::string_view input) { FuzzFramework("megatron-bridge", input); }
void FuzzNemo(std::string_view input) { FuzzFramework("nemo", input); }
void FuzzDeepSpeed(std::string_view input) { FuzzFramework("deepspeed", input); }
void FuzzTorchtitan(std::string_view input) { FuzzFramework("torchtitan", input); }

void FuzzShellScript(std::string_view input) { CheckStatus(ReadShellScript("script", input).status()); }

void FuzzPredictionRequest(std::string_view input) {
  static PredictorCache predictors;
  const AnsweredLine answer = AnswerPredictionLine(input, predictors);
  CheckThat(answer.text.find('\n') == std::string::npos, "an answer of several lines");
  CheckThat(base::ParseJson("answer", answer.text).ok(), "an answer that is no JSON");
}

constexpr FuzzTarget kSearchTargets[] = {
    {"plan_text", FuzzPlanText},
    {"plan_json", FuzzPlanJson},
    {"model_json", FuzzModelJson},
    {"cluster_json", FuzzClusterJson},
    {"cluster_name", FuzzClusterName},
    {"calibration_json", FuzzCalibrationJson},
    {"engine_profile", FuzzEngineProfile, "search/data/engines/megatron.json"},
    {"units", FuzzUnits},
    {"measurements", FuzzMeasurements},
    {"column_defaults", FuzzColumnDefaults},
    {"said_options", FuzzSaidOptions},
    {"axes", FuzzAxes},
    {"hugging_face", FuzzHuggingFace},
    {"megatron", FuzzMegatron,
     "tests/search/frameworks/files/arrays.txt,tests/search/frameworks/files/one_command.txt"},
    {"megatron_bridge", FuzzMegatronBridge, "tests/search/frameworks/files/bridge.overrides"},
    {"nemo", FuzzNemo, "tests/search/frameworks/files/config.yaml"},
    {"deepspeed", FuzzDeepSpeed, "tests/search/frameworks/files/zero3.json"},
    {"torchtitan", FuzzTorchtitan, "tests/search/frameworks/files/llama3.toml"},
    {"shell_script", FuzzShellScript,
     "tests/search/frameworks/files/arrays.txt,tests/search/frameworks/files/slurm.txt"},
    {"prediction_request", FuzzPredictionRequest, {}, 100},
};

}  // namespace

std::span<const FuzzTarget> SearchTargets() { return kSearchTargets; }

}  // namespace autocfg::test
