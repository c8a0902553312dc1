#include "cli/report/questions_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/report/prediction_report.h"
#include "cli/report/report.h"
#include "cli/report/training_report.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "proto/answer/answer_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBestPlanColumn = 60;

bool SameButForGpus(const Asked& a, const Asked& b) {
  // Presets have their number of nodes in their name.
  const auto device = [](const Asked& asked) { return asked.cluster.substr(0, asked.cluster.find(':')); };
  return device(a) == device(b) && a.global_batch == b.global_batch && a.seq_len == b.seq_len;
}

bool SeveralClusters(const std::vector<AnsweredQuestion>& answers) {
  return std::any_of(answers.begin(), answers.end(), [&](const AnsweredQuestion& other) {
    const auto device = [](const Asked& asked) { return asked.cluster.substr(0, asked.cluster.find(':')); };
    return device(other.asked) != device(answers.front().asked);
  });
}

std::string CountCell(const std::optional<std::int64_t>& count) {
  return count ? base::CountText(*count) : "-";
}

// Returns the cells that an answer with a plan has after those of its question, but for the plan.
std::vector<std::string> FigureCells(const AnsweredQuestion& entry) {
  const v1::Candidate& best = entry.answer->found.best();
  const v1::Prediction& predicted = best.predicted();
  std::vector<std::string> cells = {base::SecondsText(predicted.step_time_s())};
  const Throughput rates = RatesAt(entry.answer->question, best, predicted.step_time_s());
  cells.push_back(base::CountText(std::llround(rates.tokens_per_s_per_gpu)));
  cells.push_back(rates.mfu ? PercentText(*rates.mfu, 1) : "-");
  const auto& memory = predicted.memory_bytes();
  cells.push_back(base::BytesText(memory.total()));
  cells.push_back(PercentText(static_cast<double>(memory.capacity() - memory.total()),
                              static_cast<double>(memory.capacity())));
  return cells;
}

// A column of what was asked, or of what follows from the cluster.
struct AskedColumn {
  std::string_view title;
  std::string (*cell)(const AnsweredQuestion&);
  bool shown;  // false: it is the same of all, and stands below the table
};

std::string ClusterCell(const AnsweredQuestion& entry) { return entry.asked.cluster; }
std::string NodesCell(const AnsweredQuestion& entry) { return CountCell(entry.asked.nodes); }
std::string BatchCell(const AnsweredQuestion& entry) { return base::CountText(entry.asked.global_batch); }
std::string SequenceCell(const AnsweredQuestion& entry) { return CountCell(entry.asked.seq_len); }
std::string PrecisionCell(const AnsweredQuestion& entry) {
  return entry.answer ? PrecisionText(entry.answer->question.workload.precision) : "-";
}

// Returns whether the default precisions of the clusters differ. Wrong questions have none.
bool SeveralPrecisions(const std::vector<AnsweredQuestion>& answers) {
  const auto known = [](const AnsweredQuestion& entry) { return entry.answer.has_value(); };
  const auto first = std::find_if(answers.begin(), answers.end(), known);
  return std::any_of(first, answers.end(), [&](const AnsweredQuestion& entry) {
    return known(entry) && PrecisionCell(entry) != PrecisionCell(*first);
  });
}

std::vector<AskedColumn> AskedColumns(const std::vector<AnsweredQuestion>& answers) {
  std::vector<AskedColumn> columns = {{"cluster", ClusterCell, SeveralClusters(answers)},
                                      {"nodes", NodesCell, true},
                                      {"global batch", BatchCell, false},
                                      {"sequence length", SequenceCell, false}};
  for (AskedColumn& column : columns) {
    column.shown = column.shown || std::any_of(answers.begin(), answers.end(), [&](const auto& entry) {
                     return column.cell(entry) != column.cell(answers.front());
                   });
  }
  columns[0].shown = SeveralClusters(answers);  // else the nodes say what distinguishes their names
  if (SeveralPrecisions(answers)) columns.push_back({"precision", PrecisionCell, true});
  return columns;
}

// "2 nodes, global batch 512, sequence length 4,096".
std::string AskedText(const Asked& asked, bool with_cluster) {
  std::string text = with_cluster ? asked.cluster + ", " : "";
  if (asked.nodes)
    text += fmt::format("{} node{}, ", base::CountText(*asked.nodes), *asked.nodes == 1 ? "" : "s");
  text += fmt::format("global batch {}", base::CountText(asked.global_batch));
  if (asked.seq_len) text += fmt::format(", sequence length {}", base::CountText(*asked.seq_len));
  return text;
}

Json AskedJson(const Asked& asked) {
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  return Json{{"cluster", asked.cluster},
              {"nodes", number(asked.nodes)},
              {"global_batch", asked.global_batch},
              {"seq_len", number(asked.seq_len)}};
}

}  // namespace

std::string AnsweredQuestion::Reason() const { return answer ? answer->found.nothing_fits() : wrong; }

