// A file of command-line flags: one option with its values a line, `#` starts a comment, environment
// variables as `# env NAME=VALUE` (the form of the target megatron). Plain values.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autocfg {

class FlagFile {
 public:
  void Section(std::string_view title) { text_ += fmt::format("\n# {}\n", title); }
  void Comment(std::string_view line) { text_ += fmt::format("# {}\n", line); }
  // An option without a value, written if `on`.
  void Flag(std::string_view name, bool on = true) {
    if (on) text_ += fmt::format("{}\n", name);
  }
  template <typename T>
  void Option(std::string_view name, const T& value) {
    text_ += fmt::format("{} {}\n", name, value);
  }
  void Environment(const std::string& name, const std::string& value) {
    text_ += fmt::format("# env {}={}\n", name, value);
    environment_.emplace_back(name, value);
  }

  const std::string& text() const { return text_; }
  const std::vector<std::pair<std::string, std::string>>& environment() const { return environment_; }

 private:
  std::string text_;
  std::vector<std::pair<std::string, std::string>> environment_;
};

}  // namespace autocfg
