// Checks the dependency rules of docs/architecture.md against the includes: each directory may include only
// what is drawn there.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

namespace fs = std::filesystem;

// Directory -> what its files may include in addition to their own. The longest matching prefix applies on
// both sides.
const std::map<std::string, std::vector<std::string>>& Rules() {
  static const std::map<std::string, std::vector<std::string>> rules = {
      {"base", {}},
      {"base/os", {"base"}},
      {"base/service", {"base", "base/os"}},
      {"search/ops", {}},
      {"search/plan", {"search/ops"}},
      {"search/shapes", {"search/ops", "search/plan"}},
      {"search/schedule", {"search/ops", "search/plan"}},
      {"search/breakdown", {"search/ops", "search/plan", "search/schedule"}},
      {"search/space", {"search/ops", "search/plan"}},
      {"search/blocks", {"search/ops", "search/plan", "search/shapes"}},
      {"search/cost",
       {"search/ops", "search/plan", "search/shapes", "search/blocks", "search/schedule",
        "search/breakdown"}},
      {"search/predict", {"search/ops", "search/plan", "search/schedule", "search/cost"}},
      {"search/regression", {}},
      {"search/fit",
       {"search/ops", "search/plan", "search/cost", "search/predict", "search/regression", "search/text",
        "search/question"}},
      {"search/planner",
       {"search/ops", "search/plan", "search/frameworks", "search/schedule", "search/breakdown",
        "search/space", "search/blocks", "search/cost", "search/regression", "search/text"}},
      {"search/text", {"search/ops", "search/plan", "search/schedule"}},
      {"search/question",
       {"search/ops", "search/plan", "search/breakdown", "search/cost", "search/predict", "search/text"}},
      {"search/hugging_face", {"search/ops", "search/plan", "search/text"}},
      {"search/frameworks", {"search/ops", "search/plan", "search/text"}},
      {"search/training_time", {"search/ops", "search/plan"}},
      {"search/sizing",
       {"search/ops", "search/plan", "search/cost", "search/space", "search/planner", "search/predict",
        "search/training_time"}},
      {"kernels", {"search/ops"}},
      {"kernels/nvml", {}},
      {"proto", {"base/os", "search", "autocfg/v1"}},
      {"proto/answer", {"base/os", "proto/convert", "search", "autocfg/v1"}},
      {"trainer",
       {"base/os", "kernels", "search/plan", "search/ops", "search/shapes", "search/schedule",
        "search/breakdown", "proto", "autocfg/v1/model.pb.h", "autocfg/v1/trainer.pb.h"}},
      {"worker",
       {"base/os", "base/service", "proto", "autocfg/v1", "search/plan", "search/ops", "search/space",
        "search/frameworks", "kernels/nvml"}},
      {"server", {"base/os", "base/service", "proto", "autocfg/v1", "search"}},
      {"cli", {"base/os", "proto", "autocfg/v1", "search", "server", "worker", "kernels/nvml"}},
  };
  return rules;
}

bool Within(const std::string& path, const std::string& prefix) {
  return path == prefix || path.starts_with(prefix + "/");
}

// Returns the rule for a path, by longest prefix; empty if none matches.
std::string RuleFor(const std::string& path) {
  std::string best;
  for (const auto& [directory, allowed] : Rules()) {
    if (Within(path, directory) && directory.size() > best.size()) best = directory;
  }
  return best;
}

struct Include {
  std::string file;
  std::string target;
};

