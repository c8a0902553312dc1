// autocfg completion: prints a bash script that completes verbs, options, presets and plan options. It is
// made from the verbs themselves and from the table of plan options.
#include <algorithm>
#include <string>
#include <vector>

#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/plan/plan_options.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg::cli {
namespace {

// "--model --cluster ...": the options of a verb that `--help` shows. Of a verb with verbs below it: their
// names, and the options of all of them.
std::vector<std::string> WordsOf(const CLI::App& verb) {
  std::vector<std::string> words;
  const auto add = [&words](const std::string& word) {
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  };
  const std::vector<const CLI::App*> below = verb.get_subcommands(nullptr);
  for (const CLI::App* one : below) add(one->get_name());
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) add("--" + name);
  }
  for (const CLI::App* one : below) {
    for (const std::string& word : WordsOf(*one)) add(word);
  }
  return words;
}

// "tp= pp= schedule=gpipe schedule=1f1b ...": options of a plan, with each value if there are few.
std::string PlanWords() {
  std::vector<std::string> words;
  for (const PlanOption& option : PlanOptions()) {
    if (option.choices.empty()) words.push_back(fmt::format("{}=", option.name));
    for (const std::string_view choice : option.choices)
      words.push_back(fmt::format("{}={}", option.name, choice));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string BashScript(const CLI::App& app) {
  std::vector<std::string> verbs;
  std::string cases;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    verbs.push_back(verb->get_name());
    cases += fmt::format("    {}) words='{}' ;;\n", verb->get_name(), fmt::join(WordsOf(*verb), " "));
  }
  std::vector<std::string> clusters = DevicePresetNames();
  clusters.insert(clusters.begin(), "local");
  return fmt::format(
      R"(# bash completion of autocfg: source <(autocfg completion)
_autocfg() {{
  local current previous words=''
  _get_comp_words_by_ref -n '=,:' cur prev 2>/dev/null && current=$cur previous=$prev || {{
    current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  }}
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{}' -- "$current")
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "$previous" in
    --model) words='{}' ;;
    --cluster) words='{}' ;;
    --plan | --against | --space)
      # The last option of a list such as tp=2,pp=
      local before=''
      [[ $previous != --space && $current == *,* ]] && before="${{current%,*}},"
      mapfile -t COMPREPLY < <(compgen -P "$before" -W '{}' -- "${{current#"$before"}}")
      compopt -o nospace
      return ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  [[ ${{#COMPREPLY[@]}} -gt 0 || $current == -* ]] || compopt -o default
}}
complete -F _autocfg autocfg
)",
      fmt::join(verbs, " "), cases, fmt::join(ModelPresetNames(), " "), fmt::join(clusters, " "),
      PlanWords());
}

}  // namespace

void AddCompletion(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("completion", "a bash script that completes this command line");
  verb->callback([&app, &chosen] { chosen = [text = BashScript(app)] { return Answer(text); }; });
}

}  // namespace autocfg::cli
