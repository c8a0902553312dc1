#include "cli/report/report.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/report/prediction_report.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/answer/answer.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "proto/short_name.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/plan/plan_text.h"
#include "search/predict/predict_plan.h"

namespace autocfg::cli {
namespace {

constexpr std::size_t kPlanColumns = 100;  // of a plan on a line of its own
constexpr int kFrontRows = 8;
// Reason of the plans that were to fit by prediction, and did not when they ran.
constexpr std::string_view kMeasuredOutOfMemory = "measured_out_of_memory";

// Returns "250 ms +- 2.5 ms": the median and half its interval.
std::string MedianText(const v1::Measurement& measured) {
  return fmt::format("{} +- {}", base::SecondsText(measured.median_step_time_s()),
                     base::SecondsText(measured.ci95_s()));
}

std::string PredictedTime(const v1::Prediction& predicted) { return StepTimeText(FromProto(predicted), ""); }

// Returns "27,908 (13,954 a rank)".
std::string RateText(const Throughput& rates) {
  if (!(rates.tokens_per_s > 0)) return "-";
  return fmt::format("{} ({} a rank)", base::CountText(std::llround(rates.tokens_per_s)),
                     base::CountText(std::llround(rates.tokens_per_s_per_gpu)));
}

// Returns "130.7 TFLOP/s a rank, MFU 41.9%".
std::string ModelFlopsText(const Throughput& rates) {
  if (!(rates.model_flops_per_s_per_gpu > 0)) return "-";
  std::string text = FlopsText(rates.model_flops_per_s_per_gpu) + " a rank";
  if (rates.mfu) text += fmt::format(", MFU {:.1f}%", 100 * *rates.mfu);
  return text;
}

// Returns the rejection counts as lines; empty if nothing was rejected.
std::string Rejected(const v1::Counts& counts) {
  std::vector<std::pair<std::string, std::int64_t>> reasons(counts.rejected().begin(),
                                                            counts.rejected().end());
  std::sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  constexpr std::string_view kTitle = "rejected: ";
  std::string text, line(kTitle);
  for (const auto& [reason, count] : reasons) {
    if (count == 0) continue;
    const std::string entry = fmt::format("{} {}", reason, base::CountText(count));
    if (line.size() > kTitle.size() && line.size() + entry.size() + 1 > kLineColumns) {
      text += line.substr(0, line.size() - 1) + "\n";
      line = std::string(kTitle.size(), ' ');
    }
    line += entry + ", ";
  }
  return line == kTitle ? "" : text + line.substr(0, line.size() - 2) + "\n";
}

// Returns name and version of the engine that was measured.
std::string EngineText(const v1::Measurement& measured) {
  return fmt::format("{} {}", measured.engine(), base::OneLine(measured.engine_version()));
}

// Returns the memory that was measured; of another engine what its log says.
std::string MemoryCell(const v1::Measurement& measured) {
  if (!measured.engine().empty()) {
    const std::int64_t peak = measured.peak_memory_bytes();
    return peak > 0 ? base::BytesText(peak) + " peak, as its log says" : "-";
  }
  return fmt::format("{} peak, {} beside it", base::BytesText(measured.peak_memory_bytes()),
                     base::BytesText(measured.device_overhead_bytes()));
}

// Says how the times of a measured candidate were obtained.
std::string MeasuredHow(const v1::Candidate& candidate, const SearchQuestion& question) {
  if (candidate.measured().slice()) return "predicted; measured: one rank alone, a slice";
  if (!candidate.measured().engine().empty())
    return fmt::format("measured on {}", EngineText(candidate.measured()));
  return IsEmulated(question.device) ? "measured on the paced device: emulated" : "measured";
}

std::string MemoryOf(const v1::Prediction& predicted) {
  return fmt::format("{} of {}", base::BytesText(predicted.memory_bytes().total()),
                     base::BytesText(predicted.memory_bytes().capacity()));
}

std::string FreeMemoryOf(const v1::Prediction& predicted) {
  const auto& memory = predicted.memory_bytes();
  const std::int64_t free = std::max<std::int64_t>(memory.capacity() - memory.total(), 0);
  return fmt::format("{} ({})", base::BytesText(free),
                     PercentText(static_cast<double>(free), static_cast<double>(memory.capacity())));
}

std::string BestLine(const v1::Candidate& best, std::string_view how) {
  return PlanLine("best plan:", ShortPlan(best.plan_text(), kPlanColumns), how);
}

std::string BestText(const v1::Candidate& best, const SearchQuestion& question) {
  const auto& measured = best.measured();
  const auto& predicted = best.predicted();
  std::vector<std::vector<std::string>> rows = {{"", "measured", "predicted (90% interval)"}};
  rows.push_back({"step time", MeasuredCell(measured), PredictedTime(predicted)});
  if (best.has_corrected()) rows.push_back({"corrected", "", PredictedTime(best.corrected())});
  const Throughput expected = RatesAt(question, best, predicted.step_time_s());
  const Throughput seen =
      measured.slice() ? Throughput() : RatesAt(question, best, measured.median_step_time_s());
  rows.push_back({"tokens/s", RateText(seen), RateText(expected)});
  rows.push_back({"model FLOPs", ModelFlopsText(seen), ModelFlopsText(expected)});
  rows.push_back({"memory per rank", MemoryCell(measured), MemoryOf(predicted)});
  rows.push_back({"memory free", "", FreeMemoryOf(predicted)});
  if (!best.has_measured()) {
    for (std::vector<std::string>& row : rows) row.erase(row.begin() + 1);
    return BestLine(best, "predicted") + Table(rows);
  }
  std::string text = BestLine(best, MeasuredHow(best, question)) + Table(rows);
  text += fmt::format("  median of {} steps, +- half the 95% interval", measured.step_time_s_size());
  if (measured.slice())
    return text + "; the plan is larger than this machine, which corrects its prediction by a slice\n";
  if (IsEmulated(question.device)) return text + "; every op took its modelled time\n";
  if (const double ranks = measured.ranks_per_device(); ranks > 0)
    return text + fmt::format("; {:g} rank{} per GPU\n", ranks, ranks == 1 ? "" : "s");
  return text + fmt::format("; {:g} rank{} per core\n", measured.ranks_per_core(),
                            measured.ranks_per_core() == 1 ? "" : "s");
}

// Describes the workload and the machine or cluster.
std::string MachineText(const SearchQuestion& question) {
  const ClusterSpec& cluster = question.cluster;
  if (!cluster.local) return WorkloadText(question) + "\n" + ClusterText(cluster, RankCount(cluster)) + "\n";
  const std::int64_t ranks = RankCount(cluster);
  std::string text = WorkloadText(question) + "\n";
  const bool here = question.coordinator.empty();
  text += fmt::format("{}, {} rank{}",
                      here ? "machine: this one" : "machines: the workers of " + question.coordinator,
                      base::CountText(ranks), ranks == 1 ? "" : "s");
  if (!cluster.groups.empty()) {
    const NodeGroup& group = cluster.groups.front();
    text += fmt::format(" on {} {}, {} a rank", here ? "its" : "their",
                        group.device.name.empty() ? Name(DeviceKind::kCpu) : group.device.name,
                        base::BytesText(group.device.memory_bytes));
    if (group.ranks_per_core > 1)
      text += fmt::format(", {:g} ranks per {}", group.ranks_per_core,
                          group.device.kind == DeviceKind::kCuda ? "GPU" : "core");
  }
  return text + "\n";
}

std::string ChanceText(double chance) {
  if (chance < 0.01) return "less than 1%";
  return fmt::format("at most {:.0f}%", 100 * chance);
}

std::string RunnersUp(const v1::Recommendation& answer, bool predict_only) {
  std::vector<std::vector<std::string>> rows = {{}};
  bool slices = answer.best().measured().slice();
  for (const auto& candidate : answer.runners_up()) slices = slices || candidate.measured().slice();
  rows[0] = predict_only ? std::vector<std::string>{"predicted", "runners-up"}
                         : std::vector<std::string>{"measured", "predicted", "corrected", "runners-up"};
  for (const auto& candidate : answer.runners_up()) {
    auto& row = rows.emplace_back();
    if (!predict_only) row.push_back(candidate.has_measured() ? MeasuredCell(candidate.measured()) : "-");
    row.push_back(base::SecondsText(candidate.predicted().step_time_s()));
    if (!predict_only)
      row.push_back(candidate.has_corrected() ? base::SecondsText(candidate.corrected().step_time_s()) : "-");
    row.push_back(WithShortSplit(candidate.plan_text()));
  }
  std::string table = Table(rows, {.text = true});
  if (const int more = answer.measured_not_shown(); more > 0) {
    table +=
        Hung(fmt::format("{} more plan{} measured; trials lists {}. At most two runners-up differ from a "
                         "faster plan in one option only.",
                         more, more == 1 ? " was" : "s were", more == 1 ? "it" : "them"),
             2);
  }
  if (!slices) return table;
  return table +
         "  a slice is one rank run alone: it shows how fast that rank computes, not how long it waits for "
         "others;\n"
         "  it is not a step time of the plan; it corrects the predictions, which rank all plans\n";
}

// Returns the runner-up with the lead on it, and which option matters most; empty if neither is known.
std::string Why(const v1::Recommendation& answer) {
  std::string text;
  if (const auto lead = LeadOf(answer)) {
    const v1::Candidate& second = answer.runners_up(0);
    const std::string percent = fmt::format("{:.1f}", 100 * std::abs(*lead));
    const std::string longer =
        percent == "0.0" ? "as long"
                         : fmt::format("{}% {}", percent, *lead < 0 ? "less by prediction" : "more");
    text += fmt::format("why: the runner-up takes {} ({}, {})\n", longer,
                        base::SecondsText(RankedSeconds(second)), Provenance(second));
    if (const int tied = TiedWithBest(answer); tied > 0) {
      text += fmt::format("     {} plan{} {} tied with the best plan: the intervals overlap\n", tied,
                          tied == 1 ? "" : "s", tied == 1 ? "is" : "are");
    }
  }
  if (const auto ties = PredictionTiesOf(answer); ties && ties->count > 0) {
    text += fmt::format("{}{} runner{}-up {} within {:g}%, which predictions do not tell apart",
                        text.empty() ? "why: " : "     ", ties->count, ties->count == 1 ? "" : "s",
                        ties->count == 1 ? "is" : "are", 100 * kPredictionsTellApart);
    if (ties->roomier != nullptr) {
      text +=
          fmt::format("; the careful choice leaves {:.0f}% of the memory free in place of {:.0f}% ({}): {}",
                      100 * FreeShare(ties->roomier->predicted()), 100 * FreeShare(answer.best().predicted()),
                      base::SecondsText(ties->roomier->predicted().step_time_s()),
                      WithShortSplit(ties->roomier->plan_text()));
    }
    text += "\n";
  }
  if (answer.has_matters_most()) {
    const v1::OptionEffect& effect = answer.matters_most();
    const bool little = effect.costs() < kPredictionsTellApart;
    text += fmt::format("{}{}{} matters most: {}\n", text.empty() ? "why: " : "     ",
                        little ? "no option matters much; " : "", effect.option(), effect.because());
  }
  return text.empty() ? "" : text + "\n";
}

// Shows at most kFrontRows plans: both ends and others between.
std::string Front(const v1::Recommendation& answer) {
  std::vector<std::vector<std::string>> rows = {
      {"step time", "", "memory per rank", "less memory for more time"}};
  const int plans = answer.pareto_memory_size(), shown = std::min(plans, kFrontRows);
  for (int i = 0; i < shown; ++i) {
    const v1::Candidate& candidate = answer.pareto_memory(shown == 1 ? 0 : i * (plans - 1) / (shown - 1));
    rows.push_back({base::SecondsText(RankedSeconds(candidate)), std::string(Provenance(candidate)),
                    base::BytesText(candidate.predicted().memory_bytes().total()),
                    WithShortSplit(candidate.plan_text())});
  }
  return Table(rows, {.text = true}) + "\n";
}

}  // namespace

std::string PlanLine(std::string_view title, const std::string& plan, std::string_view how) {
  const std::string line = fmt::format("{} {}", title, plan), said = fmt::format("({})", how);
  const bool fits = ColumnsOf(line) + 2 + ColumnsOf(said) <= kLineColumns;
  return fits ? line + "  " + said + "\n" : line + "\n" + std::string(title.size() + 1, ' ') + said + "\n";
}

std::string_view SliceMark(const v1::Measurement& measured) { return measured.slice() ? " (the slice)" : ""; }

std::string MeasuredCell(const v1::Measurement& measured) {
  return fmt::format("{}{}", MedianText(measured), SliceMark(measured));
}

std::string MeasuredText(const v1::Measurement& measured) {
  return fmt::format("{} (measured){}", MedianText(measured), SliceMark(measured));
}

std::string StopNote(const v1::Recommendation& answer, double time_budget_s, std::int64_t max_trials,
                     const TrialEnds& ends) {
  if (answer.stopped().empty()) return "";
  const std::int64_t left = answer.plans_left(), measured = answer.counts().measured();
  const bool by_time = answer.stopped() == "time_budget";
  const std::string limit = by_time ? fmt::format("the time budget of {:g} s", time_budget_s)
                                    : fmt::format("--max-trials {}", max_trials);
  const std::string plans = fmt::format("{} plan{}", base::CountText(left), left == 1 ? "" : "s");
  const std::string_view more =
      by_time ? "give more time to have them measured" : "allow more trials to have them measured";
  if (measured == 0 && ends.did_not_fit + ends.without_answer > 0) {
    std::vector<std::string> tried;
    if (ends.did_not_fit > 0) tried.push_back(fmt::format("{} did not fit in memory", ends.did_not_fit));
    if (ends.without_answer > 0) tried.push_back(fmt::format("{} gave no answer", ends.without_answer));
    const std::int64_t all = ends.did_not_fit + ends.without_answer;
    return fmt::format("nothing was measured: {} plan{} tried ({}), and {} ended the search with {} left; {}",
                       base::CountText(all), all == 1 ? " was" : "s were", fmt::join(tried, ", "), limit,
                       plans, more);
  }
  if (measured == 0)
    return fmt::format("nothing was measured: {} ended the search before the first of {}; {}", limit, plans,
                       more);
  return fmt::format("{} ended the search with {} left that it would have measured, {} measured; {}", limit,
                     plans, base::CountText(measured), more);
}

std::string ShortPlan(const std::string& whole, std::size_t most) {
  std::string plan_text = WithShortSplit(whole);
  constexpr std::string_view kSplit = ",split=";
  const std::size_t found = plan_text.find(kSplit);
  if (plan_text.size() <= most || found == std::string::npos) return plan_text;
  const std::size_t begin = found + kSplit.size();
  const std::size_t end = std::min(plan_text.find(',', begin), plan_text.size());
  const std::string split = plan_text.substr(begin, end - begin), rest = plan_text.substr(end);
  const std::size_t whole_split = whole.find(kSplit) + kSplit.size();
  const auto stages = 1 + std::count(whole.begin() + static_cast<std::ptrdiff_t>(whole_split),
                                     whole.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                         whole.find(',', whole_split), whole.size())),
                                     '+');
  const std::string cut = fmt::format("... ({} stages)", stages);
  const std::size_t others = begin + rest.size() + cut.size();
  // Cuts after a '+', so that the shown layer counts are complete.
  const std::size_t room = most > others ? most - others : 0;
  const std::size_t last = room == 0 ? std::string::npos : split.rfind('+', room - 1);
  const std::string shown =
      plan_text.substr(0, begin) + (last == std::string::npos ? "" : split.substr(0, last + 1)) + cut + rest;
  return shown.size() < plan_text.size() ? shown : plan_text;
}

