// Reads files as people write them (files/), for tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "search/frameworks/framework_file.h"
#include "tests/support/build_paths.h"

namespace autocfg::test {

// Returns the text of files/NAME.
inline std::string FileNamed(const std::string& name) {
  std::ifstream file(SourcePath("tests/search/frameworks/files/" + name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Reads files/NAME, which is one of the framework.
inline FrameworkRun ReadFile(std::string_view framework, const std::string& name,
                             const ReadingOptions& options = {}) {
  const std::string text = FileNamed(name);
  EXPECT_EQ(FrameworkOf(text), framework);
  auto run = ReadFrameworkFile(framework, name, text, options);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : FrameworkRun();
}

}  // namespace autocfg::test