std::vector<bool> OnGpuFront(const std::vector<AnsweredQuestion>& answers) {
  const auto dominates = [](const AnsweredQuestion& a, const AnsweredQuestion& b) {
    const std::int64_t gpus_a = RankCount(a.answer->question.cluster);
    const std::int64_t gpus_b = RankCount(b.answer->question.cluster);
    const double time_a = a.answer->found.best().predicted().step_time_s();
    const double time_b = b.answer->found.best().predicted().step_time_s();
    return gpus_a <= gpus_b && time_a <= time_b && (gpus_a < gpus_b || time_a < time_b);
  };
  std::vector<bool> front;
  front.reserve(answers.size());
  for (const AnsweredQuestion& entry : answers) {
    front.push_back(
        entry.HasPlan() && std::none_of(answers.begin(), answers.end(), [&](const AnsweredQuestion& other) {
          return other.HasPlan() && SameButForGpus(other.asked, entry.asked) && dominates(other, entry);
        }));
  }
  return front;
}

std::string QuestionsReport(const std::vector<AnsweredQuestion>& answers, const TrainingTerms& terms) {
  const bool several = SeveralClusters(answers);
  const std::vector<bool> front = OnGpuFront(answers);
  const std::vector<AskedColumn> columns = AskedColumns(answers);
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const AskedColumn& column : columns) {
    if (column.shown) rows[0].emplace_back(column.title);
  }
  rows[0].emplace_back("GPUs");
  const std::size_t keys = rows[0].size();
  for (const char* title : {"step time", "tokens/s per GPU", "MFU", "memory a rank", "free"})
    rows[0].emplace_back(title);
  const std::size_t figures = rows[0].size() - keys;
  for (std::string& title : TrainingTitles(terms)) rows[0].push_back(std::move(title));
  const std::size_t training_cells = rows[0].size() - keys - figures;
  rows[0].emplace_back("best plan (predicted)");
  std::string reasons;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const AnsweredQuestion& entry = answers[i];
    const Asked& asked = entry.asked;
    auto& row = rows.emplace_back(std::vector<std::string>{front[i] ? "*" : ""});
    for (const AskedColumn& column : columns) {
      if (column.shown) row.push_back(column.cell(entry));
    }
    row.push_back(entry.answer ? base::CountText(RankCount(entry.answer->question.cluster)) : "-");
    if (entry.HasPlan()) {
      for (std::string& cell : FigureCells(entry)) row.push_back(std::move(cell));
      const auto training = TrainingOf(terms, *entry.answer);
      for (std::string& cell : TrainingCells(terms, training)) row.push_back(std::move(cell));
      row.push_back(ShortPlan(entry.answer->found.best().plan_text(), kBestPlanColumn));
    } else {
      row.insert(row.end(), figures + training_cells, "-");
      row.emplace_back("none");
      reasons += fmt::format("no plan for {}: {}\n", AskedText(asked, several), entry.Reason());
    }
  }
  // SameButForGpus tells clusters apart by their names without sizes.
  const std::string_view front_is =
      several ? "  * no entry of the same cluster (of any size), batch and sequence length is as\n"
                "    fast on as few GPUs\n\n"
              : "  * no entry of the same batch and sequence length is as fast on as few GPUs\n\n";
  std::string text =
      fmt::format("{}{}{}", Table(rows, {.keys = keys, .text = true}), front_is, Wrapped(reasons));
  const auto known = std::find_if(answers.begin(), answers.end(),
                                  [](const AnsweredQuestion& entry) { return entry.answer.has_value(); });
  if (known == answers.end()) return text;
  const SearchQuestion& question = known->answer->question;
  std::string about = fmt::format("model: {}", question.model.name.empty() ? "unnamed" : question.model.name);
  if (!SeveralPrecisions(answers)) about += fmt::format(", {}", PrecisionCell(*known));
  for (const AskedColumn& column : columns) {
    if (!column.shown && column.cell != ClusterCell)
      about += fmt::format(", {} {}", column.title, column.cell(answers.front()));
  }
  return text + Wrapped(about);
}

absl::StatusOr<Json> QuestionsJson(const std::vector<AnsweredQuestion>& answers, const TrainingTerms& terms) {
  const std::vector<bool> front = OnGpuFront(answers);
  Json list = Json::array();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const AnsweredQuestion& entry = answers[i];
    Json json{{"asked", AskedJson(entry.asked)}, {"on_gpu_front", static_cast<bool>(front[i])}};
    if (entry.answer) {
      AUTOCFG_ASSIGN_OR_RETURN(auto answer, AnswerJson(*entry.answer));
      json.update(answer);
      if (terms.Asked()) {
        const auto training = TrainingOf(terms, *entry.answer);
        json["training"] = training ? TrainingJson(*training) : Json(nullptr);
      }
    } else {
      json.update(Json{{"study", nullptr}, {"best", nullptr}, {"reason", entry.wrong}});
      json["runners_up"] = Json::array();
    }
    list.push_back(std::move(json));
  }
  return Json{{"questions", std::move(list)}};
}

}  // namespace autocfg::cli
