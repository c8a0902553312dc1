// Logs in which a program printed its settings. Two forms are read:
//
//   ------------------------ arguments ------------------------      [model] Non-default values (...):
//     hidden_size ....................... 4096                         hidden_size: 4096  (Mcore default: 0)
//   -------------------- end of arguments ---------------------
//
// What a collector of logs put before a line ("[default0]:") is skipped. The first list counts.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

constexpr std::string_view kEndOfArguments = " end of arguments ----";
constexpr std::string_view kBeginOfSummary = "Configuration Summary (Non-Default Values";
constexpr std::string_view kLoggedVocab = "padded vocab (size: ";
constexpr std::size_t kMostLoggedSettings = 10'000;

constexpr std::string_view kBlanksOfLines = " \t\r";

bool IsName(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Returns the values of what Python prints: 'RMSNorm', ['core_attn', 'mlp'], <AttnBackend.auto: 5>.
std::vector<std::string> ValuesOf(std::string_view printed) {
  std::vector<std::string> values;
  std::string value;
  printed = base::Trimmed(printed);
  if (printed.starts_with('<')) printed = printed.substr(0, printed.find(':'));
  for (const char c : printed) {
    const bool between = c == ',' || c == ' ';
    if (!between && std::string_view("[]()<>'\"").find(c) == std::string_view::npos) value += c;
    if (!between) continue;
    if (!value.empty()) values.push_back(std::move(value));
    value.clear();
  }
  if (!value.empty()) values.push_back(std::move(value));
  return values;
}

class LogReader {
 public:
  explicit LogReader(SettingsText& settings) : settings_(settings) {}

  absl::Status Read() {
    const std::string_view text = settings_.text;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      Take(text.substr(at, end - at), at);
      if (settings_.settings.size() > kMostLoggedSettings) {
        return base::InvalidArgument(
            settings_.Place(at),
            fmt::format("its list has more than {} settings; give the part of one run", kMostLoggedSettings));
      }
      at = end + 1;
    }
    if (part_ != Part::kBefore && !settings_.settings.empty()) return absl::OkStatus();
    return base::InvalidArgument(settings_.file,
                                 "it is a log without a list of arguments; give one from the start of a run");
  }

 private:
  enum class Part { kBefore, kArguments, kBeginOfSummary, kBehind };

  void Take(std::string_view line, std::size_t at) {
    if (const std::size_t vocab = line.find(kLoggedVocab); vocab != std::string_view::npos) {
      const std::string_view size = line.substr(vocab + kLoggedVocab.size());
      Add("tokens of the vocabulary", size.substr(0, size.find(')')), at);
      return;
    }
    if (part_ == Part::kBefore) {
      if (IsBeginOfArguments(line)) part_ = Part::kArguments;
      if (line.find(kBeginOfSummary) != std::string_view::npos) part_ = Part::kBeginOfSummary;
    } else if (part_ == Part::kArguments) {
      if (line.find(kEndOfArguments) != std::string_view::npos) {
        part_ = Part::kBehind;
      } else {
        TakeArgument(line, at);
      }
    } else if (part_ == Part::kBeginOfSummary) {
      TakeOfSummary(line, at);
    }
  }

  // "  hidden_size ........... 4096"
  void TakeArgument(std::string_view line, std::size_t at) {
    const std::size_t dots = line.find(" ..");
    if (dots == std::string_view::npos) return;
    const std::size_t name = line.find_last_of(" \t:", dots - 1) + 1;
    const std::size_t value = std::min(line.find_first_not_of('.', dots + 1), line.size());
    if (dots > name && IsName(line.substr(name, dots - name)))
      Add(line.substr(name, dots - name), line.substr(value), at + name);
  }

  // "[model] ..." begins a section; "  hidden_size: 4096  (Mcore default: 0)"
  void TakeOfSummary(std::string_view line, std::size_t at) {
    line = line.substr(0, line.find("  (Mcore default"));
    const std::size_t begin = std::min(line.find_first_not_of(kBlanksOfLines), line.size());
    if (line.substr(begin).starts_with('[')) {
      section_ = std::string(line.substr(begin + 1, line.find(']') - begin - 1));
      return;
    }
    const std::size_t colon = line.find(": ", begin);
    if (section_.empty() || colon == std::string_view::npos || !IsName(line.substr(begin, colon - begin))) {
      if (!section_.empty() && line.find("========") != std::string_view::npos) part_ = Part::kBehind;
      return;
    }
    Add(fmt::format("{}.{}", section_, line.substr(begin, colon - begin)), line.substr(colon + 2),
        at + begin);
  }

  void Add(std::string_view name, std::string_view printed, std::size_t at) {
    settings_.settings.push_back({.name = std::string(name), .values = ValuesOf(printed), .at = at});
  }

  static bool IsBeginOfArguments(std::string_view line) {
    return line.find("---- arguments ----") != std::string_view::npos;
  }

  SettingsText& settings_;
  Part part_ = Part::kBefore;
  std::string section_;
};

}  // namespace

bool IsLogOfSettings(std::string_view text) {
  return text.find(kEndOfArguments) != std::string_view::npos ||
         text.find(kBeginOfSummary) != std::string_view::npos;
}

absl::StatusOr<SettingsText> ReadLogSettings(std::string_view file, std::string_view text) {
  SettingsText settings{.file = std::string(file), .text = std::string(text), .settings = {}};
  settings.is_log = true;
  if (absl::Status status = LogReader(settings).Read(); !status.ok()) return status;
  return settings;
}

}  // namespace autocfg
