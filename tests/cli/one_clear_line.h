// The required output of a rejected command line, as a user sees it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace autocfg::cli {

// Expects one error line that contains all of `says`, this exit code, nothing on standard output, and no
// database.
inline void ExpectOneClearLine(const std::vector<std::string>& args, int exit_code,
                               const std::vector<std::string>& says) {
  const ScratchDirectory home;
  const auto finished = RunAutocfg(home, args);
  EXPECT_EQ(finished.exit_code, exit_code) << finished.err;
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  EXPECT_TRUE(finished.err.starts_with("autocfg: ")) << finished.err;
  for (const auto& part : says)
    EXPECT_NE(finished.err.find(part), std::string::npos) << part << " not in: " << finished.err;
  EXPECT_FALSE(std::filesystem::exists(home / "autocfg")) << "a refused command made a database";
  // The error names each option once, in the terms of the command line.
  EXPECT_FALSE(std::regex_search(finished.err, std::regex("--([a-z]+)(: [^ ]*)?: \\1: "))) << finished.err;
  for (const char* part : {"spec.", "exception", "did you mean bf16", "did you mean cuda"})
    EXPECT_EQ(finished.err.find(part), std::string::npos) << finished.err;
}

}  // namespace autocfg::cli
