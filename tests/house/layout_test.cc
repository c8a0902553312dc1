// Checks that directories and headers keep a size at which a newcomer finds things, and that code asks for
// axes by sets of them (docs/architecture.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "search/plan/mesh.h"
#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

namespace fs = std::filesystem;

bool IsSource(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".cc" || extension == ".cu" || extension == ".cuh";
}

template <typename Visit>
void ForEachSource(const Visit& visit) {
  for (const char* top :
       {"base", "search", "kernels", "proto", "trainer", "worker", "server", "cli", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(SourcePath(top))) {
      if (IsSource(entry.path())) visit(entry.path());
    }
  }
}

// A directory that a person has to scroll has groups to be named.
TEST(Layout, DirectoriesAreSmall) {
  constexpr int kMostSources = 26;
  std::map<std::string, int> sources;
  ForEachSource([&](const fs::path& path) { ++sources[path.parent_path().string()]; });
  ASSERT_GT(sources.size(), 50u) << "the sources were not found";
  for (const auto& [directory, count] : sources)
    EXPECT_LE(count, kMostSources) << directory << ": move a group of its files into a directory of its own";
}

// A small header usually belongs to a concept that has a file.
TEST(Layout, FewHeadersAreSmall) {
  constexpr std::ptrdiff_t kSmallLines = 30;
  int small = 0, all = 0;
  ForEachSource([&](const fs::path& path) {
    if (path.extension() != ".h") return;
    std::ifstream in(path);
    const std::ptrdiff_t lines =
        std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
    ++all;
    if (lines <= kSmallLines) ++small;
  });
  ASSERT_GT(all, 200) << "the headers were not found";
  EXPECT_LT(5 * small, all) << small << " of " << all << " headers have " << kSmallLines
                            << " lines or fewer: merge some into the concepts that they belong to";
}

// A pattern of an access to one of the axes, whose name it captures.
std::string AxisAccess() {
  std::string names;
  for (const AxisRow& row : kAxes) names += (names.empty() ? "" : "|") + std::string(row.name);
  return "(?:\\.|->)(" + names + ")\\b";
}

// Returns the names of the axes that the text accesses as fields.
std::set<std::string> AxesNamedIn(const std::string& text) {
  static const std::regex access(AxisAccess());
  std::set<std::string> named;
  for (std::sregex_iterator found(text.begin(), text.end(), access), end; found != end; ++found)
    named.insert((*found)[1]);
  return named;
}

// Returns whether the text multiplies or divides the size of one axis by that of another.
bool CombinesSizesByName(const std::string& text) {
  static const std::regex product(AxisAccess() + R"(\)?\s*[*/%]\s*\(?[\w.>-]*)" + AxisAccess());
  for (std::sregex_iterator found(text.begin(), text.end(), product), end; found != end; ++found) {
    if ((*found)[1] != (*found)[2]) return true;
  }
  return false;
}

TEST(Layout, FindsSizesThatAreCombinedByName) {
  EXPECT_TRUE(CombinesSizesByName("const int ranks = plan.tp * plan.pp;"));
  EXPECT_TRUE(CombinesSizesByName("ranks / (a.plan->tp * run.plan.dp)"));
  EXPECT_TRUE(CombinesSizesByName("plan.pp / (plan.dp + 1)"));
  EXPECT_FALSE(CombinesSizesByName("plan.pp * plan.virtual_stages; plan.tp_overlap * plan.dp"));
  EXPECT_FALSE(CombinesSizesByName("(rows + plan.tp - 1) / plan.tp * plan.tp"));
  EXPECT_EQ(AxesNamedIn("plan.tp + plan.pp_comm, p->dp"), (std::set<std::string>{"dp", "tp"}));
}

// An axis that is added must not be looked for in many files.
TEST(Layout, FewFilesNameSeveralAxes) {
  // The table of axes, and the rows and rules of single options. Readers and writers of frameworks' files
  // whose settings differ in more than names.
  const std::set<std::string> may_name = {"search/plan/mesh.h",
                                          "search/plan/plan_options.cc",
                                          "search/plan/parallel_plan.h",
                                          "search/plan/legality.cc",
                                          "search/frameworks/deepspeed/deepspeed_reader.cc",
                                          "search/frameworks/deepspeed/deepspeed_writer.cc",
                                          "search/frameworks/accelerate/accelerate_reader.cc",
                                          "search/frameworks/gpt_neox/gpt_neox_reader.cc",
                                          "search/frameworks/gpt_neox/gpt_neox_writer.cc",
                                          "search/frameworks/maxtext/maxtext_reader.cc",
                                          "search/frameworks/nanotron/nanotron.h",
                                          "search/frameworks/nanotron/nanotron_reader.cc",
                                          "search/frameworks/nanotron/nanotron_writer.cc",
                                          "search/frameworks/torchtitan/torchtitan_reader.cc"};
  const fs::path root = SourcePath("");
  std::set<std::string> named;
  ForEachSource([&](const fs::path& path) {
    const std::string name = fs::relative(path, root).generic_string();
    if (name.starts_with("tests/")) return;
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    EXPECT_FALSE(CombinesSizesByName(text))
        << name << ": ask search/plan/mesh.h for the size of a set of axes";
    if (AxesNamedIn(text).size() < 2) return;
    named.insert(name);
    EXPECT_TRUE(may_name.contains(name))
        << name << " names several axes: ask search/plan/mesh.h for what they split, or iterate over kAxes";
  });
  EXPECT_EQ(named, may_name) << "take those that no longer name several axes off the list";
}

}  // namespace
}  // namespace autocfg
