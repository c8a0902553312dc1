#include "cli/verbs/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "tests/support/fake_nvml/fake_gpus.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;

TEST(Checks, NoDriver) {
  const NoGpus none;
  const ScratchDirectory root;
  const auto checks = CheckGpus(ListGpus(), root.path());
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].state, CheckState::kOk);
  EXPECT_THAT(checks[0].found, testing::AllOf(HasSubstr("no GPU: "), HasSubstr("measured on the CPU")));
  std::filesystem::create_directories(root / "proc/driver/nvidia");
  root.Write("proc/driver/nvidia/version", "NVRM version: 550.1\nGCC version: 12\n");
  const auto hidden = CheckGpus(ListGpus(), root.path());
  EXPECT_EQ(hidden[0].state, CheckState::kWarning) << "the machine has a driver, this container not";
  EXPECT_THAT(hidden[0].advice, HasSubstr("--gpus all"));
}

TEST(Checks, EveryGpuHasALine) {
  const FakeGpus fake(EqualGpus(2, ",used=1073741824") + ";" + EqualGpus(1, ",mig=1"));
  const auto checks = CheckGpus(ListGpus());
  ASSERT_EQ(checks.size(), 4u);
  EXPECT_EQ(checks[0].name, "gpu driver");
  EXPECT_EQ(checks[0].found, "NVIDIA 570.86.15");
  EXPECT_EQ(checks[2].name, "gpu 1");
  EXPECT_EQ(checks[2].state, CheckState::kOk);
  EXPECT_EQ(
      checks[2].found,
      "NVIDIA H200, GPU-0001-b, 140.0 GiB of 141.0 GiB free, 18 NVLinks, farthest GPU reached by sockets");
  EXPECT_EQ(checks[3].name, "gpu 2");
  EXPECT_EQ(checks[3].state, CheckState::kWarning);
  EXPECT_THAT(checks[3].found, HasSubstr("MIG is on"));
}

TEST(Checks, CudaEngine) {
  const ScratchDirectory home;
  const std::string trainer = home / "autocfg-trainer";
  std::filesystem::copy_file(BuildPath("tests/fake_trainer"), trainer);
  const NoGpus none;
  EXPECT_EQ(CheckCudaEngine(trainer, ListGpus()).state, CheckState::kOk);
  EXPECT_THAT(CheckCudaEngine(trainer, ListGpus()).found, HasSubstr("not in this build"));
  const FakeGpus fake(EqualGpus(1));
  EXPECT_EQ(CheckCudaEngine(trainer, ListGpus()).state, CheckState::kMissing) << "a GPU that cannot be used";
  home.Write("libautocfg_cuda.so", "");
  EXPECT_THAT(CheckCudaEngine(trainer, {}).found, HasSubstr("no GPU to test it on"));
  const ScopedVariable log("AUTOCFG_FAKE_TRAINER_LOG", home / "log");
  {
    const ScopedVariable mode("AUTOCFG_FAKE_TRAINER_MODE", "answer");
    const Check runs = CheckCudaEngine(trainer, ListGpus());
    EXPECT_EQ(runs.state, CheckState::kOk) << runs.found;
    EXPECT_THAT(runs.found,
                testing::AllOf(HasSubstr("libautocfg_cuda.so"), HasSubstr("GPU 0 (NVIDIA H200)")));
    EXPECT_EQ(ReadWhole(home / "log"), "train fp32 on cuda: rank 0 of 1, CUDA_VISIBLE_DEVICES GPU-0000-a\n");
  }
  const ScopedVariable mode("AUTOCFG_FAKE_TRAINER_MODE", "internal");
  const Check broken = CheckCudaEngine(trainer, ListGpus());
  EXPECT_EQ(broken.state, CheckState::kMissing);
  EXPECT_THAT(broken.found, HasSubstr("a bug"));
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
  EXPECT_THAT(checks[0].found, HasSubstr("created when needed"));
  EXPECT_THAT(checks[1].found, HasSubstr("does not exist yet"));
  EXPECT_FALSE(std::filesystem::exists(home / "a")) << "looking leaves no trace";
  home.Write("text.db", std::string(5000, 'x'));
  checks = CheckStorage(home / "text.db");
  EXPECT_EQ(checks[1].state, CheckState::kWarning);
  EXPECT_THAT(checks[1].found, HasSubstr("text.db"));
  checks = CheckStorage(home / "text.db/a.db");  // a file is used as a directory
  EXPECT_EQ(checks[0].state, CheckState::kMissing);
}

TEST(Checks, WarnsAboutFewDescriptors) {
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
  const Check gone = CheckTrainer(Missing("/nonexistent/autocfg-trainer"));
  EXPECT_EQ(gone.state, CheckState::kMissing);
  EXPECT_THAT(gone.advice, HasSubstr("AUTOCFG_TRAINER"));
  EXPECT_EQ(CheckEngine("/bin/false").state, CheckState::kMissing) << "a program that is no trainer";
}

TEST(Doctor, ReportsAWorkingEngine) {
  const NoGpus none;
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
  EXPECT_THAT(names, testing::ElementsAre("cores", "memory", "shared memory", "open files", "state directory",
                                          "database", "gpu driver", "cuda engine", "trainer", "blas", "ucx",
                                          "cpu engine"));
  EXPECT_FALSE(std::filesystem::exists(home / "autocfg")) << "looking makes no database";
  const auto text = RunAutocfg(home, {"doctor"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, HasSubstr("cpu engine"));
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos) << "no colour where there is no terminal";
}

TEST(Doctor, FailsForAFileThatIsNoDatabase) {
  const ScratchDirectory home;
  const auto finished = RunAutocfg(
      home, {"doctor", "--db",
             home.Write("notes.txt", "these are no studies, in no format of any database at all")});
  EXPECT_EQ(finished.exit_code, 1) << finished.out;
  EXPECT_THAT(finished.err, HasSubstr("--db: "));
  EXPECT_THAT(finished.err, HasSubstr("notes.txt"));
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  EXPECT_THAT(finished.out, testing::Not(HasSubstr("missing  database"))) << "it is there";
}

TEST(Doctor, ReportsABrokenEngine) {
  const ScratchDirectory home;
  setenv("AUTOCFG_TRAINER", Missing("/nonexistent/autocfg-trainer").c_str(), 1);
  const auto finished = RunAutocfg(home, {"doctor"});
  unsetenv("AUTOCFG_TRAINER");
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.out, HasSubstr("missing"));
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
}

}  // namespace
}  // namespace autocfg::cli
