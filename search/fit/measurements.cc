#include "search/fit/measurements.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "base/numbers.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "search/fit/csv_table.h"
#include "search/plan/hardware_flops.h"
#include "search/plan/legality.h"
#include "search/plan/plan_options.h"
#include "search/plan/rank_mesh.h"
#include "search/question/prediction_question.h"
#include "search/text/model_json.h"
#include "search/text/plan_json.h"
#include "search/text/typical_figures.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 8> kRequired = {"layers",       "hidden", "heads", "seq_len",
                                                       "global_batch", "tp",     "pp",    "dp"};
constexpr std::string_view kDefaultVocab = "50257";  // GPT-2's, as the other defaults of a model
constexpr std::string_view kMilliseconds = "iter_time_ms", kSeconds = "iter_time_s";

// A step slower than this many times its FLOPs at the device's peak was written in another unit.
constexpr double kSlowest = 2000;

absl::Status BadMeasurements(std::string_view problem) {
  return base::InvalidArgument("measurements", problem);
}

// A cell as the JSON value that readers of models and plans take.
Json ValueOf(const std::string& cell) {
  if (const auto whole = base::ParseNumber<std::int64_t>(cell)) return *whole;
  if (const auto number = base::ParseNumber<double>(cell)) return *number;
  if (cell == "true" || cell == "True") return true;
  if (cell == "false" || cell == "False") return false;
  return cell;
}

// What a column means.
enum class ColumnKind : std::uint8_t { kModel, kPlan, kSeqLen, kGlobalBatch, kPrecision, kGpus, kTime };

std::vector<std::string> ModelColumns() {
  std::vector<std::string> names;
  for (const ModelField& field : ModelFields()) names.emplace_back(field.name);
  for (const base::FieldTraits& field : LayerPatternFields()) names.emplace_back(field.name);
  return names;
}

bool IsModelField(std::string_view name) {
  static const auto* const kNames = new std::vector<std::string>(ModelColumns());
  return std::find(kNames->begin(), kNames->end(), name) != kNames->end();
}

const PlanOption* OptionOf(std::string_view name) {
  for (const PlanOption& option : PlanOptions()) {
    if (option.name == name || option.json_name == name) return &option;
  }
  return nullptr;
}

std::optional<ColumnKind> KindOf(std::string_view name) {
  if (name == kMilliseconds || name == kSeconds) return ColumnKind::kTime;
  if (name == "seq_len") return ColumnKind::kSeqLen;
  if (name == "global_batch") return ColumnKind::kGlobalBatch;
  if (name == "precision") return ColumnKind::kPrecision;
  if (name == "gpus") return ColumnKind::kGpus;
  if (OptionOf(name) != nullptr) return ColumnKind::kPlan;
  if (IsModelField(name)) return ColumnKind::kModel;
  return std::nullopt;
}

std::vector<std::string> KnownColumns() {
  std::vector<std::string> names = ModelColumns();
  for (const std::string& name : JsonNames(PlanOptions())) names.push_back(name);
  for (const std::string_view name :
       {"seq_len", "global_batch", "precision", "gpus", "iter_time_ms", "iter_time_s"})
    names.emplace_back(name);
  return names;
}

// The columns of all rows: those of the file, then the defaults, as if each row had them.
struct Columns {
  struct Column {
    std::string name;
    ColumnKind kind;
    std::size_t cell;  // of a row; beyond the row's cells: a default
  };
  std::vector<Column> used;
  std::vector<std::string> defaults;  // their values
  double seconds_per_unit = 1;
  std::string time_column;
};

