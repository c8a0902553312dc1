#include "worker/engines/log_rules.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::worker {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSubject = "log";
constexpr std::size_t kLongestPattern = 1000;  // bytes
constexpr std::int64_t kPatternMemory = 1 << 20;

struct LogUnit {
  std::string_view name;
  double factor;
};
constexpr LogUnit kTimeUnits[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}};
constexpr LogUnit kMemoryUnits[] = {{"B", 1},
                                    {"kB", 1e3},
                                    {"MB", 1e6},
                                    {"GB", 1e9},
                                    {"KiB", 1024.0},
                                    {"MiB", 1024.0 * 1024},
                                    {"GiB", 1024.0 * 1024 * 1024}};

// Splits "a.b" into names. Empty if one is empty.
std::vector<std::string> NamesOf(std::string_view field) {
  std::vector<std::string> names;
  while (true) {
    const std::size_t dot = field.find('.');
    names.emplace_back(field.substr(0, dot));
    if (names.back().empty()) return {};
    if (dot == std::string_view::npos) return names;
    field.remove_prefix(dot + 1);
  }
}

// Reads the parts of the rules. Keeps the first error.
class RulesReader {
 public:
  explicit RulesReader(const Json& json) : reader_(kSubject, json) {}

  absl::StatusOr<LogRules> Read() {
    std::string lines = "text";
    reader_.String("lines", lines);
    if (lines != "text" && lines != "json")
      reader_.Invalid(fmt::format("unknown lines '{}'; expected text or json", base::Printable(lines)));
    rules_.json = lines == "json";
    ReadSpeed();
    if (const Json* step = reader_.Find("step")) {
      base::FieldReader fields(kSubject, *step, "step");
      fields.Size("first", rules_.first_step, 0);
      rules_.step = Number(fields, "step", {});
      Finish(fields);
    }
    if (const Json* loss = reader_.Find("loss")) {
      base::FieldReader fields(kSubject, *loss, "loss");
      rules_.loss = Number(fields, "loss", {});
      Finish(fields);
    }
    if (const Json* memory = reader_.Find("peak_memory")) {
      base::FieldReader fields(kSubject, *memory, "peak_memory");
      rules_.peak_memory = Number(fields, "peak_memory", kMemoryUnits);
      Finish(fields);
    }
    rules_.out_of_memory = Line("out_of_memory", &rules_.out_of_memory_statuses);
    rules_.failure = Line("failure", nullptr);
    rules_.peer_lost = Line("peer_lost", nullptr);
    AUTOCFG_RETURN_IF_ERROR(reader_.Finish());
    return std::move(rules_);
  }

 private:
  void ReadSpeed() {
    int given = 0;
    for (const std::string_view name : {"step_time", "samples_per_s", "tokens_per_s"}) {
      const Json* speed = reader_.Find(name);
      if (speed == nullptr) continue;
      ++given;
      base::FieldReader fields(kSubject, *speed, name);
      if (name == "step_time") {
        rules_.speed = Number(fields, name, kTimeUnits);
      } else {
        rules_.speed = Number(fields, name, {});
        rules_.speed_kind = SpeedKind::kSamplesPerSecond;
      }
      if (name == "tokens_per_s") {
        std::string per = "all";
        fields.String("per", per);
        if (per != "all" && per != "rank")
          fields.Invalid(fmt::format("unknown per '{}'; expected all or rank", base::Printable(per)));
        rules_.speed_kind = per == "rank" ? SpeedKind::kTokensPerSecondOfRank : SpeedKind::kTokensPerSecond;
      }
      Finish(fields);
    }
    if (given != 1)
      reader_.Invalid(
          fmt::format("{} of step_time, samples_per_s and tokens_per_s are given; give one", given));
  }

