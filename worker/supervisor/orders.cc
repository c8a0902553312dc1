#include "worker/supervisor/orders.h"

#include <cstddef>
#include <utility>

#include "base/numbers.h"

namespace autocfg::worker {
namespace {

constexpr const char* kForeign = "foreign";
constexpr std::size_t kFirstArgument = 3;  // among the words

}  // namespace

// The number of arguments, "foreign" or nothing, the directory, the arguments, the variables; each ends with
// NUL.
std::string EncodeRankCommand(const RankCommand& command) {
  std::string text = std::to_string(command.arguments.size()) + '\0';
  text += std::string(command.foreign ? kForeign : "") + '\0';
  text += command.directory + '\0';
  for (const auto* list : {&command.arguments, &command.environment}) {
    for (const std::string& word : *list) text += word + '\0';
  }
  return text;
}

std::optional<RankCommand> DecodeRankCommand(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (words.size() < kFirstArgument) return std::nullopt;
  const auto arguments = base::ParseNumber<std::size_t>(words.front(), 1, words.size() - kFirstArgument);
  if (!arguments) return std::nullopt;
  if (!words[1].empty() && words[1] != kForeign) return std::nullopt;
  const auto first = words.begin() + kFirstArgument;
  const auto variables = first + static_cast<std::ptrdiff_t>(*arguments);
  return RankCommand{{first, variables}, {variables, words.end()}, !words[1].empty(), words[2]};
}

}  // namespace autocfg::worker
