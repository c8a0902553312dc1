#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/reading/settings_forms.h"
#include "search/reading/shell_script.h"

namespace autocfg {
namespace {

bool IsOption(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

std::string_view LineAt(std::string_view text, std::size_t at) {
  return text.substr(at, std::min(text.find('\n', at), text.size()) - at);
}

std::string_view Trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// A word of a flag file or a script, with the part of the text that it is.
struct FlagWord {
  std::string text;
  std::string unknown;
  std::size_t at = 0;
  std::size_t begin = kNowhere, end = kNowhere;
};

FlagWord WordOf(const ShellWord& word, const ShellScript& script, std::size_t otherwise) {
  FlagWord result{.text = TextOf(word), .unknown = {}, .at = word.empty() ? otherwise : word.front().at};
  bool whole = !word.empty();
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i].unknown >= 0 && result.unknown.empty())
      result.unknown = script.unknowns[static_cast<std::size_t>(word[i].unknown)];
    whole = whole && word[i].unknown < 0 && !word[i].computed && word[i].at == word.front().at + i;
  }
  if (whole) {
    result.begin = word.front().at;
    result.end = result.begin + word.size();
  }
  return result;
}

// Appends the options among the words, each with the values behind it.
void AddOptions(const std::vector<FlagWord>& words, SettingsText& settings) {
  Setting* option = nullptr;
  for (const FlagWord& word : words) {
    if (IsOption(word.text)) {
      const std::size_t equals = word.text.find('=');
      option = &settings.settings.emplace_back(
          Setting{.name = word.text.substr(0, equals), .values = {}, .at = word.at});
      if (equals == std::string::npos) continue;
      option->values.push_back(word.text.substr(equals + 1));
      option->unknown = word.unknown;
      if (word.begin != kNowhere) {
        option->value_at = word.begin + equals + 1;
        option->value_end = word.end;
      }
    } else if (!word.unknown.empty() && word.text.empty() && (option == nullptr || !option->values.empty())) {
      settings.notes.push_back(fmt::format("{}: {}; it may hold more options, which were not read",
                                           settings.Place(word.at), word.unknown));
    } else if (option != nullptr) {
      if (option->unknown.empty()) option->unknown = word.unknown;
      option->values.push_back(word.text);
      option->value_at = option->values.size() == 1 ? word.begin : kNowhere;
      option->value_end = option->values.size() == 1 ? word.end : kNowhere;
    }
  }
}

std::vector<FlagWord> WordsOfLine(std::string_view text, std::size_t at) {
  std::vector<FlagWord> words;
  const std::size_t end = at + LineAt(text, at).size();
  while (at < end) {
    if (text[at] == ' ' || text[at] == '\t' || text[at] == '\r') {
      ++at;
      continue;
    }
    std::size_t stop = at;
    while (stop < end && text[stop] != ' ' && text[stop] != '\t' && text[stop] != '\r') ++stop;
    std::size_t from = at, to = stop;
    if (to - from >= 2 && (text[from] == '\'' || text[from] == '"') && text[to - 1] == text[from]) {
      ++from;
      --to;
    }
    words.push_back({.text = std::string(text.substr(from, to - from)),
                     .unknown = {},
                     .at = at,
                     .begin = from,
                     .end = to});
    at = stop;
  }
  return words;
}

// Takes nodes and ranks of a node from the options of torchrun, or of what starts it.
void AddLaunch(const std::vector<FlagWord>& words, SettingsText& settings) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i].text.substr(0, words[i].text.find('='));
    if (!IsOption(name)) continue;
    std::replace(name.begin() + 2, name.end(), '-', '_');
    const bool ranks = name == "--nproc_per_node";
    if (!ranks && name != "--nnodes" && name != "--standalone") continue;
    Setting setting{
        .name = std::string(ranks ? kLaunchRanks : kLaunchNodes), .values = {"1"}, .at = words[i].at};
    if (name != "--standalone") {
      const bool joined = words[i].text.find('=') != std::string::npos;
      if (!joined && i + 1 >= words.size()) continue;
      const FlagWord& value = joined ? words[i] : words[i + 1];
      setting.values = {joined ? value.text.substr(value.text.find('=') + 1) : value.text};
      setting.unknown = value.unknown;
    }
    settings.settings.push_back(std::move(setting));
  }
}

// `#SBATCH --nodes=8` and `--ntasks-per-node=8`, where a script starts no torchrun.
void AddSlurmDirectives(SettingsText& settings) {
  std::string_view text = settings.text;
  for (std::size_t at = 0; at < text.size(); at += LineAt(text, at).size() + 1) {
    if (!LineAt(text, at).starts_with("#SBATCH")) continue;
    const std::vector<FlagWord> words = WordsOfLine(text, at);
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i].text;
      const std::size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const std::string value = equals != std::string::npos ? word.substr(equals + 1)
                                : i + 1 < words.size()      ? words[i + 1].text
                                                            : "";
      const auto add = [&](std::string_view as) {
        settings.settings.push_back({.name = std::string(as), .values = {value}, .at = words[i].at});
      };
      if (name == "--nodes" || name == "-N") add(kLaunchNodes);
      if (name == "--ntasks-per-node") add(kLaunchRanks);
    }
  }
}