  // `units`: those that the rule must name one of; empty: it has none.
  NumberRule Number(base::FieldReader& fields, std::string_view name, std::span<const LogUnit> units) {
    NumberRule rule;
    std::string text;
    if (rules_.json) {
      fields.Require("field");
      fields.String("field", text);
      rule.field = NamesOf(text);
      if (rule.field.empty() && !text.empty())
        fields.Invalid(fmt::format("field '{}' has an empty name", base::Printable(text)));
    } else {
      fields.Require("pattern");
      fields.String("pattern", text);
      rule.pattern = Compile(fields, text);
      if (rule.pattern != nullptr && rule.pattern->NumberOfCapturingGroups() != 1) {
        fields.Invalid(fmt::format("pattern '{}' has {} groups; give one, around the number",
                                   base::Printable(text), rule.pattern->NumberOfCapturingGroups()));
      }
    }
    if (units.empty()) return rule;
    std::string unit;
    fields.Require("unit");
    fields.String("unit", unit);
    const auto found =
        std::find_if(units.begin(), units.end(), [&](const LogUnit& known) { return known.name == unit; });
    if (found != units.end()) {
      rule.factor = found->factor;
      return rule;
    }
    std::vector<std::string> names;
    for (const LogUnit& known : units) names.emplace_back(known.name);
    fields.Invalid(fmt::format("unknown unit '{}' of {}; expected {}", base::Printable(unit), name,
                               base::ChoiceText(names)));
    return rule;
  }

  // A rule that a line matches, and, with `statuses`, the exit statuses that mean the same.
  Pattern Line(std::string_view name, std::vector<int>* statuses) {
    const Json* rule = reader_.Find(name);
    if (rule == nullptr) return nullptr;
    base::FieldReader fields(kSubject, *rule, name);
    std::string text;
    fields.String("pattern", text);
    Pattern pattern;
    if (fields.Find("pattern") != nullptr) {
      pattern = Compile(fields, text);
      if (pattern != nullptr && pattern->NumberOfCapturingGroups() > 1)
        fields.Invalid(
            fmt::format("pattern '{}' has several groups; give one at most", base::Printable(text)));
    }
    if (statuses != nullptr) ReadStatuses(fields, *statuses);
    if (pattern == nullptr && (statuses == nullptr || statuses->empty())) fields.Require("pattern");
    Finish(fields);
    return pattern;
  }

  static void ReadStatuses(base::FieldReader& fields, std::vector<int>& statuses) {
    const Json* list = fields.Find("exit_statuses");
    if (list == nullptr) return;
    if (!list->is_array())
      return fields.Invalid("exit_statuses is no list; give exit statuses from 1 to 255");
    for (const Json& entry : *list) {
      const auto status = base::WholeNumber(entry);
      if (!status || *status < 1 || *status > 255) {
        return fields.Invalid(fmt::format("exit_statuses has {}; give exit statuses from 1 to 255",
                                          base::Printable(entry.dump(-1, ' ', true))));
      }
      statuses.push_back(static_cast<int>(*status));
    }
  }

  static Pattern Compile(base::FieldReader& fields, const std::string& text) {
    if (text.size() > kLongestPattern) {
      fields.Invalid(fmt::format("pattern has {} bytes; the limit is {}", text.size(), kLongestPattern));
      return nullptr;
    }
    // A log may have any bytes.
    RE2::Options options(RE2::Latin1);
    options.set_max_mem(kPatternMemory);
    options.set_log_errors(false);
    auto pattern = std::make_shared<const RE2>(text, options);
    if (pattern->ok() && !text.empty()) return pattern;
    fields.Invalid(
        fmt::format("pattern '{}' is invalid: {}", base::Printable(text),
                    text.empty() ? std::string("it is empty") : base::Printable(pattern->error())));
    return nullptr;
  }

  void Finish(base::FieldReader& fields) {
    if (absl::Status status = fields.Finish(); !status.ok()) reader_.Fail(std::move(status));
  }

  base::FieldReader reader_;
  LogRules rules_;
};

}  // namespace

absl::StatusOr<LogRules> ParseLogRules(const nlohmann::ordered_json& json) {
  return RulesReader(json).Read();
}

}  // namespace autocfg::worker
