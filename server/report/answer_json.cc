#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "nlohmann/json.hpp"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/export_convert.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "search/predict/predict_plan.h"
#include "server/report/json_values.h"
#include "server/report/report_parts.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRunnersUpShown = 10;

Json PredictedJson(const v1::Prediction& prediction) {
  return Json{{"step_s", Rounded(prediction.step_time_s(), 6)},
              {"low_s", Rounded(prediction.step_time_low_s(), 6)},
              {"high_s", Rounded(prediction.step_time_high_s(), 6)},
              {"time_parts", TimeParts(FromProto(prediction.breakdown_s()))},
              {"memory_parts", MemoryParts(FromProto(prediction.memory_bytes()))},
              {"memory_mib", MebibytesOf(prediction.memory_bytes().total())},
              {"capacity_mib", MebibytesOf(prediction.memory_bytes().capacity())}};
}

Json MeasuredJson(const v1::Measurement& measured) {
  const std::int64_t peak =
      (measured.peak_memory_bytes() > 0 ? measured.peak_memory_bytes() : measured.planned_memory_bytes()) +
      measured.device_overhead_bytes();
  return Json{
      {"step_s", Rounded(measured.median_step_time_s(), 6)},
      {"ci95_s", Rounded(measured.ci95_s(), 3)},
      {"steps", measured.step_time_s_size()},
      {"memory_mib", MebibytesOf(peak)},
      {"slice", measured.slice()},
      {"time_parts", measured.has_breakdown_s() ? TimeParts(FromProto(measured.breakdown_s())) : Json()},
      {"device", measured.device_fingerprint()},
      {"build", measured.build_id()}};
}

Json CandidateJson(const v1::Candidate& candidate, const SearchProblem& problem) {
  Json json{{"plan", WithShortSplit(candidate.plan_text())},
            {"provenance", std::string(Provenance(candidate))},
            {"seconds", Rounded(RankedSeconds(candidate), 6)},
            {"predicted", PredictedJson(candidate.predicted())},
            {"measured", candidate.has_measured() ? MeasuredJson(candidate.measured()) : Json()}};
  const auto plan = FromProto(candidate.plan());
  if (!plan.ok()) return json;
  const Throughput rates = ThroughputOf(problem, *plan, RankedSeconds(candidate));
  json["tokens_per_s"] = Rounded(rates.tokens_per_s);
  json["tokens_per_s_per_rank"] = Rounded(rates.tokens_per_s_per_gpu);
  json["mfu"] = rates.mfu ? Json(Rounded(*rates.mfu, 4)) : Json();
  return json;
}

}  // namespace

Json AnswerJson(const StudyReport& report) {
  const v1::Recommendation& answer = report.answer;
  Json json{{"best", answer.has_best() ? CandidateJson(answer.best(), report.problem) : Json()}};
  Json others = Json::array();
  for (const v1::Candidate& candidate : answer.runners_up()) {
    if (others.size() < kRunnersUpShown) others.push_back(CandidateJson(candidate, report.problem));
  }
  json["runners_up"] = std::move(others);
  json["matters_most"] = Json();
  if (answer.has_matters_most()) {
    const v1::OptionEffect& effect = answer.matters_most();
    json["matters_most"] = Json{{"option", effect.option()},
                                {"chosen", effect.chosen()},
                                {"instead", effect.instead()},
                                {"costs", Rounded(effect.costs(), 3)},
                                {"because", effect.because()}};
  }
  json["tied"] = TiedWithBest(answer);
  json["chance_of_better"] =
      answer.has_chance_of_better() ? Json(Rounded(answer.chance_of_better(), 3)) : Json();
  json["nothing_fits"] = answer.nothing_fits();
  json["stopped"] = answer.stopped();
  json["plans_left"] = answer.plans_left();
  json["left_out"] = answer.left_out();
  return json;
}

Json FrontJson(const StudyReport& report) {
  Json front = Json::array();
  for (const v1::Candidate& candidate : report.answer.pareto_memory()) {
    front.push_back(Json{{"plan", WithShortSplit(candidate.plan_text())},
                         {"provenance", std::string(Provenance(candidate))},
                         {"seconds", Rounded(RankedSeconds(candidate), 6)},
                         {"memory_mib", MebibytesOf(candidate.predicted().memory_bytes().total())}});
  }
  return front;
}

}  // namespace autocfg::server
