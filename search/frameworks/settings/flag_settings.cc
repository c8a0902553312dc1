#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/settings/launcher.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/frameworks/shell/shell_script.h"

namespace autocfg {
namespace {

bool IsOption(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

FlagWord WordOf(const ShellWord& word, const ShellScript& script, std::size_t otherwise) {
  FlagWord result{.text = TextOf(word), .unknown = {}, .at = word.empty() ? otherwise : word.front().at};
  bool whole = !word.empty();
  if (whole && word.front().perhaps >= 0)
    result.perhaps = script.unknowns[static_cast<std::size_t>(word.front().perhaps)];
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
          Setting{.name = word.text.substr(0, equals), .values = {}, .unknown = word.perhaps, .at = word.at});
      if (equals == std::string::npos) continue;
      option->values.push_back(word.text.substr(equals + 1));
      if (option->unknown.empty()) option->unknown = word.unknown;
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

bool IsFlagFile(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += LineAt(text, at).size() + 1) {
    const std::string_view line = base::Trimmed(LineAt(text, at));
    if (!line.empty() && !line.starts_with('#')) return line.starts_with("--") && !line.ends_with('\\');
  }
  return false;
}

void ReadFlagFile(SettingsText& settings) {
  std::string_view text = settings.text;
  constexpr std::string_view kStart = "# start: ";
  for (std::size_t at = 0; at < text.size(); at += LineAt(text, at).size() + 1) {
    const std::string_view line = base::Trimmed(LineAt(text, at));
    if (line.starts_with(kStart)) AddLaunch(WordsOfLine(text, at), {}, settings);
    if (line.empty() || line.starts_with('#')) continue;
    std::vector<FlagWord> words = WordsOfLine(text, at);
    const auto comment = std::find_if(words.begin(), words.end(),
                                      [](const FlagWord& word) { return word.text.starts_with('#'); });
    words.erase(comment, words.end());
    AddOptions(words, settings);
  }
}

// Returns the words up to the end of the command that runs a program: in a text that a shell reads again, a
// pipe, a redirection or another command may follow.
std::vector<FlagWord> UpToItsEnd(std::vector<FlagWord> words) {
  bool program = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string& text = words[i].text;
    const bool ends = program && text.ends_with(';');
    if (ends) text.pop_back();
    if (ends && words[i].end != kNowhere) --words[i].end;
    const std::size_t first = text.find_first_not_of("0123456789");  // of "2>&1"
    if (program && first != std::string::npos &&
        std::string_view("|&;<>").find(text[first]) != std::string_view::npos) {
      words.resize(i);
    } else if (ends) {
      words.resize(text.empty() && words[i].unknown.empty() ? i : i + 1);
    }
    if (i < words.size()) program = program || text.ends_with(".py");
  }
  return words;
}

// A command's words; those with blanks in them (sh -c "...") are taken apart.
std::vector<FlagWord> WordsOfCommand(const ShellCommand& command, const ShellScript& script) {
  const bool nested = std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    const std::string text = TextOf(word);
    return text.find(".py ") != std::string::npos;
  });
  const bool evaluated = !command.words.empty() && TextOf(command.words.front()) == "eval";
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
  return nested || evaluated ? UpToItsEnd(std::move(words)) : words;
}

absl::Status ReadLaunchScript(std::string_view marker, SettingsText& settings) {
  const SlurmValues directives = SlurmDirectives(settings.text);
  AUTOCFG_ASSIGN_OR_RETURN(const auto script,
                           ReadShellScript(settings.file, settings.text, SlurmEnvironment(directives)));
  std::optional<std::vector<FlagWord>> chosen;
  std::size_t chosen_at = 0;
  std::string unknown;  // why the options of a program cannot be known
  for (const ShellCommand& command : script.commands) {
    const std::string name = command.words.empty() ? "" : TextOf(command.words.front());
    if (name == "echo" || name == "printf") continue;  // it shows a command
    if ((name == "source" || name == ".") && command.words.size() > 1) {
      settings.notes.push_back(
          fmt::format("{}: {} is not read; what it sets is unknown here", settings.Place(command.at),
                      base::Printable(WordOf(command.words[1], script, command.at).text)));
      continue;
    }
    std::vector<FlagWord> words = WordsOfCommand(command, script);
    const auto program = std::find_if(words.begin(), words.end(),
                                      [](const FlagWord& word) { return word.text.ends_with(".py"); });
    const bool trains = std::any_of(words.begin(), words.end(), [&](const FlagWord& word) {
      return word.text == marker || word.text.starts_with(std::string(marker) + "=");
    });
    if (program == words.end()) continue;
    if (!trains) {
      const auto open =
          std::find_if(program, words.end(), [](const FlagWord& word) { return !word.unknown.empty(); });
      if (open != words.end())
        unknown = fmt::format("; of line {}, {}", settings.Line(open->at), open->unknown);
      continue;
    }
    if (chosen) {
      return base::InvalidArgument(
          settings.Place(command.at),
          fmt::format("a second command trains, after that of line {}; give a file with one of them",
                      settings.Line(chosen_at)));
    }
    const std::string file = program->text.substr(program->text.rfind('/') + 1);
    for (const std::string_view other : {"mamba", "pretrain_hybrid"}) {
      if (file.find(other) != std::string::npos) {
        return base::InvalidArgument(settings.Place(program->at),
                                     fmt::format("{} cannot be read: other layers than attention are not "
                                                 "modelled; give a script of pretrain_gpt.py",
                                                 base::Printable(file)));
      }
    }
    for (const std::string_view other : {"bert", "t5", "vision", "retro", "ict", "vlm", "biencoder"}) {
      if (file.find(other) != std::string::npos) {
        return base::InvalidArgument(settings.Place(program->at),
                                     fmt::format("{} trains no decoder of text, which is all that autocfg "
                                                 "models; give a script of pretrain_gpt.py",
                                                 base::Printable(file)));
      }
    }
    chosen_at = command.at;
    chosen = std::move(words);
  }
  if (!chosen) {
    return base::InvalidArgument(
        settings.file,
        fmt::format("no command of it starts a .py program with {}{}; give the script that does, "
                    "or a file of flags",
                    marker, unknown));
  }
  const auto program = std::find_if(chosen->begin(), chosen->end(),
                                    [](const FlagWord& word) { return word.text.ends_with(".py"); });
  AddLaunch({chosen->begin(), program}, directives, settings);
  AddOptions({program + 1, chosen->end()}, settings);
  AddSlurmDirectives(directives, settings);
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
