#include <algorithm>
#include <initializer_list>
#include <span>
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
  result.key = FileKeyOf(word);
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

// A command of a script that runs a program of Python.
struct PythonCommand {
  std::size_t at = 0;
  std::vector<FlagWord> words;
  std::size_t program = 0;  // index of the program's word

  // Returns the file of the program, without its path.
  std::string File() const {
    const std::string& text = words[program].text;
    return text.substr(text.rfind('/') + 1);
  }
  bool Has(std::string_view option) const {
    return std::any_of(words.begin(), words.end(), [&](const FlagWord& word) {
      return word.text == option || word.text.starts_with(std::string(option) + "=");
    });
  }
};

// Returns the commands that run a program of Python; notes the files that the script sources.
std::vector<PythonCommand> PythonCommands(const ShellScript& script, SettingsText& settings) {
  std::vector<PythonCommand> commands;
  for (const ShellCommand& command : script.commands) {
    const std::string name = command.words.empty() ? "" : TextOf(command.words.front());
    if (name == "echo" || name == "printf") continue;  // it shows a command
    std::vector<FlagWord> words;
    for (const ShellWord& word : command.words) words.push_back(WordOf(word, script, command.at));
    if ((name == "source" || name == ".") && words.size() > 1) {
      settings.notes.push_back(fmt::format("{}: {} is not read; what it sets is unknown here",
                                           settings.Place(command.at), base::Printable(words[1].text)));
      continue;
    }
    const auto program = std::find_if(words.begin(), words.end(),
                                      [](const FlagWord& word) { return word.text.ends_with(".py"); });
    if (program == words.end()) continue;
    const auto index = static_cast<std::size_t>(program - words.begin());
    commands.push_back({command.at, std::move(words), index});
  }
  return commands;
}

absl::Status CheckProgram(const PythonCommand& command, const SettingsText& settings) {
  const std::string file = command.File();
  const auto has = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return file.find(word) != std::string::npos; });
  };
  const std::string& path = command.words[command.program].text;
  const auto lies_in = [&](std::string_view directory) {
    return path.find(fmt::format("/{}/", directory)) != std::string::npos ||
           path.starts_with(fmt::format("{}/", directory));
  };
  const bool other_layers = has({"mamba", "pretrain_hybrid"}),
             other_models = lies_in("multimodal") || lies_in("mimo") || lies_in("vision");
  if (!other_layers && !other_models && !has({"bert", "t5", "vision", "retro", "ict", "vlm", "biencoder"}))
    return absl::OkStatus();
  return base::InvalidArgument(
      settings.Place(command.words[command.program].at),
      fmt::format("{} {}; give a script of pretrain_gpt.py", base::Printable(file),
                  other_layers ? "cannot be read: other layers than attention are not modelled"
                               : "trains no decoder of text, which is all that autocfg models"));
}

bool HaveSameWords(const PythonCommand& a, const PythonCommand& b) {
  return std::ranges::equal(a.words, b.words, {}, &FlagWord::text, &FlagWord::text);
}

// Returns the one command that trains, by the first marker that some have; null if none has one. Commands of
// programs that train no decoder of text count only if there is no other. Two that are the same are one.
absl::StatusOr<const PythonCommand*> TrainingCommand(std::span<const std::string_view> markers,
                                                     const std::vector<PythonCommand>& commands,
                                                     const SettingsText& settings) {
  for (const std::string_view marker : markers) {
    const PythonCommand* chosen = nullptr;
    absl::Status other = absl::OkStatus();  // of the first program that trains something else
    for (const PythonCommand& command : commands) {
      if (!command.Has(marker)) continue;
      if (absl::Status status = CheckProgram(command, settings); !status.ok()) {
        if (other.ok()) other = std::move(status);
      } else if (chosen == nullptr) {
        chosen = &command;
      } else if (!HaveSameWords(*chosen, command)) {
        return base::InvalidArgument(
            settings.Place(command.at),
            fmt::format("a second command trains, after that of line {}; give a file with one of them",
                        settings.Line(chosen->at)));
      }
    }
    if (chosen != nullptr) return chosen;
    if (!other.ok()) return other;
  }
  return nullptr;
}

absl::StatusOr<ShellScript> ReadScript(const LaunchWords& launch, const SlurmValues& directives,
                                       const SettingsText& settings) {
  ShellStart start{.environment = SlurmEnvironment(directives), .arguments = {}, .files = launch.beside};
  for (const LaunchWord& word : launch.arguments) start.arguments.push_back(word.text);
  for (const auto& [name, value] : launch.variables) start.environment[name] = WordFromLaunch(value);
  return ReadShellScript(settings.file, settings.text, start);
}

// Returns the text with a mark for each part that cannot be known, quoted where JSON needs that.
std::string MarkedText(const ShellWord& text) {
  std::string marked;
  bool quoted = false;
  for (const ShellChar& c : text) {
    if (c.unknown < 0) {
      if (c.c == '"') quoted = !quoted;
      marked += c.c;
    } else {
      const std::string mark = fmt::format("{}{}", kUnknownMark, c.unknown);
      marked += quoted ? mark : fmt::format("\"{}\"", mark);
    }
  }
  return marked;
}

