#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/reading/settings_forms.h"
#include "search/reading/shell/shell_script.h"

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
  std::string perhaps = {};  // the condition that adds it; empty: it is there
  std::size_t at = 0;
  std::size_t begin = kNowhere, end = kNowhere;
};

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

// A value of an `#SBATCH` line, by the option's name: --nodes, --ntasks, --ntasks-per-node, --gpus-per-node.
struct SlurmValue {
  std::string text;
  std::size_t at = 0;
  std::size_t value_at = 0;
};

// Reads the sizes of the `#SBATCH` lines; the last of a name counts.
std::map<std::string, SlurmValue> SlurmDirectives(std::string_view text) {
  std::map<std::string, SlurmValue> values;
  for (std::size_t at = 0; at < text.size(); at += LineAt(text, at).size() + 1) {
    if (!LineAt(text, at).starts_with("#SBATCH")) continue;
    const std::vector<FlagWord> words = WordsOfLine(text, at);
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::size_t equals = words[i].text.find('=');
      std::string name = words[i].text.substr(0, equals);
      if (equals == std::string::npos && i + 1 >= words.size()) continue;
      std::string value = equals != std::string::npos ? words[i].text.substr(equals + 1) : words[i + 1].text;
      std::size_t value_at = equals != std::string::npos ? words[i].begin + equals + 1 : words[i + 1].begin;
      if (name == "-N") name = "--nodes";
      if (name == "-n") name = "--ntasks";
      const bool resource = name == "--gres";
      if (resource && !value.starts_with("gpu:")) continue;
      if (resource) name = "--gpus-per-node";
      // gpu:8, gpu:h100:8 and h100:8 end in the number.
      if (const std::size_t colon = value.rfind(':');
          name == "--gpus-per-node" && colon != std::string::npos) {
        value_at += colon + 1;
        value.erase(0, colon + 1);
      }
      const bool number =
          !value.empty() && value.size() < 10 &&
          std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (number) values[name] = {.text = value, .at = words[i].at, .value_at = value_at};
    }
  }
  return values;
}

// What an option of a launcher says of the ranks.
enum class LaunchSize { kNodes, kRanksOfNode, kRanks };

struct LaunchOption {
  std::string_view launcher;  // the end of its word; empty: torchrun and its kin
  std::string_view name;      // with '_' between words
  LaunchSize size;
};

constexpr LaunchOption kLaunchOptions[] = {
    {"", "--nproc_per_node", LaunchSize::kRanksOfNode},
    {"", "--nnodes", LaunchSize::kNodes},
    {"deepspeed", "--num_gpus", LaunchSize::kRanksOfNode},
    {"deepspeed", "--num_nodes", LaunchSize::kNodes},
    {"accelerate", "--num_processes", LaunchSize::kRanks},
    {"accelerate", "--num_machines", LaunchSize::kNodes},
    {"mpirun", "-np", LaunchSize::kRanks},
    {"mpirun", "-n", LaunchSize::kRanks},
    {"mpiexec", "-np", LaunchSize::kRanks},
    {"mpiexec", "-n", LaunchSize::kRanks},
    {"srun", "--nodes", LaunchSize::kNodes},
    {"srun", "-N", LaunchSize::kNodes},
    {"srun", "--ntasks", LaunchSize::kRanks},
    {"srun", "-n", LaunchSize::kRanks},
    {"srun", "--ntasks_per_node", LaunchSize::kRanksOfNode},
};

constexpr std::string_view kLaunchers[] = {"deepspeed", "accelerate", "mpirun", "mpiexec", "srun"};

