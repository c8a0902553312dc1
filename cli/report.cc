#include "cli/report.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string_view>

#include "cli/study_client.h"
#include "fmt/format.h"
#include "search/text/size_text.h"

namespace autocfg {
namespace {

// The enumerator without its prefix, in lower case.
std::string Enumerator(std::string name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.erase(0, prefix.size());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

std::string MeasuredTime(const v1::Candidate& candidate) {
  if (!candidate.has_measured()) return "-";
  return fmt::format("{} +- {}", SecondsText(candidate.measured().median_step_time_s()),
                     SecondsText(candidate.measured().ci95_s()));
}

std::string PredictedTime(const v1::Prediction& predicted) {
  return fmt::format("{} ({} to {})", SecondsText(predicted.step_time_s()),
                     SecondsText(predicted.step_time_low_s()), SecondsText(predicted.step_time_high_s()));
}

std::string Tokens(const Workload& workload, double step_time_s) {
  if (!(step_time_s > 0)) return "-";
  const double tokens = static_cast<double>(workload.global_batch) * static_cast<double>(workload.seq_len);
  return CountText(std::llround(tokens / step_time_s));
}

std::string Rejected(const v1::Counts& counts) {
  std::vector<std::pair<std::string, std::int64_t>> reasons(counts.rejected().begin(),
                                                            counts.rejected().end());
  std::sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::string text;
  for (const auto& [reason, count] : reasons) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", reason, CountText(count));
  }
  return text;
}

std::string BestText(const v1::Candidate& best, const SearchQuestion& question) {
  std::vector<std::vector<std::string>> rows = {{"", "measured", "predicted (90% interval)"}};
  const auto& measured = best.measured();
  const auto& predicted = best.predicted();
  rows.push_back({"step time", best.has_measured() ? MeasuredTime(best) : "-", PredictedTime(predicted)});
  rows.push_back({"tokens per second", Tokens(question.workload, measured.median_step_time_s()),
                  Tokens(question.workload, predicted.step_time_s())});
  rows.push_back({"memory per rank",
                  best.has_measured()
                      ? fmt::format("{} peak, {} beside it", BytesText(measured.peak_memory_bytes()),
                                    BytesText(measured.device_overhead_bytes()))
                      : "-",
                  fmt::format("{} of {}", BytesText(predicted.memory_bytes().total()),
                              BytesText(predicted.memory_bytes().capacity()))});
  std::string text = fmt::format("best plan: {}  ({})\n", best.plan_text(),
                                 best.has_measured() ? "measured" : "predicted only");
  text += Table(rows);
  if (best.has_measured()) {
    text += fmt::format("  median of {} steps, +- half the 95% interval; {:g} rank{} per core\n",
                        measured.step_time_s_size(), measured.ranks_per_core(),
                        measured.ranks_per_core() == 1 ? "" : "s");
  }
  return text;
}

// What was trained, and on what.
std::string MachineText(const SearchQuestion& question) {
  const auto& [model, cluster, workload] = question;
  std::string text = fmt::format(
      "model: {}, {} sequences of {} tokens a step, {}\n", model.name.empty() ? "unnamed" : model.name,
      CountText(workload.global_batch), CountText(workload.seq_len), Name(workload.precision));
  const std::int64_t ranks = RankCount(cluster);
  text += fmt::format("machine: {}, {} rank{}", cluster.local ? "this one" : cluster.name, CountText(ranks),
                      ranks == 1 ? "" : "s");
  if (!cluster.groups.empty()) {
    const NodeGroup& group = cluster.groups.front();
    text += fmt::format(" on its {}, {} a rank", group.device.name.empty() ? "cpu" : group.device.name,
                        BytesText(group.device.memory_bytes));
    if (group.ranks_per_core > 1) text += fmt::format(", {:g} ranks per core", group.ranks_per_core);
  }
  return text + "\n";
}

}  // namespace

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("  {:<{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string StateText(v1::StudyState state) { return Enumerator(v1::StudyState_Name(state), "STUDY_STATE_"); }
std::string StateText(v1::TrialState state) { return Enumerator(v1::TrialState_Name(state), "TRIAL_STATE_"); }

std::string SearchReport(const v1::Recommendation& answer, const SearchQuestion& question,
                         const std::string& next) {
  std::string text;
  if (answer.nothing_fits().empty()) {
    text += BestText(answer.best(), question) + "\n";
    if (!answer.runners_up().empty()) {
      std::vector<std::vector<std::string>> rows = {{"runners-up", "measured", "predicted"}};
      for (const auto& candidate : answer.runners_up()) {
        rows.push_back({candidate.plan_text(), MeasuredTime(candidate),
                        SecondsText(candidate.predicted().step_time_s())});
      }
      text += Table(rows) + "\n";
    }
  } else {
    text += fmt::format("nothing fits: {}\n\n", answer.nothing_fits());
  }
  text += MachineText(question);
  const auto& counts = answer.counts();
  text += fmt::format("plans: {} enumerated = {} illegal + {} out of memory + {} predicted; {} measured\n",
                      CountText(counts.enumerated()), CountText(counts.illegal()),
                      CountText(counts.out_of_memory()), CountText(counts.predicted()),
                      CountText(counts.measured()));
  if (const std::string rejected = Rejected(counts); !rejected.empty())
    text += fmt::format("rejected: {}\n", rejected);
  text += fmt::format(
      "search: {} of wall time, {} of it planning on one core; {} of rank time (measuring every plan: {}, "
      "predicted)\n",
      SecondsText(answer.wall_s()), SecondsText(answer.plan_cpu_s()), SecondsText(answer.device_s()),
      SecondsText(answer.exhaustive_device_s()));
  text += fmt::format("study: {}\n", LastPart(answer.study()));
  if (!next.empty() && answer.nothing_fits().empty()) text += fmt::format("next: {}\n", next);
  return text;
}

}  // namespace autocfg
