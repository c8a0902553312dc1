#include "search/frameworks/settings/launcher.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "base/numbers.h"
#include "fmt/format.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

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

bool HasLaunch(const SettingsText& settings, std::string_view name) {
  return std::any_of(settings.settings.begin(), settings.settings.end(),
                     [&](const Setting& setting) { return setting.name == name; });
}

}  // namespace

std::string_view LineAt(std::string_view text, std::size_t at) {
  return text.substr(at, std::min(text.find('\n', at), text.size()) - at);
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

SlurmValues SlurmDirectives(std::string_view text) {
  SlurmValues values;
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

std::map<std::string, ShellWord> SlurmEnvironment(const SlurmValues& directives) {
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
  const auto number = [](const SlurmValue* value) {
    return value == nullptr ? std::nullopt : base::ParseNumber<std::int64_t>(value->text);
  };
  const auto count = number(nodes), tasks = number(each);
  if (!variables.contains("SLURM_NTASKS") && count && tasks) {
    ShellWord word;
    for (const char c : fmt::to_string(*count * *tasks))
      word.push_back({.c = c, .at = each->value_at, .computed = true});
    variables["SLURM_NTASKS"] = variables["SLURM_NPROCS"] = std::move(word);
  }
  return variables;
}

void AddLaunch(const std::vector<FlagWord>& words, const SlurmValues& directives, SettingsText& settings) {
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
    const auto option = std::find_if(std::begin(kLaunchOptions), std::end(kLaunchOptions),
                                     [&, &launcher = launcher](const LaunchOption& known) {
                                       return known.launcher == launcher && known.name == name;
                                     });
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
    if (found == sizes.end()) return true;
    const auto value = base::ParseNumber<std::int64_t>(found->second.text);
    if (value) into = *value;
    return value.has_value();
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

void AddSlurmDirectives(const SlurmValues& directives, SettingsText& settings) {
  if (HasLaunch(settings, kLaunchNodes) || HasLaunch(settings, kLaunchRanks)) return;
  const auto add = [&](const char* name, std::string_view as) {
    const auto found = directives.find(name);
    if (found == directives.end()) return;
    settings.settings.push_back(
        {.name = std::string(as), .values = {found->second.text}, .at = found->second.at});
  };
  add("--nodes", kLaunchNodes);
  add("--ntasks-per-node", kLaunchRanks);
}

}  // namespace autocfg
