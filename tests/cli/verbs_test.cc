// Rules that hold for every verb: those whose subcommand a source of cli/verbs adds. A source adds a verb
// below another to the variable of that name: `backup` to `db`.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

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

// Returns "search", "db", "db backup", ...
std::set<std::string> VerbsInSources() {
  static const std::regex kAdded("([a-z]+)\\.add_subcommand\\(\\s*\"([a-z-]+)\"");
  std::set<std::string> verbs;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("cli/verbs"))) {
    const std::string source = ReadWhole(entry.path());
    for (std::sregex_iterator match(source.begin(), source.end(), kAdded), end; match != end; ++match)
      verbs.insert(((*match)[1] == "app" ? "" : (*match)[1].str() + " ") + (*match)[2].str());
  }
  return verbs;
}

std::vector<std::string> WordsOf(const std::string& verb, const std::string& last) {
  std::istringstream in(verb + " " + last);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string HelpOf(const std::string& verb) {
  const ScratchDirectory home;
  const Finished help = RunAutocfg(home, WordsOf(verb, "--help"));
  EXPECT_EQ(help.exit_code, 0) << verb << ": " << help.err;
  return help.out;
}

TEST(Verbs, AnswerHelpAndRefuseUnknownOptions) {
  const std::set<std::string> verbs = VerbsInSources();
  ASSERT_GE(verbs.size(), 12u) << "the sources were not found";
  for (const std::string& verb : verbs) {
    SCOPED_TRACE(verb);
    EXPECT_NE(HelpOf(verb).find("autocfg " + verb), std::string::npos);
    ExpectOneClearLine(WordsOf(verb, "--no-such-option"), 2,
                       {"unexpected '--no-such-option'", "autocfg " + verb + " --help"});
  }
}

// docs/operations.md describes `search --coordinator` first, and names the other verbs in one sentence.
TEST(Verbs, ThatTakeACoordinatorAreDocumented) {
  const std::string page = ReadWhole(SourcePath("docs/operations.md"));
  std::smatch sentence;
  ASSERT_TRUE(std::regex_search(page, sentence, std::regex("The verbs ([^.]+) also take `--coordinator`")));
  std::set<std::string> named = NamesIn(sentence[1].str(), std::regex("`([a-z -]+)`"));
  named.insert("search");
  std::set<std::string> taking;
  for (const std::string& verb : VerbsInSources()) {
    if (HelpOf(verb).find("--coordinator ") != std::string::npos) taking.insert(verb);
  }
  EXPECT_EQ(named, taking);
}

}  // namespace
}  // namespace autocfg::cli