std::vector<fs::path> SourceFiles() {
  std::vector<fs::path> files;
  for (const char* top : {"base", "search", "kernels", "proto", "trainer", "worker", "server", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(SourcePath(top))) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Include> Includes() {
  static const std::regex kPattern("^\\s*#\\s*include\\s*\"([^\"]+)\"");
  std::vector<Include> includes;
  for (const fs::path& path : SourceFiles()) {
    std::ifstream in(path);
    std::string line;
    std::smatch match;
    while (std::getline(in, line)) {
      if (std::regex_search(line, match, kPattern)) {
        includes.push_back({fs::relative(path, SourcePath("")).string(), match[1].str()});
      }
    }
  }
  return includes;
}

TEST(Dependencies, PointOneWay) {
  const std::vector<Include> includes = Includes();
  ASSERT_GT(includes.size(), 100u) << "the sources were not found";
  for (const Include& include : includes) {
    const std::string rule = RuleFor(include.file);
    ASSERT_FALSE(rule.empty()) << include.file << " stands under no rule";
    const bool generated = include.target.starts_with("autocfg/v1/");
    const std::string target_rule = generated ? "proto" : RuleFor(include.target);
    // third-party, or within the same rule
    if (target_rule.empty() || (target_rule == rule && !generated)) continue;
    if (target_rule == "base") continue;  // every room may use it
    const std::vector<std::string>& allowed = Rules().at(rule);
    const bool ok = std::any_of(allowed.begin(), allowed.end(),
                                [&](const std::string& prefix) { return Within(include.target, prefix); });
    EXPECT_TRUE(ok) << include.file << " may not include " << include.target;
  }
}

// Appends directories to `path` until one repeats; returns that cycle, or nothing.
std::vector<std::string> FindCycle(const std::map<std::string, std::set<std::string>>& edges,
                                   const std::string& directory, std::vector<std::string>& path,
                                   std::set<std::string>& done) {
  const auto seen = std::find(path.begin(), path.end(), directory);
  if (seen != path.end()) return {seen, path.end()};
  if (done.contains(directory)) return {};
  path.push_back(directory);
  if (const auto targets = edges.find(directory); targets != edges.end()) {
    for (const std::string& target : targets->second) {
      if (auto cycle = FindCycle(edges, target, path, done); !cycle.empty()) return cycle;
    }
  }
  path.pop_back();
  done.insert(directory);
  return {};
}

// At the grain of directories: inside a room as well as between rooms.
TEST(Dependencies, DirectoriesHaveNoCycles) {
  std::map<std::string, std::set<std::string>> edges;
  for (const Include& include : Includes()) {
    if (!fs::exists(SourcePath(include.target))) continue;  // a third party's, or generated
    const std::string from = fs::path(include.file).parent_path().string();
    const std::string to = fs::path(include.target).parent_path().string();
    if (from != to) edges[from].insert(to);
  }
  ASSERT_GT(edges.size(), 30u) << "the sources were not found";
  std::set<std::string> done;
  for (const auto& [directory, targets] : edges) {
    std::vector<std::string> path;
    const std::vector<std::string> cycle = FindCycle(edges, directory, path, done);
    std::string text;
    for (const std::string& step : cycle) text += step + " -> ";
    ASSERT_TRUE(cycle.empty()) << text << cycle.front();
  }
}

TEST(Dependencies, TrainerUsesNoGrpc) {
  for (const Include& include : Includes()) {
    if (!Within(include.file, "trainer")) continue;
    EXPECT_FALSE(include.target.find("grpc") != std::string::npos)
        << include.file << " includes " << include.target;
    EXPECT_FALSE(Within(include.target, "proto/rpc")) << include.file << " includes " << include.target;
  }
}

// docs/operations.md lists each variable that a program reads as "`NAME`", and lists none of ours that no
// program reads.
TEST(Environment, VariablesAreDocumented) {
  std::ifstream page(SourcePath("docs/operations.md"));
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  static const std::regex kAsked("(?:getenv|Environment)\\(\"([A-Z_]+)\"\\)");
  std::set<std::string> asked;
  for (const fs::path& path : SourceFiles()) {
    std::ifstream in(path);
    const std::string source((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    for (std::sregex_iterator match(source.begin(), source.end(), kAsked), end; match != end; ++match)
      asked.insert((*match)[1].str());
  }
  ASSERT_GT(asked.size(), 8u) << "the sources were not found";
  for (const std::string& name : asked) {
    // Variables of every program.
    if (name == "HOME" || name == "PATH") continue;
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name << " is read, and the page lacks it";
  }
  static const std::regex kRow("\n\\| `(AUTOCFG_[A-Z_]+)`");
  for (std::sregex_iterator match(text.begin(), text.end(), kRow), end; match != end; ++match)
    EXPECT_TRUE(asked.contains((*match)[1].str())) << (*match)[1] << " is on the page, and nobody reads it";
}

// Code compares devices as EngineDevice and DeviceKind (search/plan/cluster/engine_device.h), never as
// strings: a misspelt name would compile. So only these files contain a device's name as a string. "auto" is
// a request of the command line; a plan's split has a value of the same name.
TEST(DeviceNames, AreSpelledOnlyWhereTheyAreParsed) {
  const std::map<std::string, std::set<std::string>> allowed = {
      {"cpu|cuda|dry|paced",
       {
           "search/plan/cluster/engine_device.h", "search/plan/cluster/engine_device.cc",
           // Device::Name. kernels may not include search/plan; engine_test compares the names.
           "kernels/cpu/cpu_device.cc", "kernels/cuda/device/cuda_device.cc", "kernels/dry/dry_device.cc",
           "kernels/paced/paced_device.cc",
           "worker/machine/cgroup.cc",  // the controller of a control group
       }},
      {"auto",
       {
           "cli/input/inputs.cc",          // --device
           "search/plan/plan_options.cc",  // split=auto
           // A framework's value.
           "search/frameworks/megatron/core.h",
           "search/frameworks/deepspeed/deepspeed.h",
           "worker/machine/device_choice.cc",  // --devices
           "worker/program/program.h",
       }},
  };
  for (const auto& [names, files] : allowed) {
    const std::regex literal("\"(" + names + ")\"");
    std::set<std::string> found;
    for (const fs::path& path : SourceFiles()) {
      const std::string file = fs::relative(path, SourcePath("")).string();
      std::ifstream in(path);
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        const std::string code = line.substr(0, line.find("//"));
        if (!std::regex_search(code, literal)) continue;
        found.insert(file);
        EXPECT_TRUE(files.contains(file))
            << file << ":" << number << " spells a device's name; use EngineDevice or DeviceKind: " << line;
      }
    }
    for (const std::string& file : files)
      EXPECT_TRUE(found.contains(file)) << file << " is in the list, and spells none of " << names;
  }
}

TEST(Headers, AreGuardedOnce) {
  for (const fs::path& path : SourceFiles()) {
    if (path.extension() != ".h") continue;
    std::ifstream in(path);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_NE(text.find("#pragma once"), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace autocfg
