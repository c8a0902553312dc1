#include "base/service/log_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"
#include "tests/support/temp_dir.h"

namespace autocfg::base {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::chrono::system_clock::time_point At(std::int64_t milliseconds) {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(milliseconds));
}

TEST(JsonLogLine, HasTheFieldsThatTheLineIsAbout) {
  EXPECT_EQ(JsonLogLine(At(1'700'000'000'007), "info", "starts", {}),
            R"({"time":"2023-11-14T22:13:20.007Z","level":"info","message":"starts"})");
  EXPECT_EQ(JsonLogLine(At(0), "warn", "m",
                        {.study = "s", .trial = "t", .worker = "w", .lease = "l", .trace = "x"}),
            R"({"time":"1970-01-01T00:00:00.000Z","level":"warn","message":"m","study":"s","trial":"t",)"
            R"("worker":"w","lease":"l","trace":"x"})");
}

TEST(JsonLogLine, IsOneLineOfJsonWhateverTheBytes) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  const std::vector<std::string> hostile = {every,
                                            "line\nbreak\r\n",
                                            "\"quote\\",
                                            std::string("nul\0inside", 10),
                                            "\xff\xfe",
                                            "\xc3",
                                            "\xed\xa0\x80",
                                            "\xf4\x90\x80\x80",
                                            "{\"message\":\"forged\"}",
                                            "\x1b[31m",
                                            "\u2028\u2029",
                                            "{}",
                                            "%v %n"};
  for (const std::string& text : hostile) {
    const std::string line = JsonLogLine(At(5), "info", text, {.study = text, .worker = text, .trace = text});
    for (const char c : line) ASSERT_GE(static_cast<unsigned char>(c), 0x20) << line;
    const json parsed = json::parse(line);  // throws if it is no JSON, or no UTF-8
    EXPECT_EQ(parsed["message"], parsed["worker"]);
    EXPECT_EQ(parsed["level"], "info");
    EXPECT_EQ(parsed.size(), 6u);
  }
  EXPECT_EQ(json::parse(JsonLogLine(At(5), "info", "a\xff\"\n\x01z", {}))["message"], "a\ufffd\"\n\x01z");
}

TEST(LogOutputOf, ReadsOptionsAndNamesTheWrongOne) {
  LogOutput output = *LogOutputOf("p", {});
  EXPECT_EQ(output.format, LogFormat::kText);
  EXPECT_EQ(output.file, "");
  output = *LogOutputOf("p", {.format = "json", .file = "f", .max_bytes = "1MiB", .keep = "0"});
  EXPECT_EQ(output.format, LogFormat::kJson);
  EXPECT_EQ(output.file, "f");
  EXPECT_EQ(output.file_bytes, std::size_t{1} << 20);
  EXPECT_EQ(output.old_files, 0u);
  const auto error = [](const LogOptions& options) {
    return std::string(LogOutputOf("p", options).status().message());
  };
  EXPECT_EQ(error({.format = "xml"}), "--log-format: unknown format 'xml'; expected text or json");
  EXPECT_EQ(error({.max_bytes = "1MiB"}), "--log-max-bytes: only a file is rotated; give --log-file too");
  EXPECT_EQ(error({.keep = "3"}), "--log-keep: only a file is rotated; give --log-file too");
  for (const char* wrong : {"1kB", "0", "many", "-5", "1e15"}) {
    EXPECT_THAT(error({.file = "f", .max_bytes = wrong}),
                HasSubstr("--log-max-bytes: '" + std::string(wrong)));
  }
  for (const char* wrong : {"1.5", "1001", "-1", "x"})
    EXPECT_THAT(error({.file = "f", .keep = wrong}), HasSubstr("--log-keep: '" + std::string(wrong)));
}

