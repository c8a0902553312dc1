// Checks that the predictions shown in README and docs/ equal the program's output. They are the same on
// every machine.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

// A command that a document shows, and the lines below it without their indentation.
struct Example {
  std::string where;
  std::vector<std::string> args;
  std::vector<std::string> shown;
  bool cut = false;  // a line with only an ellipsis stands for the rest
};

constexpr std::string_view kIndent = "    ";
constexpr std::string_view kCommand = "    $ build/bin/autocfg ";

// Returns the examples of verbs whose answer depends only on the command.
std::vector<Example> ExamplesOf(const std::filesystem::path& document) {
  std::vector<Example> examples;
  std::istringstream lines(ReadWhole(document));
  std::string line;
  bool within = false;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with(kCommand)) {
      std::istringstream words(line.substr(kCommand.size()));
      std::vector<std::string> args;
      for (std::string word; words >> word;) args.push_back(word);
      within = args[0] == "predict" || args[0] == "explain";
      if (within) examples.push_back({document.filename().string() + ":" + std::to_string(number), args, {}});
    } else if (within && line.empty()) {
      examples.back().shown.emplace_back();
    } else if (within && line.starts_with(kIndent)) {
      const std::string text = line.substr(kIndent.size());
      examples.back().cut |= text.ends_with("…");
      if (!examples.back().cut) examples.back().shown.push_back(text);
    } else {
      within = false;
    }
  }
  for (Example& example : examples) {
    while (!example.shown.empty() && example.shown.back().empty()) example.shown.pop_back();
  }
  return examples;
}

TEST(Documents, ExamplesMatchTheOutput) {
  std::vector<std::filesystem::path> documents = {SourcePath("README.md")};
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("docs"))) {
    documents.push_back(entry.path());
  }
  const ScratchDirectory home;
  int examples = 0;
  for (const auto& document : documents) {
    for (const Example& example : ExamplesOf(document)) {
      SCOPED_TRACE(example.where);
      ++examples;
      const Finished finished = ProgramProcess(home, example.args).Wait();
      ASSERT_EQ(finished.exit_code, 0) << finished.err;
      std::vector<std::string> printed;
      std::istringstream lines(finished.out);
      for (std::string line; std::getline(lines, line);) printed.push_back(line);
      ASSERT_GE(printed.size(), example.shown.size());
      if (example.cut) printed.resize(example.shown.size());
      EXPECT_EQ(printed, example.shown);
    }
  }
  EXPECT_GE(examples, 1) << "README shows a prediction";
}

}  // namespace
}  // namespace autocfg::cli
