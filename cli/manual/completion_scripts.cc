#include "cli/manual/completion_scripts.h"

#include <vector>

#include "cli/manual/command_words.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg::cli {
namespace {

std::vector<std::string> TextsOf(const std::vector<Word>& words) {
  std::vector<std::string> texts;
  texts.reserve(words.size());
  for (const Word& word : words) texts.push_back(word.text);
  return texts;
}

// Returns the text for single quotes of a shell. `quote` is what a quote within them becomes.
std::string Escaped(const std::string& text, const std::string& quote) {
  std::string escaped;
  for (const char c : text) escaped += c == '\'' ? quote : std::string(1, c);
  return escaped;
}

// Returns 'word:about' for each, for the _describe of zsh. A colon in the word would end it.
std::string ZshEntries(const std::vector<Word>& words) {
  std::string entries;
  for (const Word& word : words) entries += fmt::format(" '{}:{}'", word.text, Escaped(word.about, "'\\''"));
  return entries;
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    cases +=
        fmt::format("    {}) words='{}' ;;\n", verb->get_name(), fmt::join(TextsOf(WordsOf(*verb)), " "));
  }
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
      fmt::join(TextsOf(VerbWords(app)), " "), cases, fmt::join(ModelWords(), " "),
      fmt::join(ClusterWords(), " "), fmt::join(PlanWords(), " "));
}

std::string ZshCompletion(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* verb : app.get_subcommands(nullptr))
    cases += fmt::format("    {}) entries=({}) ;;\n", verb->get_name(), ZshEntries(WordsOf(*verb)));
  return fmt::format(
      R"(#compdef autocfg
# zsh completion of autocfg: source <(autocfg completion zsh)
_autocfg() {{
  local -a entries
  if (( CURRENT == 2 )); then
    entries=({})
    _describe verb entries
    return
  fi
  case "${{words[CURRENT-1]}}" in
    --model) compadd -- {}; _files; return ;;
    --cluster) compadd -- {}; _files; return ;;
    --plan | --against | --space)
      # The last option of a list such as tp=2,pp=
      compset -P '*,'
      compadd -S '' -- {}
      return ;;
  esac
  case "${{words[2]}}" in
{}  esac
  if [[ "$PREFIX" == -* || "${{#entries}}" -gt 0 && -z "$PREFIX" ]]; then
    _describe -o option entries
  else
    _files
  fi
}}
compdef _autocfg autocfg
)",
      ZshEntries(VerbWords(app)), fmt::join(ModelWords(), " "), fmt::join(ClusterWords(), " "),
      fmt::join(PlanWords(), " "), cases);
}

std::string FishCompletion(const CLI::App& app) {
  constexpr const char* kQuote = "\\'";
  std::string script = "# fish completion of autocfg: autocfg completion fish | source\n";
  for (const Word& verb : VerbWords(app)) {
    script += fmt::format("complete -c autocfg -f -n __fish_use_subcommand -a {} -d '{}'\n", verb.text,
                          Escaped(verb.about, kQuote));
  }
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    for (const Word& word : WordsOf(*verb)) {
      const std::string when = fmt::format("-n '__fish_seen_subcommand_from {}'", verb->get_name());
      if (!word.text.starts_with("--")) {
        script += fmt::format("complete -c autocfg -f {} -a {} -d '{}'\n", when, word.text,
                              Escaped(word.about, kQuote));
        continue;
      }
      const std::string name = word.text.substr(2);
      std::string values;
      if (name == "model") values = fmt::format(" -a '{}'", fmt::join(ModelWords(), " "));
      if (name == "cluster") values = fmt::format(" -a '{}'", fmt::join(ClusterWords(), " "));
      if (name == "plan" || name == "against" || name == "space")
        values = fmt::format(" -f -a '{}'", fmt::join(PlanWords(), " "));
      script += fmt::format("complete -c autocfg {} -l {}{}{} -d '{}'\n", when, name,
                            word.takes_value ? " -r" : "", values, Escaped(word.about, kQuote));
    }
  }
  return script;
}

}  // namespace autocfg::cli