// Returns the words of the launcher that starts the ranks, the last one before the program, and its name:
// empty for torchrun and its kin.
std::pair<std::vector<FlagWord>, std::string_view> LastLauncher(const std::vector<FlagWord>& words) {
  for (std::size_t i = words.size(); i-- > 0;) {
    const std::string file = words[i].text.substr(words[i].text.rfind('/') + 1);
    const auto rest = [&] {
      return std::vector<FlagWord>(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
    };
    if (file == "torchrun" || file.starts_with("torch.distributed.")) return {rest(), ""};
    const auto launcher = std::find(std::begin(kLaunchers), std::end(kLaunchers), file);
    if (launcher != std::end(kLaunchers)) return {rest(), *launcher};
  }
  return {words, ""};
}

// The value of an option, which may stand behind '=' or in the next word.
struct LaunchValue {
  std::size_t at = 0;
  std::string text, unknown;
};

void AddLaunchSetting(std::string_view name, const LaunchValue& value, SettingsText& settings) {
  settings.settings.push_back(
      {.name = std::string(name), .values = {value.text}, .unknown = value.unknown, .at = value.at});
}

// Takes nodes and ranks of a node from the options of the launcher, or of what starts it. `directives`: what
// srun takes for what it is not told.
void AddLaunch(const std::vector<FlagWord>& words, const std::map<std::string, SlurmValue>& directives,
               SettingsText& settings) {
  const auto [of_launcher, launcher] = LastLauncher(words);
  std::map<LaunchSize, LaunchValue> sizes;
  if (launcher == "srun") {
    for (const auto& [name, size] : {std::pair("--nodes", LaunchSize::kNodes),
                                     {"--ntasks", LaunchSize::kRanks},
                                     {"--ntasks-per-node", LaunchSize::kRanksOfNode}}) {
      if (const auto found = directives.find(name); found != directives.end())
        sizes[size] = {found->second.at, found->second.text, ""};
    }
  }
  for (std::size_t i = 0; i < of_launcher.size(); ++i) {
    const std::string& text = of_launcher[i].text;
    const std::size_t equals = text.find('=');
    std::string name = text.substr(0, equals);
    if (name.size() > 2) std::replace(name.begin() + 2, name.end(), '-', '_');
    if (launcher.empty() && name == "--standalone") {
      sizes[LaunchSize::kNodes] = {of_launcher[i].at, "1", ""};
      continue;
    }
    const auto option = std::find_if(
        std::begin(kLaunchOptions), std::end(kLaunchOptions),
        [&](const LaunchOption& known) { return known.launcher == launcher && known.name == name; });
    if (option == std::end(kLaunchOptions)) continue;
    const bool joined = equals != std::string::npos;
    if (!joined && i + 1 >= of_launcher.size()) continue;
    const FlagWord& value = joined ? of_launcher[i] : of_launcher[i + 1];
    if (option->size == LaunchSize::kRanks) sizes.erase(LaunchSize::kRanksOfNode);
    if (option->size == LaunchSize::kRanksOfNode) sizes.erase(LaunchSize::kRanks);
    sizes[option->size] = {of_launcher[i].at, joined ? text.substr(equals + 1) : value.text, value.unknown};
  }
  std::int64_t ranks = 0, nodes = 1;
  const auto number = [&](LaunchSize size, std::int64_t& into) {
    const auto found = sizes.find(size);
    return found == sizes.end() || absl::SimpleAtoi(found->second.text, &into);
  };
  if (sizes.contains(LaunchSize::kRanks) && !sizes.contains(LaunchSize::kRanksOfNode)) {
    LaunchValue each = sizes[LaunchSize::kRanks];
    if (number(LaunchSize::kRanks, ranks) && number(LaunchSize::kNodes, nodes) && nodes > 0 &&
        ranks % nodes == 0)
      each.text = fmt::to_string(ranks / nodes);
    sizes[LaunchSize::kRanksOfNode] = each;
  }
  for (const auto& [size, as] :
       {std::pair(LaunchSize::kNodes, kLaunchNodes), {LaunchSize::kRanksOfNode, kLaunchRanks}}) {
    if (const auto found = sizes.find(size); found != sizes.end())
      AddLaunchSetting(as, found->second, settings);
  }
}

// The variables that Slurm sets in a script by its `#SBATCH` lines.
std::map<std::string, ShellWord> SlurmEnvironment(const std::map<std::string, SlurmValue>& directives) {
  std::map<std::string, ShellWord> variables;
  const auto find = [&](const char* name) {
    const auto found = directives.find(name);
    return found == directives.end() ? nullptr : &found->second;
  };
  const auto set = [&](const SlurmValue* value, std::initializer_list<const char*> names) {
    if (value == nullptr) return;
    ShellWord word;
    for (std::size_t i = 0; i < value->text.size(); ++i)
      word.push_back({.c = value->text[i], .at = value->value_at + i});
    for (const char* name : names) variables[name] = word;
  };
  const SlurmValue *nodes = find("--nodes"), *each = find("--ntasks-per-node");
  set(nodes, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  set(each, {"SLURM_NTASKS_PER_NODE"});
  set(find("--gpus-per-node"), {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
  set(find("--ntasks"), {"SLURM_NTASKS", "SLURM_NPROCS"});
  std::int64_t count = 0, tasks = 0;
  if (!variables.contains("SLURM_NTASKS") && nodes != nullptr && each != nullptr &&
      absl::SimpleAtoi(nodes->text, &count) && absl::SimpleAtoi(each->text, &tasks)) {
    ShellWord word;
    for (const char c : fmt::to_string(count * tasks))
      word.push_back({.c = c, .at = each->value_at, .computed = true});
    variables["SLURM_NTASKS"] = variables["SLURM_NPROCS"] = std::move(word);
  }
  return variables;
}

// `#SBATCH --nodes=8` and `--ntasks-per-node=8`, where a script starts no torchrun.
void AddSlurmDirectives(const std::map<std::string, SlurmValue>& directives, SettingsText& settings) {
  const auto add = [&](const char* name, std::string_view as) {
    const auto found = directives.find(name);
    if (found == directives.end()) return;
    settings.settings.push_back(
        {.name = std::string(as), .values = {found->second.text}, .at = found->second.at});
  };
  add("--nodes", kLaunchNodes);
  add("--ntasks-per-node", kLaunchRanks);
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
  const std::map<std::string, SlurmValue> directives = SlurmDirectives(settings.text);
  const auto script = ReadShellScript(settings.file, settings.text, SlurmEnvironment(directives));
  if (!script.ok()) return script.status();
  std::optional<std::vector<FlagWord>> chosen;
  std::size_t chosen_at = 0;
  std::string unknown;  // why the options of a program cannot be known
  for (const ShellCommand& command : script->commands) {
    const std::string name = command.words.empty() ? "" : TextOf(command.words.front());
    if (name == "echo" || name == "printf") continue;  // it shows a command
    if ((name == "source" || name == ".") && command.words.size() > 1) {
      settings.notes.push_back(
          fmt::format("{}: {} is not read; what it sets is unknown here", settings.Place(command.at),
                      base::Printable(WordOf(command.words[1], *script, command.at).text)));
      continue;
    }
    std::vector<FlagWord> words = WordsOfCommand(command, *script);
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
    for (const std::string_view other :
         {"bert", "t5", "mamba", "vision", "retro", "ict", "vlm", "biencoder"}) {
      const std::string file = program->text.substr(program->text.rfind('/') + 1);
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
  if (!HasLaunch(settings, kLaunchNodes) && !HasLaunch(settings, kLaunchRanks))
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
