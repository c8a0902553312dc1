// Runs each target of the fuzzers on its seeds and on mutations of them, the same ones in each run. The
// environment variable AUTOCFG_FUZZ_MUTATIONS asks for more of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/support/build_paths.h"

namespace autocfg::test {
namespace {

// Returns the files of other directories that are seeds of the target.
std::vector<std::string> SharedSeeds(const FuzzTarget& target) {
  std::vector<std::string> paths;
  std::istringstream list{std::string(target.shared_seeds)};
  for (std::string path; std::getline(list, path, ',');) paths.push_back(SourcePath(path));
  return paths;
}

std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> SeedsOf(const FuzzTarget& target) {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path corpus = SourcePath(fmt::format("tests/fuzz/corpus/{}", target.name));
  if (std::filesystem::exists(corpus)) {
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) paths.push_back(entry.path());
  }
  for (const std::string& path : SharedSeeds(target)) paths.emplace_back(path);
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const std::filesystem::path& path : paths) seeds.push_back(BytesOf(path));
  return seeds;
}

// Makes inputs from seeds. The sequence depends on the seed of the constructor alone.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string Mutate(const std::vector<std::string>& seeds) {
    std::string text = seeds[Below(seeds.size())];
    for (std::size_t change = 1 + Below(4); change > 0; --change) Change(text, seeds);
    return text;
  }

 private:
  // std::uniform_int_distribution differs between standard libraries.
  std::size_t Below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

  void Change(std::string& text, const std::vector<std::string>& seeds) {
    static constexpr std::string_view kPieces[] = {"0",
                                                   "-1",
                                                   "9223372036854775807",
                                                   "9223372036854775808",
                                                   "1e308",
                                                   "1e999",
                                                   "NaN",
                                                   "null",
                                                   "[]",
                                                   "{}",
                                                   "\"\"",
                                                   "\n",
                                                   "\r",
                                                   ",",
                                                   "=",
                                                   ":",
                                                   "'",
                                                   "\"",
                                                   "\\",
                                                   "$(",
                                                   "${",
                                                   "\xff",
                                                   "\xc3\x28",
                                                   "[[[[[[[[",
                                                   "\t",
                                                   "-"};
    const std::size_t at = Below(text.size() + 1);
    const std::size_t length = std::min(text.size() - at, 1 + Below(16));
    switch (Below(6)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, kPieces[Below(std::size(kPieces))]); break;
      case 2: text.replace(at, length, kPieces[Below(std::size(kPieces))]); break;
      case 3: text.insert(at, text.substr(at, length)); break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << Below(8)));
        break;
      default: {
        const std::string& other = seeds[Below(seeds.size())];
        text = text.substr(0, at) + other.substr(Below(other.size() + 1));
      }
    }
    // The other changes are small; seeds together grow without end.
    if (text.size() > std::size_t{64} << 10) text.resize(std::size_t{64} << 10);
  }

  std::mt19937_64 random_;
};

std::vector<FuzzTarget> AllTargets() {
  std::vector<FuzzTarget> all;
  for (const auto targets : {SearchTargets(), ServiceTargets(), TrainerTargets(), RpcTargets()})
    all.insert(all.end(), targets.begin(), targets.end());
  return all;
}

class Fuzz : public testing::TestWithParam<FuzzTarget> {};

TEST_P(Fuzz, HoldsItsProperties) {
  const FuzzTarget& target = GetParam();
  const std::vector<std::string> seeds = SeedsOf(target);
  ASSERT_FALSE(seeds.empty()) << "no seeds; add some to tests/fuzz/corpus/" << target.name;
  const char* asked = std::getenv("AUTOCFG_FUZZ_MUTATIONS");
  const int mutations = asked != nullptr ? std::atoi(asked) : target.mutations;
  Mutator mutator(seeds.size());
  int failures = 0;
  const auto run = [&](const std::string& input) {
    try {
      target.run(input);
    } catch (const std::exception& error) {
      ++failures;
      ADD_FAILURE() << error.what() << "\nwith the input " << testing::PrintToString(input);
    }
  };
  run("");
  for (const std::string& seed : seeds) run(seed);
  for (int i = 0; i < mutations && failures < 3; ++i) run(mutator.Mutate(seeds));
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(AllTargets()),
                         [](const auto& target) { return std::string(target.param.name); });

TEST(FuzzCorpus, EachDirectoryIsOfATarget) {
  const std::vector<FuzzTarget> targets = AllTargets();
  const auto known = [&targets](std::string_view name) {
    return std::any_of(targets.begin(), targets.end(),
                       [&](const FuzzTarget& target) { return target.name == name; });
  };
  std::uintmax_t bytes = 0;
  for (const auto& directory : std::filesystem::directory_iterator(SourcePath("tests/fuzz/corpus"))) {
    EXPECT_TRUE(known(directory.path().filename().string())) << directory.path();
    for (const auto& file : std::filesystem::directory_iterator(directory.path())) bytes += file.file_size();
  }
  for (const FuzzTarget& target : targets) {
    for (const std::string& path : SharedSeeds(target)) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  }
  EXPECT_LE(bytes, 300u << 10);
}

}  // namespace
}  // namespace autocfg::test
