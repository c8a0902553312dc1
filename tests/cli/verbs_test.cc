// Rules that hold for every verb: those whose subcommand a source of cli/verbs adds.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "tests/cli/one_clear_line.h"

namespace autocfg::cli {
namespace {

// Returns every name that the text holds as the first group of `pattern`.
std::set<std::string> NamesIn(const std::string& text, const std::regex& pattern) {
  std::set<std::string> names;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    names.insert((*match)[1].str());
  return names;
}

std::set<std::string> VerbsInSources() {
  static const std::regex kAdded("add_subcommand\\(\\s*\"([a-z-]+)\"");
  std::set<std::string> verbs;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("cli/verbs")))
    verbs.merge(NamesIn(ReadWhole(entry.path()), kAdded));
  return verbs;
}

std::string HelpOf(const std::string& verb) {
  const ScratchDirectory home;
  const Finished help = RunAutocfg(home, {verb, "--help"});
  EXPECT_EQ(help.exit_code, 0) << verb << ": " << help.err;
  return help.out;
}

TEST(Verbs, AnswerHelpAndRefuseUnknownOptions) {
  const std::set<std::string> verbs = VerbsInSources();
  ASSERT_GE(verbs.size(), 12u) << "the sources were not found";
  for (const std::string& verb : verbs) {
    SCOPED_TRACE(verb);
    EXPECT_NE(HelpOf(verb).find("autocfg " + verb), std::string::npos);
    ExpectOneClearLine({verb, "--no-such-option"}, 2,
                       {"unexpected '--no-such-option'", "autocfg " + verb + " --help"});
  }
}

// docs/operations.md describes `search --coordinator` first, and names the other verbs in one sentence.
TEST(Verbs, ThatTakeACoordinatorAreDocumented) {
  const std::string page = ReadWhole(SourcePath("docs/operations.md"));
  std::smatch sentence;
  ASSERT_TRUE(std::regex_search(page, sentence, std::regex("The verbs ([^.]+) also take `--coordinator`")));
  std::set<std::string> named = NamesIn(sentence[1].str(), std::regex("`([a-z-]+)`"));
  named.insert("search");
  std::set<std::string> taking;
  for (const std::string& verb : VerbsInSources()) {
    if (HelpOf(verb).find("--coordinator ") != std::string::npos) taking.insert(verb);
  }
  EXPECT_EQ(named, taking);
}

}  // namespace
}  // namespace autocfg::cli