absl::StatusOr<Columns> ColumnsOf(const CsvTable& table, const ColumnDefaults& defaults,
                                  std::vector<std::string>& notes) {
  Columns columns;
  std::vector<std::string> names = table.columns;
  for (const auto& [name, value] : defaults) {
    if (std::find(table.columns.begin(), table.columns.end(), name) != table.columns.end())
      return BadMeasurements(
          fmt::format("the file has the column {}; leave it out of --default", base::Printable(name)));
    if (!KindOf(name) || KindOf(name) == ColumnKind::kTime) {
      return BadMeasurements(fmt::format("--default: {} is no column that can have a default{}",
                                         base::Printable(name), base::DidYouMean(name, KnownColumns())));
    }
    names.push_back(name);
    columns.defaults.push_back(value);
  }
  std::set<std::string_view> options;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::optional<ColumnKind> kind = KindOf(names[i]);
    if (!kind) {
      notes.push_back(fmt::format("column {} is not used{}", base::Printable(names[i]),
                                  base::DidYouMean(names[i], KnownColumns())));
      continue;
    }
    if (const PlanOption* option = OptionOf(names[i]); option != nullptr) {
      if (!options.insert(option->name).second)
        return BadMeasurements(
            fmt::format("{} is there under two names; leave one of them out", option->json_name));
    }
    if (*kind == ColumnKind::kTime) {
      if (!columns.time_column.empty())
        return BadMeasurements(
            fmt::format("both {} and {} are there; leave one of them out", kMilliseconds, kSeconds));
      columns.time_column = names[i];
      columns.seconds_per_unit = names[i] == kMilliseconds ? 1e-3 : 1;
    }
    columns.used.push_back({names[i], *kind, i});
  }
  const auto has = [&](std::string_view name) {
    return std::any_of(columns.used.begin(), columns.used.end(),
                       [&](const Columns::Column& column) { return column.name == name; });
  };
  std::vector<std::string> missing;
  for (const std::string_view name : kRequired) {
    if (!has(name)) missing.emplace_back(name);
  }
  if (!options.contains("mbs")) missing.emplace_back("micro_batch");
  if (!missing.empty()) {
    return BadMeasurements(
        fmt::format("the column{} {} {} missing; add {}, or give one value for all rows with --default",
                    missing.size() > 1 ? "s" : "", fmt::join(missing, ", "),
                    missing.size() > 1 ? "are" : "is", missing.size() > 1 ? "them" : "it"));
  }
  if (columns.time_column.empty())
    return BadMeasurements(fmt::format("no column has the times; name it {} or {}", kMilliseconds, kSeconds));
  if (!has("vocab")) {
    columns.used.push_back({"vocab", ColumnKind::kModel, names.size()});
    columns.defaults.emplace_back(kDefaultVocab);
    notes.push_back(
        fmt::format("no column has the vocabulary: it is taken as {} tokens, GPT-2's; --default "
                    "vocab=N says otherwise",
                    kDefaultVocab));
  }
  return columns;
}

// A row's question and time, or why it is skipped.
struct RowOutcome {
  Measurement measurement;
  std::optional<std::string> skipped;
};

class RowReader {
 public:
  RowReader(const Columns& columns, const ClusterSpec& cluster) : columns_(columns), cluster_(cluster) {}