class SetLogOutputTest : public testing::Test {
 protected:
  ~SetLogOutputTest() override {
    EXPECT_TRUE(SetLogOutput({.program = "p"}).ok());
    spdlog::set_default_logger(before_);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(dir_.File(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Returns what `log` writes to standard error.
  template <typename Log>
  static std::string Errors(const Log& log) {
    testing::internal::CaptureStderr();
    log();
    return testing::internal::GetCapturedStderr();
  }

  TempDir dir_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(SetLogOutputTest, TextOnStandardErrorNamesTheProgram) {
  const std::string text = Errors([] {
    ASSERT_TRUE(SetLogOutput({.program = "p"}).ok());
    const LogScope scope({.study = "studies/1"});
    spdlog::warn("a line");
    AlwaysLog("p", true, "an\nend");
  });
  EXPECT_EQ(text, "p: a line\np: an end\n");
}

TEST_F(SetLogOutputTest, JsonOnStandardErrorIsJsonAlone) {
  const std::string text = Errors([] {
    ASSERT_TRUE(SetLogOutput({.program = "p", .format = LogFormat::kJson}).ok());
    const LogScope scope({.worker = "workers/a"});
    spdlog::warn("a line");
    AlwaysLog("p", false, "listening");
    AlwaysLog("p", true, "an\nend");
  });
  std::istringstream lines(text);
  std::vector<json> parsed;
  for (std::string line; std::getline(lines, line);) parsed.push_back(json::parse(line));
  ASSERT_EQ(parsed.size(), 3u);
  EXPECT_EQ(parsed[0]["level"], "warn");
  EXPECT_EQ(parsed[0]["worker"], "workers/a");
  EXPECT_EQ(parsed[1]["level"], "info");
  EXPECT_EQ(parsed[2]["level"], "critical");
  EXPECT_EQ(parsed[2]["message"], "an\nend");
}

TEST_F(SetLogOutputTest, FilesAreRotatedAndTheOldestGo) {
  ASSERT_TRUE(SetLogOutput({.program = "p",
                            .format = LogFormat::kJson,
                            .file = dir_.File("s.log"),
                            .file_bytes = 4096,
                            .old_files = 2})
                  .ok());
  for (int i = 0; i < 300; ++i) spdlog::info("line {}", i);
  const std::string errors = Errors([] { AlwaysLog("p", false, "listening"); });
  EXPECT_EQ(errors, "p: listening\n") << "for the one who started it";
  std::vector<std::string> names;
  std::string all;
  for (const char* name : {"s.2.log", "s.1.log", "s.log"}) {
    const std::string part = Read(name);
    EXPECT_FALSE(part.empty()) << name;
    EXPECT_LE(part.size(), 4096u) << name;
    all += part;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.File("s.3.log")));
  std::istringstream lines(all);
  std::vector<std::string> messages;
  for (std::string line; std::getline(lines, line);) messages.push_back(json::parse(line)["message"]);
  ASSERT_GT(messages.size(), 50u);
  EXPECT_EQ(messages.back(), "listening");
  EXPECT_EQ(messages[messages.size() - 2], "line 299");
  EXPECT_EQ(messages.front(), "line " + std::to_string(301 - messages.size())) << "none is missing between";
}

std::vector<std::string> MessagesOf(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);) found.push_back(json::parse(line)["message"]);
  return found;
}

// As logrotate does, with and without an empty file in its place; its name is that of our own rotation.
TEST_F(SetLogOutputTest, AFileThatAnotherProgramRenamesIsBegunAnew) {
  ASSERT_TRUE(
      SetLogOutput({.program = "p", .format = LogFormat::kJson, .file = dir_.File("log"), .file_bytes = 4096})
          .ok());
  spdlog::info("one");
  std::filesystem::rename(dir_.File("log"), dir_.File("log.1"));
  spdlog::info("two");
  std::filesystem::rename(dir_.File("log"), dir_.File("kept"));
  std::ofstream(dir_.File("log")).close();
  spdlog::info("three");
  EXPECT_THAT(MessagesOf(Read("log.1")), testing::ElementsAre("one"));
  EXPECT_THAT(MessagesOf(Read("kept")), testing::ElementsAre("two"));
  EXPECT_THAT(MessagesOf(Read("log")), testing::ElementsAre("three"));
  std::filesystem::remove(dir_.File("log"));
  for (int i = 0; i < 60; ++i) spdlog::info("line {}", i);  // more than one file takes
  std::filesystem::rename(dir_.File("log"), dir_.File("last"));
  spdlog::info("four");
  EXPECT_THAT(MessagesOf(Read("log")), testing::ElementsAre("four")) << "also after its own rotation";
  std::vector<std::string> between = MessagesOf(Read("log.1"));
  const std::vector<std::string> last = MessagesOf(Read("last"));
  between.insert(between.end(), last.begin(), last.end());
  ASSERT_EQ(between.size(), 60u);
  EXPECT_EQ(between.front(), "line 0");
  EXPECT_EQ(between.back(), "line 59");
}

TEST_F(SetLogOutputTest, NoLineIsLostWhileTheFileCannotBeBegunAnew) {
  const std::string directory = dir_.File("d");
  std::filesystem::create_directory(directory);
  ASSERT_TRUE(SetLogOutput({.program = "p", .format = LogFormat::kJson, .file = directory + "/s.log"}).ok());
  std::filesystem::rename(directory, dir_.File("renamed"));
  std::ofstream(directory).close();  // a file where the directory was
  constexpr int kLines = 20;
  const std::string errors = Errors([] {
    for (int i = 0; i < kLines; ++i) spdlog::info("one");
  });
  EXPECT_THAT(errors, testing::StartsWith("p: the log goes on in the file that was renamed: "));
  EXPECT_LT(std::count(errors.begin(), errors.end(), '\n'), kLines) << "not with every line";
  EXPECT_EQ(MessagesOf(Read("renamed/s.log")), std::vector<std::string>(kLines, "one"));
  std::filesystem::remove(directory);
  std::filesystem::create_directory(directory);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // until the next try
  EXPECT_EQ(Errors([] { spdlog::info("three"); }), "");
  EXPECT_THAT(MessagesOf(Read("d/s.log")), testing::ElementsAre("three"));
}

TEST_F(SetLogOutputTest, TextInAFileHasTimeAndLevel) {
  ASSERT_TRUE(SetLogOutput({.program = "p", .file = dir_.File("s.log")}).ok());
  spdlog::error("a line");
  EXPECT_THAT(Read("s.log"), testing::MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9]+Z error: a line\n"));
}

TEST_F(SetLogOutputTest, AFileThatCannotBeWrittenIsAnError) {
  const absl::Status status = SetLogOutput({.program = "p", .file = dir_.File("no/such\n/") + "/"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("--log-file: "));
  EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos) << status;
}

TEST_F(SetLogOutputTest, ADeviceIsNotRotated) {
  const absl::Status status = SetLogOutput({.program = "p", .file = "/dev/null"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            "--log-file: /dev/null: is no regular file, and its rotation would rename it; name another file");
}

}  // namespace
}  // namespace autocfg::base