bool HasLaunch(const SettingsText& settings, std::string_view name) {
  return std::any_of(settings.settings.begin(), settings.settings.end(),
                     [&](const Setting& setting) { return setting.name == name; });
}

bool IsFlagFile(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += LineAt(text, at).size() + 1) {
    const std::string_view line = Trimmed(LineAt(text, at));
    if (!line.empty() && !line.starts_with('#')) return line.starts_with("--") && !line.ends_with('\\');
  }
  return false;
}

void ReadFlagFile(SettingsText& settings) {
  std::string_view text = settings.text;
  constexpr std::string_view kStart = "# start: ";
  for (std::size_t at = 0; at < text.size(); at += LineAt(text, at).size() + 1) {
    const std::string_view line = Trimmed(LineAt(text, at));
    if (line.starts_with(kStart)) AddLaunch(WordsOfLine(text, at), settings);
    if (line.empty() || line.starts_with('#')) continue;
    std::vector<FlagWord> words = WordsOfLine(text, at);
    const auto comment = std::find_if(words.begin(), words.end(),
                                      [](const FlagWord& word) { return word.text.starts_with('#'); });
    words.erase(comment, words.end());
    AddOptions(words, settings);
  }
}

// A command's words; those with blanks in them (sh -c "...") are taken apart.
std::vector<FlagWord> WordsOfCommand(const ShellCommand& command, const ShellScript& script) {
  const bool nested = std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    const std::string text = TextOf(word);
    return text.find(".py ") != std::string::npos;
  });
  std::vector<FlagWord> words;
  for (const ShellWord& word : command.words) {
    if (!nested) {
      words.push_back(WordOf(word, script, command.at));
      continue;
    }
    ShellWord part;
    for (const ShellChar& c : word) {
      if (c.unknown < 0 && (c.c == ' ' || c.c == '\t' || c.c == '\n')) {
        if (!part.empty()) words.push_back(WordOf(part, script, command.at));
        part.clear();
      } else {
        part.push_back(c);
      }
    }
    if (!part.empty()) words.push_back(WordOf(part, script, command.at));
  }
  return words;
}

absl::Status ReadLaunchScript(std::string_view marker, SettingsText& settings) {
  const auto script = ReadShellScript(settings.file, settings.text);
  if (!script.ok()) return script.status();
  std::optional<std::vector<FlagWord>> chosen;
  std::size_t chosen_at = 0;
  for (const ShellCommand& command : script->commands) {
    std::vector<FlagWord> words = WordsOfCommand(command, *script);
    const auto program = std::find_if(words.begin(), words.end(),
                                      [](const FlagWord& word) { return word.text.ends_with(".py"); });
    const bool trains = std::any_of(words.begin(), words.end(), [&](const FlagWord& word) {
      return word.text == marker || word.text.starts_with(std::string(marker) + "=");
    });
    if (program == words.end() || !trains) continue;
    if (chosen) {
      return base::InvalidArgument(
          settings.Place(command.at),
          fmt::format("a second command trains, after that of line {}; give a file with one of them",
                      settings.Line(chosen_at)));
    }
    for (const std::string_view other :
         {"bert", "t5", "mamba", "vision", "retro", "ict", "vlm", "biencoder"}) {
      const std::string name = program->text.substr(program->text.rfind('/') + 1);
      if (name.find(other) != std::string::npos) {
        return base::InvalidArgument(settings.Place(program->at),
                                     fmt::format("{} trains no decoder of text, which is all that autocfg "
                                                 "models; give a script of pretrain_gpt.py",
                                                 base::Printable(name)));
      }
    }
    chosen_at = command.at;
    chosen = std::move(words);
  }
  if (!chosen) {
    return base::InvalidArgument(
        settings.file,
        fmt::format("no command of it starts a .py program with {}; give the script that does, "
                    "or a file of flags",
                    marker));
  }
  const auto program = std::find_if(chosen->begin(), chosen->end(),
                                    [](const FlagWord& word) { return word.text.ends_with(".py"); });
  AddLaunch({chosen->begin(), program}, settings);
  AddOptions({program + 1, chosen->end()}, settings);
  if (!HasLaunch(settings, kLaunchNodes) && !HasLaunch(settings, kLaunchRanks)) AddSlurmDirectives(settings);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SettingsText> ReadFlagSettings(std::string_view file, std::string_view text,
                                              std::string_view marker) {
  SettingsText settings{
      .file = std::string(file), .text = std::string(text), .settings = {}, .flags_are_present = true};
  if (IsFlagFile(text)) {
    ReadFlagFile(settings);
  } else if (absl::Status status = ReadLaunchScript(marker, settings); !status.ok()) {
    return status;
  }
  return settings;
}

}  // namespace autocfg