TrialEnds EndsOf(const std::vector<v1::Trial>& trials) {
  TrialEnds ends;
  for (const v1::Trial& trial : trials) {
    switch (trial.state()) {
      case v1::TRIAL_STATE_MEASURED: ++ends.answered; break;
      case v1::TRIAL_STATE_INFEASIBLE:
        ++ends.answered;
        ++ends.did_not_fit;
        if (ends.first_unfit.empty()) ends.first_unfit = trial.name();
        break;
      case v1::TRIAL_STATE_FAILED:
      case v1::TRIAL_STATE_TIMED_OUT:
      case v1::TRIAL_STATE_LOST:
        ++ends.without_answer;
        ++ends.states[StateText(trial.state())];
        if (ends.first_trial.empty()) {
          ends.first = trial.message();
          ends.first_trial = trial.name();
        }
        break;
      default:  // cancelled with its study's budget, or not ended
        break;
    }
  }
  return ends;
}

std::string TextOf(const TrialEnds& ends) {
  if (ends.without_answer == 0) return "";
  std::string states;
  for (const auto& [state, count] : ends.states)
    states += fmt::format("{}{} {}", states.empty() ? "" : ", ", state, count);
  const std::int64_t all = ends.answered + ends.without_answer;
  return fmt::format("{} of {} trial{} gave no answer ({}){}", ends.without_answer, all, all == 1 ? "" : "s",
                     states, ends.first.empty() ? "" : ": " + ends.first);
}

