#include "cli/report/size_report.h"

#include <cmath>

#include "base/text.h"
#include "cli/report/prediction_report.h"
#include "cli/report/report.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "proto/answer/answer_json.h"
#include "search/plan/plan_text.h"
#include "search/question/prediction_json.h"
#include "search/sizing/model_family.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"
#include "search/text/workload_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidestPlan = 90;

bool HasPlan(const SizedModel& sized) {
  return sized.verdict == SizeVerdict::kInTime || sized.verdict == SizeVerdict::kTooLong;
}

Throughput RatesOf(const SizedModel& sized, const SizeQuestion& question) {
  return ThroughputOf({sized.model, sized.workload, question.cluster}, sized.plan,
                      sized.predicted.step_time_s);
}

TrainingAnswer TrainingOfSize(const SizedModel& sized, const SizeAsked& asked) {
  TrainingTerms terms = asked.terms;
  terms.tokens = sized.tokens;
  return {EstimateTraining(terms, {sized.model, sized.workload, asked.question.cluster},
                           sized.predicted.step_time_s),
          /*measured=*/false};
}

// "24.8 billion".
std::string SpelledParameters(const ModelSpec& model) {
  const auto count = static_cast<double>(ParameterCount(model));
  if (count < 1e9) return fmt::format("{:.3g} million", count / 1e6);
  return count < 1e12 ? fmt::format("{:.3g} billion", count / 1e9)
                      : fmt::format("{:.3g} trillion", count / 1e12);
}

std::string TokensOf(const SizedModel& sized, const SizeAsked& asked) {
  const std::string tokens = TokensText(sized.tokens);
  return asked.question.tokens
             ? tokens
             : fmt::format("{} ({:g} for each parameter)", tokens, kOptimalTokensPerParameter);
}

std::string NextLargerText(const SizeAnswer& answer) {
  if (!answer.next_larger) return "next larger: none, since this is the largest model of the family\n";
  const SizedModel& next = *answer.next_larger;
  return fmt::format("next larger: {}, {} parameters: {}\n", next.model.name, SpelledParameters(next.model),
                     WhyNot(next));
}

Json NextLargerJson(const SizedModel& next) {
  return Json{{"model", ModelJson(next.model)},
              {"parameters", ParameterCount(next.model)},
              {"tokens", next.tokens},
              {"days", HasPlan(next) ? Json(next.days) : Json(nullptr)},
              {"step_time_s", HasPlan(next) ? Json(next.predicted.step_time_s) : Json(nullptr)},
              {"verdict", Name(next.verdict)},
              {"reason", WhyNot(next)}};
}

Json TriedJson(const SizedModel& sized) {
  return Json{{"name", sized.model.name},
              {"parameters", ParameterCount(sized.model)},
              {"global_batch", sized.workload.global_batch},
              {"tokens", sized.tokens},
              {"days", HasPlan(sized) ? Json(sized.days) : Json(nullptr)},
              {"verdict", Name(sized.verdict)}};
}

}  // namespace

std::string WhyNot(const SizedModel& sized) {
  if (!sized.reason.empty()) return sized.reason;
  return fmt::format("it needs {} for {} tokens", DaysText(sized.days), TokensText(sized.tokens));
}

std::string WhyNone(const SizeAnswer& answer, const SizeAsked& asked) {
  const std::string gpus = base::CountText(RankCount(asked.question.cluster));
  if (!answer.next_larger) {
    return fmt::format(
        "no model of the family can use {} GPUs: {}; give a larger --global-batch or fewer GPUs", gpus,
        WhyNot(answer.tried.back()));
  }
  const SizedModel& first = *answer.next_larger;
  const bool smallest = answer.tried.front().model == first.model;
  return fmt::format(
      "no model of the family trains in {} on {} GPUs: {}, {}: {}", DaysText(asked.question.days), gpus,
      smallest ? "the smallest" : "the smallest that can use them all", first.model.name, WhyNot(first));
}

std::string SizeReport(const SizeAnswer& answer, const SizeAsked& asked, const std::string& next) {
  const SizeQuestion& question = asked.question;
  const SizedModel& best = *answer.best;
  const ModelSpec& model = best.model;
  const Throughput rates = RatesOf(best, question);
  const TrainingAnswer training = TrainingOfSize(best, asked);
  std::string text =
      fmt::format("model size: {} parameters: {}  (predicted)\n", SpelledParameters(model), model.name);
  std::vector<std::vector<std::string>> rows = {
      {"shape",
       fmt::format("{} layers, hidden {}, {} heads ({} of keys and values), ffn_hidden {}, vocab {}",
                   model.layers, model.hidden, model.heads, model.kv_heads, model.ffn_hidden, model.vocab)},
      {"tokens",
       fmt::format("{} in {} steps", TokensOf(best, asked), base::CountText(*training.estimate.steps))},
      {"time", fmt::format("{} of {}", DaysText(best.days), DaysText(question.days))},
      {"best plan", ShortPlan(PlanText(best.plan), kWidestPlan)},
      {"step time", StepTimeText(best.predicted, "")},
      {"tokens/s/GPU", fmt::format("{}{}", base::CountText(std::llround(rates.tokens_per_s_per_gpu)),
                                   rates.mfu ? fmt::format(", MFU {}", PercentText(*rates.mfu, 1)) : "")},
      {"memory per rank", fmt::format("{} of {}", base::BytesText(best.predicted.memory.Total()),
                                      base::BytesText(best.predicted.capacity_bytes))}};
  text += Table(rows, {.heading = false});
  if (asked.terms.price_per_gpu_hour) text += "\n" + TrainingText(training);
  text += "\n" + NextLargerText(answer);
  text += "\n" + WorkloadText({model, best.workload, question.cluster}) + "\n" +
          ClusterText(question.cluster, RankCount(question.cluster)) + "\n";
  text = Wrapped(text);
  if (!next.empty()) text += CommandLines("next: ", next);
  return text;
}

Json SizeJson(const SizeAnswer& answer, const SizeAsked& asked) {
  const SizeQuestion& question = asked.question;
  Json json{{"gpus", RankCount(question.cluster)}, {"days_budget", question.days}};
  if (answer.best) {
    const SizedModel& best = *answer.best;
    json["model"] = ModelJson(best.model);
    json["parameters"] = ParameterCount(best.model);
    json["tokens"] = best.tokens;
    json["days"] = best.days;
    json["workload"] = WorkloadJson(best.workload);
    json["best"] = Json{{"plan", PlanJson(best.plan)},
                        {"plan_text", PlanText(best.plan)},
                        {"provenance", "predicted"},
                        {"measured", nullptr},
                        {"predicted", PredictionJson(best.predicted, RatesOf(best, question))}};
    json["training"] = TrainingJson(TrainingOfSize(best, asked));
  } else {
    for (const char* key : {"model", "parameters", "tokens", "days", "workload", "best", "training"})
      json[key] = nullptr;
    json["reason"] = WhyNone(answer, asked);
  }
  json["cluster"] = ClusterJson(question.cluster);
  json["next_larger"] = answer.next_larger ? NextLargerJson(*answer.next_larger) : Json(nullptr);
  json["tried"] = Json::array();
  for (const SizedModel& sized : answer.tried) json["tried"].push_back(TriedJson(sized));
  json["engine"] = EngineText(asked.question.cluster.engine);
  json["notes"] = asked.notes;
  return json;
}

}  // namespace autocfg::cli
