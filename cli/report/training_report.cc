#include "cli/report/training_report.h"

#include <cmath>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json NumberOrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// "75,544"; "57.6" below a thousand.
std::string AmountText(double amount) {
  if (amount < 1000) return fmt::format("{:.3g}", amount);
  return amount < 1e18 ? base::CountText(std::llround(amount)) : fmt::format("{:.3g}", amount);
}

// "12.3 days, 37,772 GPU-hours, cost 75,544".
std::string SpentText(double days, double gpu_hours, const std::optional<double>& cost) {
  std::string text = fmt::format("{}, {} GPU-hours", DaysText(days), AmountText(gpu_hours));
  if (cost) text += fmt::format(", cost {}", AmountText(*cost));
  return text;
}

Json FailuresJson(const FailureEstimate& failures) {
  const auto if_progresses = [&](double value) { return failures.progresses ? Json(value) : Json(nullptr); };
  return Json{{"job_mtbf_s", failures.job_mtbf_s},
              {"checkpoint_s", failures.checkpoint_s},
              {"restart_s", failures.restart_s},
              {"progresses", failures.progresses},
              {"checkpoint_interval_s", if_progresses(failures.checkpoint_interval_s)},
              {"slowdown", if_progresses(failures.slowdown)},
              {"days", NumberOrNull(failures.days)},
              {"gpu_hours", NumberOrNull(failures.gpu_hours)},
              {"cost", NumberOrNull(failures.cost)}};
}

// "12.3% longer", or "268 times as long" from twice the time on.
std::string SlowdownText(double slowdown) {
  return slowdown < 2 ? fmt::format("{:.1f}% longer", 100 * (slowdown - 1))
                      : fmt::format("{:.3g} times as long", slowdown);
}

std::string FailuresText(const FailureEstimate& failures) {
  const std::string often = DaysText(failures.job_mtbf_s / 86400);
  if (!failures.progresses) {
    return fmt::format(
        "  with a failure every {}: the job does not progress, since a checkpoint takes {} and a restart "
        "{}\n",
        often, base::SecondsText(failures.checkpoint_s), base::SecondsText(failures.restart_s));
  }
  std::string text = fmt::format("  with a failure every {}: {}", often, SlowdownText(failures.slowdown));
  if (failures.days) text += ", " + SpentText(*failures.days, *failures.gpu_hours, failures.cost);
  return text + fmt::format("\n  best checkpoint: after every {} of training; writing it takes {}\n",
                            base::SecondsText(failures.checkpoint_interval_s),
                            base::SecondsText(failures.checkpoint_s));
}

}  // namespace

std::optional<TrainingAnswer> TrainingOf(const TrainingTerms& terms, const SearchAnswer& answer) {
  const auto& [question, found] = answer;
  const double step_time_s = RankedSeconds(found.best());
  if (!terms.Asked() || !found.nothing_fits().empty() || !(step_time_s > 0)) return std::nullopt;
  return TrainingAnswer{EstimateTraining(terms, question, step_time_s), MeasuredWhole(found.best())};
}

Json TrainingJson(const TrainingAnswer& training) {
  const TrainingEstimate& estimate = training.estimate;
  Json json{{"tokens", NumberOrNull(estimate.tokens)},
            {"steps", NumberOrNull(estimate.steps)},
            {"days", NumberOrNull(estimate.days)},
            {"gpu_hours", NumberOrNull(estimate.gpu_hours)},
            {"cost", NumberOrNull(estimate.cost)},
            {"cost_per_billion_tokens", NumberOrNull(estimate.cost_per_billion_tokens)},
            {"price_per_gpu_hour", NumberOrNull(estimate.price_per_gpu_hour)},
            {"step_time_s", estimate.step_time_s},
            {"provenance", training.measured ? "measured" : "predicted"}};
  json["failures"] = estimate.failures ? FailuresJson(*estimate.failures) : Json(nullptr);
  return json;
}

std::string TrainingText(const std::optional<TrainingAnswer>& training) {
  if (!training) return "";
  const TrainingEstimate& estimate = training->estimate;
  std::string text =
      fmt::format("training, by the {} step time: ", training->measured ? "measured" : "predicted");
  if (estimate.tokens) {
    text += fmt::format("{} tokens in {} steps: {}", TokensText(*estimate.tokens),
                        base::CountText(*estimate.steps),
                        SpentText(*estimate.days, *estimate.gpu_hours, estimate.cost));
    if (estimate.cost_per_billion_tokens) text += ", ";
  }
  if (estimate.cost_per_billion_tokens)
    text += fmt::format("{} per billion tokens", AmountText(*estimate.cost_per_billion_tokens));
  if (estimate.price_per_gpu_hour) text += ", at " + base::PriceText(*estimate.price_per_gpu_hour);
  if (text.ends_with(": ")) text.resize(text.size() - 1);  // only failures are asked for
  text += "\n";
  if (estimate.failures) text += FailuresText(*estimate.failures);
  return text;
}

std::vector<std::string> TrainingTitles(const TrainingTerms& terms) {
  std::vector<std::string> titles;
  if (terms.tokens) titles.emplace_back("training");
  if (terms.tokens && terms.price_per_gpu_hour) titles.emplace_back("cost");
  if (!terms.tokens && terms.price_per_gpu_hour) titles.emplace_back("cost/1B tokens");
  if (terms.node_mtbf_s) titles.emplace_back("with failures");
  return titles;
}

std::vector<std::string> TrainingCells(const TrainingTerms& terms,
                                       const std::optional<TrainingAnswer>& training) {
  if (!training) return std::vector<std::string>(TrainingTitles(terms).size(), "-");
  const TrainingEstimate& estimate = training->estimate;
  std::vector<std::string> cells;
  if (terms.tokens) cells.push_back(DaysText(*estimate.days));
  if (terms.tokens && terms.price_per_gpu_hour) cells.push_back(AmountText(*estimate.cost));
  if (!terms.tokens && terms.price_per_gpu_hour)
    cells.push_back(AmountText(*estimate.cost_per_billion_tokens));
  if (!terms.node_mtbf_s) return cells;
  const FailureEstimate& failures = *estimate.failures;
  cells.push_back(!failures.progresses ? "no progress"
                  : failures.days      ? DaysText(*failures.days)
                                       : SlowdownText(failures.slowdown));
  return cells;
}

std::string TokensText(double tokens) {
  for (const auto& [unit, letter] : {std::pair(1e12, "T"), std::pair(1e9, "B"), std::pair(1e6, "M")}) {
    if (tokens >= unit) return fmt::format("{:.4g}{}", tokens / unit, letter);
  }
  return base::CountText(std::llround(tokens));
}

std::string DaysText(double days) {
  if (days < 2) return base::SecondsText(days * 86400);
  if (days < 100) return fmt::format("{:.1f} days", days);
  return days < 1e15 ? fmt::format("{} days", base::CountText(std::llround(days)))
                     : fmt::format("{:.3g} days", days);
}

}  // namespace autocfg::cli