std::string NoPlanText(const v1::Recommendation& answer) {
  return fmt::format("{}: {}", answer.counts().predicted() > 0 ? "no plan ran" : "nothing fits",
                     answer.nothing_fits());
}

std::string SearchReport(const SearchAnswer& said, const std::string& next, const std::string& training,
                         bool front) {
  const auto& [question, answer] = said;
  std::string text;
  if (answer.nothing_fits().empty()) {
    text += BestText(answer.best(), question) + "\n" + Why(answer);
    if (!answer.runners_up().empty()) text += RunnersUp(answer, question.predict_only) + "\n";
    if (front) text += Front(answer);
  } else {
    text += NoPlanText(answer) + "\n\n";
  }
  if (!training.empty()) text += training + "\n";
  text += MachineText(question);
  if (answer.memory_margin() > 0)
    text += fmt::format("memory margin: plans leave {} of a rank's memory free\n",
                        MarginText(answer.memory_margin()));
  const auto& counts = answer.counts();
  text += fmt::format("plans: {} enumerated = {} illegal + {} out of memory + {} predicted",
                      base::CountText(counts.enumerated()), base::CountText(counts.illegal()),
                      base::CountText(counts.out_of_memory()), base::CountText(counts.predicted()));
  if (!question.predict_only) {
    text += fmt::format("; {} measured", base::CountText(counts.measured()));
    const auto tried = counts.rejected().find(std::string(kMeasuredOutOfMemory));
    if (tried != counts.rejected().end() && tried->second > 0)
      text += fmt::format(", {} out of memory when tried", base::CountText(tried->second));
  }
  text += "\n";
  text += Rejected(counts);
  if (!question.not_considered.empty())
    text += fmt::format("not considered: {}\n", fmt::join(question.not_considered, "; "));
  text += fmt::format("search: {} of wall time, {} of it planning on one core",
                      base::SecondsText(answer.wall_s()), base::SecondsText(answer.plan_cpu_s()));
  if (question.predict_only) {
    text += fmt::format(", {} plans evaluated per second",
                        base::CountText(std::llround(EvaluatedPerSecond(answer))));
  } else {
    text += fmt::format("; {} of rank time", base::SecondsText(answer.device_s()));
    if (counts.measured() > 0)
      text += fmt::format("\n        (measuring every plan: {}, predicted)",
                          base::SecondsText(answer.exhaustive_device_s()));
  }
  if (const std::int64_t reused = answer.reused_op_times(); reused > 0) {
    text += fmt::format("\n  {} op time{} from an earlier run on the same device with the same build",
                        base::CountText(reused), reused == 1 ? " is" : "s are");
  }
  if (const std::int64_t reused = answer.reused_trials(); reused > 0) {
    text += fmt::format("\n  {} measurement{} reused from earlier studies (--fresh measures anew)",
                        base::CountText(reused), reused == 1 ? " is" : "s are");
  }
  if (const std::int64_t estimated = answer.estimated_op_times(); estimated > 0) {
    text += fmt::format("\n  {} of {} op times are estimated from the others: the time budget left them out",
                        base::CountText(estimated), base::CountText(answer.measured_op_times() + estimated));
  }
  if (answer.has_chance_of_better()) {
    text += fmt::format("\n  chance that a plan that was not measured is more than 1% faster: {}",
                        ChanceText(answer.chance_of_better()));
  }
  if (!answer.stopped().empty()) {
    text += answer.stopped() == "time_budget"  ? "\n  ended by its time budget"
            : answer.stopped() == "max_trials" ? "\n  ended by --max-trials"
                                               : "\n  not finished: " + answer.stopped();
    if (const std::int64_t left = answer.plans_left(); left > 0)
      text += fmt::format(", with {} plan{} left that it would have measured", base::CountText(left),
                          left == 1 ? "" : "s");
  }
  text += "\n";
  if (question.kept) text += fmt::format("study: {}\n", LastPart(answer.study()));
  text = Wrapped(text);
  if (!next.empty() && answer.nothing_fits().empty()) text += CommandLines("next: ", next);
  return text;
}

}  // namespace autocfg::cli
