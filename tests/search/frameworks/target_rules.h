// The options of a framework as data (rules/NAME.json, read from its sources), and files of each form as
// lists of options.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "search/frameworks/export_target.h"
#include "tests/support/build_paths.h"

namespace autocfg::test {

// Options in the order of the file: a name ("--bf16", "training.seq_len") and its value as text.
using Options = std::vector<std::pair<std::string, std::string>>;

// The frameworks whose files are written.
inline std::vector<std::string> ExportedFrameworks() {
  std::vector<std::string> names;
  for (const ExportTarget& target : ExportTargets()) {
    if (!target.version.empty()) names.emplace_back(target.name);
  }
  return names;
}

// The name of a framework as one of a test, which has no dash.
inline std::string TestNameOf(std::string name) {
  std::erase(name, '-');
  return name;
}

inline nlohmann::json RulesOf(const std::string& target) {
  std::ifstream file(SourcePath("tests/search/frameworks/rules/" + target + ".json"));
  return nlohmann::json::parse(file);
}

// Flags, one a line.
inline Options FlagOptions(const std::string& text) {
  Options options;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t blank = line.find(' ');
    options.emplace_back(line.substr(0, blank), blank == std::string::npos ? "" : line.substr(blank + 1));
  }
  return options;
}

// Overrides, one a line.
inline Options OverrideOptions(const std::string& text) {
  Options options;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = line.find('=');
    options.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return options;
}

// Leaves of a JSON object, with dots between the names.
inline void AddJsonOptions(const nlohmann::json& json, const std::string& path, Options& options) {
  for (const auto& [name, value] : json.items()) {
    const std::string whole = path.empty() ? name : absl::StrCat(path, ".", name);
    if (value.is_object()) {
      AddJsonOptions(value, whole, options);
    } else {
      options.emplace_back(whole, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

// Keys of TOML as the exporter writes it: tables, and values that may run over lines in brackets.
inline Options TomlOptions(const std::string& text) {
  Options options;
  std::istringstream lines(text);
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = line.find(" = ");
    if (line[0] == '[' && equals == std::string::npos) {
      table = line.substr(1, line.size() - 2);
      continue;
    }
    std::string value = line.substr(equals + 3);
    if (value == "[") {
      for (std::string more; std::getline(lines, more) && more != "]";) value += more;
      value += ']';
    }
    if (value.size() > 1 && value.front() == '"') value = value.substr(1, value.size() - 2);
    options.emplace_back(table + "." + line.substr(0, equals), value);
  }
  return options;
}

// Leaves of YAML as the exporter writes it: two blanks a level, lists of numbers below their key.
inline Options YamlOptions(const std::string& text) {
  Options options;
  std::istringstream lines(text);
  std::vector<std::string> path;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos || line[indent] == '#') continue;
    if (line[indent] == '-') {
      options.back().second += (options.back().second.empty() ? "" : ",") + line.substr(indent + 2);
      continue;
    }
    const std::size_t colon = line.find(':');
    path.resize(indent / 2);
    path.push_back(line.substr(indent, colon - indent));
    std::string whole;
    for (const std::string& part : path) whole += (whole.empty() ? "" : ".") + part;
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    options.emplace_back(whole, value);
  }
  // A key with keys below it is no option.
  Options leaves;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (i + 1 < options.size() && options[i + 1].first.starts_with(options[i].first + ".")) continue;
    leaves.push_back(options[i]);
  }
  return leaves;
}

}  // namespace autocfg::test
