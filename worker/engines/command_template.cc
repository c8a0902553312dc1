#include "worker/engines/command_template.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::worker {
namespace {

constexpr std::array kPlaceholders = {
    Placeholder{"file", "the exported file"},
    Placeholder{"file_directory", "its directory, in which the command starts"},
    Placeholder{"file_stem", "its name without directory and ending"},
    Placeholder{"arguments", "the words of a file of flags, as arguments of their own", false, true},
    Placeholder{"plan_file", "the same run in autocfg's own form, best.json"},
    Placeholder{"engine_directory", "the directory of the engine's own file"},
    Placeholder{"ranks", "ranks of the plan"},
    Placeholder{"nodes", "workers that the plan runs on"},
    Placeholder{"ranks_per_node", "ranks on this node"},
    Placeholder{"node_rank", "number of this node, from 0"},
    Placeholder{"first_rank", "number of the first rank on this node"},
    Placeholder{"rank", "number of the rank", true},
    Placeholder{"local_rank", "its number on this node", true},
    Placeholder{"master_address", "address of the first node"},
    Placeholder{"master_port", "a free port there"},
    Placeholder{"steps", "steps to train, the untimed ones included"},
    Placeholder{"warmup_steps", "the untimed ones, which come first"},
    Placeholder{"timed_steps", "the others"},
    Placeholder{"global_batch", "sequences of a step"},
    Placeholder{"seq_len", "tokens of a sequence"},
    Placeholder{"seed", "seed of weights and data"},
};

bool BeginsName(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool ContinuesName(char c) { return BeginsName(c) || (c >= '0' && c <= '9'); }

// A name in braces within a text.
struct Found {
  std::size_t begin = 0, end = 0;  // of the braces
  std::string_view name;
};

std::optional<Found> NextIn(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('{', from); at != std::string_view::npos; at = text.find('{', at + 1)) {
    std::size_t end = at + 1;
    if (end < text.size() && BeginsName(text[end])) {
      while (end < text.size() && ContinuesName(text[end])) ++end;
    }
    if (end > at + 1 && end < text.size() && text[end] == '}')
      return Found{at, end + 1, text.substr(at + 1, end - at - 1)};
  }
  return std::nullopt;
}

}  // namespace

std::span<const Placeholder> Placeholders() { return kPlaceholders; }

absl::Status CheckPlaceholders(std::string_view text, bool per_rank, bool list_allowed) {
  for (auto found = NextIn(text, 0); found; found = NextIn(text, found->end)) {
    const auto* known = std::find_if(kPlaceholders.begin(), kPlaceholders.end(),
                                     [&](const Placeholder& each) { return each.name == found->name; });
    if (known == kPlaceholders.end()) {
      std::vector<std::string> names;
      names.reserve(kPlaceholders.size());
      for (const Placeholder& each : kPlaceholders) names.emplace_back(each.name);
      return absl::InvalidArgumentError(fmt::format("unknown placeholder {{{}}}; expected {}",
                                                    base::Printable(found->name), base::ChoiceText(names)));
    }
    if (known->of_rank && !per_rank) {
      return absl::InvalidArgumentError(fmt::format(
          "placeholder {{{}}} is of a command that is started once per rank; set \"start\": \"rank\"",
          known->name));
    }
    const bool alone = found->begin == 0 && found->end == text.size();
    if (known->is_list && !(list_allowed && alone)) {
      return absl::InvalidArgumentError(
          fmt::format("placeholder {{{}}} becomes several arguments; make it an argument of its own in "
                      "command, after the program",
                      known->name));
    }
  }
  return absl::OkStatus();
}

std::string Filled(std::string_view text, const PlaceholderValues& values) {
  std::string filled;
  std::size_t from = 0;
  for (auto found = NextIn(text, 0); found; found = NextIn(text, found->end)) {
    filled += text.substr(from, found->begin - from);
    filled += values.find(found->name)->second;
    from = found->end;
  }
  return filled + std::string(text.substr(from));
}

std::vector<std::string> Filled(const std::vector<std::string>& words, const PlaceholderValues& values) {
  std::vector<std::string> filled;
  for (const std::string& word : words) {
    const auto found = NextIn(word, 0);
    const bool is_list =
        found && std::any_of(kPlaceholders.begin(), kPlaceholders.end(),
                             [&](const auto& each) { return each.is_list && each.name == found->name; });
    if (!is_list) {
      filled.push_back(Filled(word, values));
      continue;
    }
    const std::string& lines = values.find(found->name)->second;
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = std::min(lines.find('\n', begin), lines.size());
      filled.push_back(lines.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return filled;
}

}  // namespace autocfg::worker