  absl::StatusOr<RowOutcome> Read(const CsvRow& row) const {
    const auto within = [&](const absl::Status& status) {
      return base::SubjectError(absl::StatusCode::kInvalidArgument, "measurements",
                                fmt::format("line {}: {}", row.line, std::string(status.message())));
    };
    Json model = Json::object(), plan = Json::object();
    QuestionParts parts;
    std::optional<std::int64_t> gpus;
    double time = 0;
    for (const Columns::Column& column : columns_.used) {
      const bool own = column.cell < row.cells.size();
      const std::string& cell =
          own ? row.cells[column.cell] : columns_.defaults[column.cell - row.cells.size()];
      const auto bad = [&](std::string_view wanted) {
        return BadMeasurements(fmt::format("line {}: {} is \"{}\"; it must be {}", row.line, column.name,
                                           base::Printable(cell), wanted));
      };
      const auto whole = [&]() -> std::optional<std::int64_t> {
        const Json value = ValueOf(cell);
        if (!value.is_number_integer() || value.get<std::int64_t>() < 1) return std::nullopt;
        return value.get<std::int64_t>();
      };
      if (cell.empty()) {
        if (column.kind == ColumnKind::kTime) return bad("a number");
        continue;
      }
      switch (column.kind) {
        case ColumnKind::kModel: model[column.name] = ValueOf(cell); break;
        case ColumnKind::kPlan: plan[std::string(OptionOf(column.name)->json_name)] = ValueOf(cell); break;
        case ColumnKind::kPrecision: parts.precision = cell; break;
        case ColumnKind::kSeqLen:
        case ColumnKind::kGlobalBatch:
        case ColumnKind::kGpus: {
          const std::optional<std::int64_t> value = whole();
          if (!value) return bad("a whole number of at least 1");
          if (column.kind == ColumnKind::kGpus) {
            gpus = value;
          } else {
            (column.kind == ColumnKind::kSeqLen ? parts.seq_len : parts.global_batch) = *value;
          }
          break;
        }
        case ColumnKind::kTime: {
          const auto value = base::ParseNumber<double>(cell);
          if (!value) return bad("a number");
          time = *value * columns_.seconds_per_unit;
          break;
        }
      }
    }
    if (!model.contains("max_seq_len")) model["max_seq_len"] = parts.seq_len;
    absl::StatusOr<ModelSpec> spec = ParseModelJson(model);
    if (!spec.ok()) return within(spec.status());
    absl::StatusOr<ParallelPlan> of_plan = ParsePlanJson(plan);
    if (!of_plan.ok()) return within(of_plan.status());
    parts.model = *std::move(spec);
    parts.plan = *std::move(of_plan);
    parts.cluster = cluster_;
    absl::StatusOr<PredictionQuestion> question = MakePredictionQuestion(std::move(parts));
    if (!question.ok()) return within(question.status());

    RowOutcome read{.measurement = {.line = row.line,
                                    .model = std::move(question->model),
                                    .workload = question->workload,
                                    .plan = question->plan,
                                    .step_time_s = time},
                    .skipped = std::nullopt};
    read.skipped = WhyImpossible(read.measurement, gpus);
    if (!read.skipped) read.measurement.plan = Canonical(read.measurement.plan);
    return read;
  }

 private:
  static std::optional<std::string> WhyImpossible(const Measurement& m, std::optional<std::int64_t> gpus) {
    if (!std::isfinite(m.step_time_s) || m.step_time_s <= 0) return "its time is not positive";
    const std::int64_t ranks = RankCount(m.plan);
    if (gpus && *gpus != ranks) return fmt::format("gpus is {}, but tp x pp x dp is {}", *gpus, ranks);
    if (absl::Status status = Validate(m.workload, m.model); !status.ok())
      return std::string(status.message());
    if (absl::Status status = CheckLegal(m, ranks); !status.ok()) return std::string(status.message());
    if (absl::Status status = CheckPredictable(m.plan); !status.ok()) return std::string(status.message());
    return std::nullopt;
  }

  const Columns& columns_;
  const ClusterSpec& cluster_;
};

// The measured time over that of the model's FLOPs at the devices' peak.
double OverPeak(const Measurement& m, double peak) {
  const double tokens =
      static_cast<double>(m.workload.global_batch) * static_cast<double>(m.workload.seq_len);
  const double least_s = ModelFlops(m.model, tokens, static_cast<double>(m.workload.seq_len)) / peak /
                         static_cast<double>(RankCount(m.plan));
  return m.step_time_s / least_s;
}

}  // namespace

absl::StatusOr<ColumnDefaults> ParseColumnDefaults(std::string_view text) {
  ColumnDefaults defaults;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
      return base::InvalidArgument(
          "--default",
          fmt::format("\"{}\" is not COLUMN=VALUE, as in recompute=full", base::Printable(item)));
    }
    const std::string name(item.substr(0, equals));
    for (const auto& [given, value] : defaults) {
      if (given == name)
        return base::InvalidArgument("--default",
                                     fmt::format("{} is given twice; give it once", base::Printable(name)));
    }
    defaults.emplace_back(name, item.substr(equals + 1));
  }
  return defaults;
}

