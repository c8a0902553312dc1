// autocfg doctor: reports what this machine can do and what is missing.
#include <unistd.h>

#include <memory>
#include <string>

#include "base/text.h"
#include "cli/terminal/console.h"
#include "cli/terminal/drawing.h"
#include "cli/terminal/layout.h"
#include "cli/verbs/checks.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace autocfg::cli {
namespace {

struct DoctorArgs {
  std::string database;
  bool json = false;
};

Tone ToneOf(CheckState state) {
  return state == CheckState::kOk ? Tone::kGood : state == CheckState::kWarning ? Tone::kStrong : Tone::kBad;
}

std::string CheckLines(const Check& check, const BarStyle& style) {
  const std::string state = fmt::format("{:<8}", Name(check.state));
  constexpr std::size_t kIndent = 26;
  std::string text =
      Hung(fmt::format("{} {:<16} {}", state, check.name, base::OneLine(check.found)), kIndent);
  text.replace(0, state.size(), Toned(state, ToneOf(check.state), style));
  if (!check.advice.empty())
    text += Hung(fmt::format("{:<{}}{}", "", kIndent, base::OneLine(check.advice)), kIndent);
  return text;
}

int RunDoctor(const DoctorArgs& args) {
  const std::vector<Check> checks = CheckMachine(args.database);
  const bool can_run = checks.back().state == CheckState::kOk;
  std::string text;
  if (args.json) {
    nlohmann::ordered_json json{{"cpu_engine_runs", can_run}, {"checks", nlohmann::ordered_json::array()}};
    for (const Check& check : checks) {
      json["checks"].push_back({{"name", check.name},
                                {"state", Name(check.state)},
                                {"found", check.found},
                                {"advice", check.advice}});
    }
    text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else {
    const BarStyle style = StyleOf(STDOUT_FILENO);
    for (const Check& check : checks) text += CheckLines(check, style);
  }
  if (const int code = Answer(text); code != kExitDone) return code;
  // If --db names a database, a failing database check is an error.
  for (const Check& check : checks) {
    if (!args.database.empty() && check.name == "database" && check.state != CheckState::kOk)
      return Fail(kExitNegative, fmt::format("--db: {}", check.found));
  }
  if (!can_run)
    return Fail(kExitNegative, fmt::format("the CPU engine cannot run here: {}", checks.back().found));
  return kExitDone;
}

}  // namespace

void AddDoctor(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("doctor", "check what this machine can do, and what is missing");
  const auto args = std::make_shared<DoctorArgs>();
  verb->add_option("--db", args->database,
                   "the database to check (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunDoctor(*args); }; });
}

}  // namespace autocfg::cli
