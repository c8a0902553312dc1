#include "worker/supervisor/orders.h"

#include <charconv>
#include <cstddef>
#include <utility>

namespace autocfg::worker {

// The number of arguments, the arguments, the variables; each ends with NUL.
std::string EncodeRankCommand(const RankCommand& command) {
  std::string text = std::to_string(command.arguments.size()) + '\0';
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
  if (words.empty()) return std::nullopt;
  const std::string& number = words.front();
  std::size_t arguments = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), arguments);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  if (arguments == 0 || arguments >= words.size()) return std::nullopt;
  const auto first = words.begin() + 1;
  const auto variables = first + static_cast<std::ptrdiff_t>(arguments);
  return RankCommand{{first, variables}, {variables, words.end()}};
}

}  // namespace autocfg::worker