absl::StatusOr<Measurements> ParseMeasurements(std::string_view csv, const ColumnDefaults& defaults,
                                               const ClusterSpec& cluster) {
  AUTOCFG_ASSIGN_OR_RETURN(CsvTable table, ParseCsv(csv));
  Measurements result{.rows = {}, .skipped = {}, .notes = {}, .cluster = cluster};
  AUTOCFG_ASSIGN_OR_RETURN(const Columns columns, ColumnsOf(table, defaults, result.notes));
  if (std::string note = AssumeTypicalFigures(result.cluster); !note.empty())
    result.notes.push_back(std::move(note));

  const RowReader reader(columns, result.cluster);
  std::int64_t too_fast = 0, too_slow = 0;
  for (const CsvRow& row : table.rows) {
    AUTOCFG_ASSIGN_OR_RETURN(RowOutcome read, reader.Read(row));
    Measurement& m = read.measurement;
    if (read.skipped) {
      result.skipped.push_back({row.line, *std::move(read.skipped)});
      continue;
    }
    const std::optional<double> peak = PeakFlops(result.cluster.groups.front().device, m.workload.precision);
    if (!peak) {
      result.skipped.push_back(
          {row.line, fmt::format("the cluster's device has no rate in {}", BaseName(m.workload.precision))});
      continue;
    }
    const double over_peak = OverPeak(m, *peak);
    if (over_peak > kSlowest) ++too_slow;
    if (over_peak < 1) {
      ++too_fast;
      result.skipped.push_back({row.line, fmt::format("a step of {} is faster than the devices' peak allows",
                                                      base::SecondsText(m.step_time_s))});
      continue;
    }
    result.rows.push_back(std::move(m));
  }
  const auto read = static_cast<std::int64_t>(result.rows.size()) + too_fast;
  if (read > 0 && 2 * (too_fast + too_slow) > read) {
    const bool fast = too_fast > too_slow;
    return BadMeasurements(fmt::format(
        "{} of {} steps are {}; is {} right for {}?", fast ? too_fast : too_slow, read,
        fast ? "faster than the devices' peak allows" : "thousands of times slower than the devices' peak",
        fast ? (columns.time_column == kMilliseconds ? "the unit milliseconds" : "the cluster")
             : (columns.time_column == kSeconds ? "the unit seconds" : "the cluster"),
        columns.time_column));
  }

  // The same row twice says nothing new.
  std::vector<Measurement> kept;
  absl::flat_hash_map<std::string, std::vector<std::size_t>> by_key;
  for (Measurement& m : result.rows) {
    std::vector<std::size_t>& like =
        by_key[fmt::format("{} {} {} {} {}", m.model.layers, m.model.hidden, m.workload.global_batch,
                           m.workload.seq_len, m.step_time_s)];
    const auto same = std::find_if(like.begin(), like.end(), [&](std::size_t i) {
      Measurement other = kept[i];
      other.line = m.line;
      return other == m;
    });
    if (same != like.end()) {
      result.skipped.push_back({m.line, fmt::format("it repeats line {}", kept[*same].line)});
      continue;
    }
    like.push_back(kept.size());
    kept.push_back(std::move(m));
  }
  result.rows = std::move(kept);
  std::sort(result.skipped.begin(), result.skipped.end(),
            [](const SkippedRow& a, const SkippedRow& b) { return a.line < b.line; });
  if (result.rows.empty()) {
    return BadMeasurements(result.skipped.empty()
                               ? std::string("it has no rows; give measured steps")
                               : fmt::format("none of its {} rows can be used; line {}: {}",
                                             result.skipped.size(), result.skipped.front().line,
                                             result.skipped.front().reason));
  }
  NodeGroup& group = result.cluster.groups.front();
  for (const Measurement& m : result.rows) {
    const std::int64_t nodes = (RankCount(m.plan) + group.gpus_per_node - 1) / group.gpus_per_node;
    group.nodes = std::max(group.nodes, nodes);
  }
  if (std::string note = AssumeTypicalFigures(result.cluster); !note.empty())
    result.notes.push_back(std::move(note));
  return result;
}

}  // namespace autocfg