// Keeps the files that options of the command name.
void TakeNamedFiles(std::span<const std::string_view> options, const PythonCommand& command,
                    const ShellScript& script, SettingsText& settings) {
  for (std::size_t i = command.program; i < command.words.size(); ++i) {
    const FlagWord& word = command.words[i];
    const std::size_t equals = word.text.find('=');
    if (std::ranges::find(options, word.text.substr(0, equals)) == options.end()) continue;
    const bool joined = equals != std::string::npos;
    if (!joined && i + 1 == command.words.size()) continue;
    const std::string path = joined ? word.text.substr(equals + 1) : command.words[i + 1].text;
    const std::string key = joined ? path : command.words[i + 1].key;
    NamedText named{.option = word.text.substr(0, equals), .file = path};
    const std::optional<ShellWord> text = script.files.Read(key.empty() ? path : key, path);
    if (text) named.text = MarkedText(*text);
    named.unknowns = script.unknowns;
    settings.named.push_back(std::move(named));
  }
}

// Reads the options of a script's variables, if one of them says a model (the last marker) and no command
// trains: another script sources it. Returns whether it does.
bool ReadSourcedOptions(const FlagForm& form, const ShellScript& script, SettingsText& settings) {
  std::vector<FlagWord> words;
  for (const ShellWord& word : script.options) words.push_back(WordOf(word, script, 0));
  const bool model = std::ranges::find(words, form.markers.back(), &FlagWord::text) != words.end();
  if (!model) return false;
  AddOptions(words, settings);
  settings.notes.push_back(
      fmt::format("{}: no command of it trains: the options that its variables hold were read, and no others",
                  settings.file));
  return true;
}

absl::Status ReadLaunchScript(const FlagForm& form, const LaunchWords& launch, SettingsText& settings) {
  const std::span<const std::string_view> markers = form.markers;
  const SlurmValues directives = SlurmDirectives(settings.text);
  AUTOCFG_ASSIGN_OR_RETURN(const auto script, ReadScript(launch, directives, settings));
  const std::vector<PythonCommand> commands = PythonCommands(script, settings);
  AUTOCFG_ASSIGN_OR_RETURN(const PythonCommand* chosen, TrainingCommand(form.markers, commands, settings));
  if (chosen == nullptr && commands.empty() && ReadSourcedOptions(form, script, settings))
    return absl::OkStatus();
  if (chosen == nullptr) {
    std::string unknown;  // why the options of a program cannot be known
    for (const PythonCommand& command : commands) {
      const auto open =
          std::find_if(command.words.begin() + static_cast<std::ptrdiff_t>(command.program),
                       command.words.end(), [](const FlagWord& word) { return !word.unknown.empty(); });
      if (open != command.words.end())
        unknown = fmt::format("; of line {}, {}", settings.Line(open->at), open->unknown);
    }
    return base::InvalidArgument(
        settings.file,
        fmt::format("no command of it starts a .py program with {}{}; give the script that does, "
                    "or a file of flags",
                    markers.front(), unknown));
  }
  const auto program = chosen->words.begin() + static_cast<std::ptrdiff_t>(chosen->program);
  AddLaunch({chosen->words.begin(), program}, directives, settings);
  AddOptions({program + 1, chosen->words.end()}, settings);
  AddSlurmDirectives(directives, settings);
  TakeNamedFiles(form.files, *chosen, script, settings);
  return absl::OkStatus();
}

}  // namespace

void AddFlags(const std::vector<LaunchWord>& words, SettingsText& settings) {
  std::vector<FlagWord> flags;
  flags.reserve(words.size());
  for (const LaunchWord& word : words)
    flags.push_back({.text = word.text, .unknown = word.unknown, .at = kNowhere});
  AddOptions(flags, settings);
}

absl::StatusOr<NamingCommand> CommandThatNames(std::string_view named, std::string_view file,
                                               std::string_view text, const LaunchWords& launch) {
  SettingsText settings{.file = std::string(file), .text = std::string(text), .settings = {}};
  const SlurmValues directives = SlurmDirectives(text);
  AUTOCFG_ASSIGN_OR_RETURN(const auto script, ReadScript(launch, directives, settings));
  NamingCommand found;
  for (const PythonCommand& command : PythonCommands(script, settings)) {
    const auto program = command.words.begin() + static_cast<std::ptrdiff_t>(command.program);
    const bool names = std::any_of(program, command.words.end(),
                                   [&](const FlagWord& word) { return word.text.ends_with(named); });
    if (!names) continue;
    for (auto word = program + 1; word != command.words.end(); ++word)
      found.words.push_back({word->text, word->unknown.empty() ? word->perhaps : word->unknown});
    AddLaunch({command.words.begin(), program}, directives, settings);
    AddSlurmDirectives(directives, settings);
    SettingReader read(settings);
    if (read.Has(kLaunchRanks)) found.ranks = read.Whole(kLaunchNodes, 1) * read.Whole(kLaunchRanks, 1);
    if (!read.ok()) found.ranks = 0;
    break;
  }
  return found;
}

absl::StatusOr<SettingsText> ReadFlagSettings(std::string_view file, std::string_view text,
                                              const FlagForm& form, const LaunchWords& launch) {
  SettingsText settings{
      .file = std::string(file), .text = std::string(text), .settings = {}, .flags_are_present = true};
  if (IsFlagFile(text)) {
    ReadFlagFile(settings);
    AddFlags(launch.arguments, settings);
  } else if (absl::Status status = ReadLaunchScript(form, launch, settings); !status.ok()) {
    return status;
  }
  return settings;
}

}  // namespace autocfg
