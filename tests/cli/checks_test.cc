#include "cli/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

TEST(Checks, GpusByTheirDriver) {
  const ScratchDirectory root;
  EXPECT_EQ(CheckGpus(root.path()).state, CheckState::kOk);
  EXPECT_THAT(CheckGpus(root.path()).found, HasSubstr("none seen"));
  std::filesystem::create_directories(root / "proc/driver/nvidia");
  std::filesystem::create_directories(root / "dev");
  root.Write("proc/driver/nvidia/version", "NVRM version: 550.1\nGCC version: 12\n");
  EXPECT_EQ(CheckGpus(root.path()).state, CheckState::kWarning) << "a driver, but no device";
  for (const char* device : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}) root.Write(std::string("dev/") + device, "");
  const Check two = CheckGpus(root.path());
  EXPECT_EQ(two.state, CheckState::kOk);
  EXPECT_THAT(two.found, HasSubstr("2 seen (NVRM version: 550.1)"));
}

TEST(Checks, SharedMemory) {
  const ScratchDirectory directory;
  EXPECT_THAT(CheckSharedMemory(directory.path()).found, HasSubstr("free of"));
  const Check none = CheckSharedMemory(directory / "none");
  EXPECT_EQ(none.state, CheckState::kWarning);
  EXPECT_FALSE(none.advice.empty());
}

TEST(Checks, Storage) {
  const ScratchDirectory home;
  auto checks = CheckStorage(home / "a/b/c.db");
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].state, CheckState::kOk);
  EXPECT_THAT(checks[0].found, HasSubstr("made when it is needed"));
  EXPECT_THAT(checks[1].found, HasSubstr("none yet"));
  EXPECT_FALSE(std::filesystem::exists(home / "a")) << "looking leaves no trace";
  home.Write("text.db", std::string(5000, 'x'));
  checks = CheckStorage(home / "text.db");
  EXPECT_EQ(checks[1].state, CheckState::kMissing);
  EXPECT_THAT(checks[1].found, HasSubstr("text.db"));
  checks = CheckStorage(home / "text.db/a.db");  // a file is no directory
  EXPECT_EQ(checks[0].state, CheckState::kMissing);
}

TEST(Checks, FewDescriptorsAreSaid) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(CheckDescriptors().state, CheckState::kWarning);
  EXPECT_THAT(CheckDescriptors().found, HasSubstr("256"));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Checks, MissingTrainer) {
  EXPECT_EQ(CheckTrainer("").state, CheckState::kMissing);
  const Check gone = CheckTrainer("/nonexistent/autocfg-trainer");
  EXPECT_EQ(gone.state, CheckState::kMissing);
  EXPECT_THAT(gone.advice, HasSubstr("AUTOCFG_TRAINER"));
  EXPECT_EQ(CheckEngine("/bin/false").state, CheckState::kMissing) << "a program that is no trainer";
}

TEST(Doctor, SaysThatTheEngineRuns) {
  const ScratchDirectory home;
  const auto finished = RunAutocfg(home, {"doctor", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err << finished.out;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["cpu_engine_runs"], true);
  std::vector<std::string> names;
  for (const auto& check : json["checks"]) {
    names.push_back(check["name"]);
    EXPECT_THAT((std::vector<std::string>{"ok", "warning", "missing"}), testing::Contains(check["state"]));
    EXPECT_FALSE(check["found"].get<std::string>().empty()) << check;
  }
  EXPECT_THAT(names, testing::ElementsAre("cores", "memory", "shared memory", "open files", "state directory", "database", "gpus", "cuda engine",
                                          "trainer", "blas", "ucx", "cpu engine"));
  EXPECT_FALSE(std::filesystem::exists(home / "autocfg")) << "looking makes no database";
  const auto text = RunAutocfg(home, {"doctor"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, HasSubstr("cpu engine"));
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos) << "no colour where there is no terminal";
}

TEST(Doctor, SaysThatItDoesNot) {
  const ScratchDirectory home;
  setenv("AUTOCFG_TRAINER", "/nonexistent/autocfg-trainer", 1);
  const auto finished = RunAutocfg(home, {"doctor"});
  unsetenv("AUTOCFG_TRAINER");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.out, HasSubstr("missing"));
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
}

}  // namespace
}  // namespace autocfg
