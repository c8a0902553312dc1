#include "search/frameworks/batch_script.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "base/numbers.h"
#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::string_view kBegin = "<<'END_OF_PLAN'\n";
constexpr std::string_view kEnd = "\nEND_OF_PLAN\n";

// The value of "#SBATCH --nodes=2", and where it stands.
struct Directive {
  std::int64_t value = 0;
  std::size_t at = 0;
};

std::optional<Directive> FindDirective(std::string_view script, std::string_view name) {
  const std::string begin = fmt::format("\n#SBATCH {}=", name);
  const std::size_t at = script.rfind(begin);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view text = script.substr(at + begin.size());
  text = text.substr(0, text.find_first_of(" \t\r\n"));
  const auto value = base::ParseNumber<std::int64_t>(text, 1, std::int64_t{1} << 31);
  return value ? std::optional(Directive{.value = *value, .at = at + 1}) : std::nullopt;
}

// Returns "train.sh:12".
std::string PlaceIn(std::string_view file, std::string_view script, std::size_t at) {
  return fmt::format("{}:{}", file,
                     1 + std::count(script.begin(), script.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// Returns whether a file is one of data or of a tokenizer, by its name or by the option or variable that
// `before` ends in.
bool IsOfData(std::string_view before, std::string_view name) {
  if (before.ends_with('}')) before = before.substr(0, std::min(before.rfind('$'), before.size()));
  const std::size_t separator = before.find_last_not_of(" \t=\"'${");
  before = before.substr(0, separator + 1);
  const std::string about = absl::AsciiStrToLower(std::string(before.substr(before.find_last_of(" \t") + 1))),
                    lower = absl::AsciiStrToLower(std::string(name));
  return about.find("data") != std::string::npos ||
         std::ranges::any_of(std::array{"vocab", "token", "merge"}, [&](const char* word) {
           return about.find(word) != std::string::npos || lower.find(word) != std::string::npos;
         });
}

}  // namespace

bool IsBatchScript(std::string_view text) {
  return text.starts_with("#!") && text.find("\n#SBATCH ") != std::string_view::npos &&
         text.find(kBegin) != std::string_view::npos;
}

absl::StatusOr<HeldFile> FileHeldBy(std::string_view file, std::string_view script) {
  const std::size_t mark = script.find(kBegin);
  const std::size_t begin = mark + kBegin.size() - 1;  // the newline, of an empty file too
  const std::size_t end = script.find(kEnd, begin);
  if (end == std::string_view::npos) {
    return base::InvalidArgument(PlaceIn(file, script, mark),
                                 "the file that the script holds does not end; add a line END_OF_PLAN");
  }
  HeldFile held{.text = std::string(script), .end = end + 1};
  for (std::size_t i = 0; i < held.text.size(); ++i) {
    if ((i < begin || i >= held.end) && held.text[i] != '\n') held.text[i] = ' ';
  }
  return held;
}

absl::StatusOr<std::int64_t> RanksOfNode(std::string_view file, std::string_view script, std::int64_t ranks) {
  const auto nodes = FindDirective(script, "--nodes"), each = FindDirective(script, "--gpus-per-node");
  if (!nodes || !each) return 0;
  if (nodes->value * each->value != ranks) {
    return base::InvalidArgument(
        PlaceIn(file, script, nodes->at),
        fmt::format("#SBATCH has {} nodes of {} GPUs, and the file that the script holds trains on {} ranks; "
                    "change one of them",
                    nodes->value, each->value, ranks));
  }
  return each->value;
}

std::vector<NamedFile> FilesNamedBy(std::string_view script) {
  const auto of_path = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
  };
  std::vector<NamedFile> files;
  std::int64_t line = 0;
  for (std::size_t at = 0; at < script.size(); ++at) {
    ++line;
    const std::string_view text = script.substr(at, std::min(script.find('\n', at), script.size()) - at);
    at += text.size();
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos || text[first] == '#') continue;
    for (std::size_t begin = first; begin < text.size(); ++begin) {
      std::size_t end = begin;
      while (end < text.size() && of_path(text[end])) ++end;
      std::string_view path = text.substr(begin, end - begin);
      begin = end;
      const bool settings = path.ends_with(".args") || path.ends_with(".json") || path.ends_with(".toml") ||
                            path.ends_with(".yaml") || path.ends_with(".yml");
      // "/run.toml" of "$DIR/run.toml" and of "${DIR}/run.toml"
      const std::size_t before = end - path.size();
      const bool variable = before > 0 && (text[before - 1] == '}' || text[before - 1] == '$');
      if (variable && path.find('/') != std::string_view::npos) path.remove_prefix(path.find('/') + 1);
      const std::string_view name = path.substr(path.rfind('/') + 1);
      if (!settings || IsOfData(text.substr(0, before), name) || name.starts_with('.') ||
          path.starts_with('-'))
        continue;
      const bool known =
          std::any_of(files.begin(), files.end(), [&](const NamedFile& other) { return other.path == path; });
      if (!known) files.push_back({std::string(path), line});
    }
  }
  return files;
}

}  // namespace autocfg
