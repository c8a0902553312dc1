#include "proto/gpu_engine_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.h"
#include "tests/support/fake_nvml/fake_gpus.h"
#include "tests/support/missing_path.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

class GpuEngineFile : public testing::Test {
 protected:
  GpuEngineFile() {
    for (const char* directory : {"bin", "tests", "other"})
      std::filesystem::create_directory(home_ / directory);
    for (const char* file :
         {"bin/autocfg-trainer", "bin/libautocfg_cuda.so", "tests/trainer", "other/mine.so"})
      home_.Write(file, "");
  }

  const ScratchDirectory home_;
};

TEST_F(GpuEngineFile, IsFoundBesideTheTrainer) {
  const ScopedVariable none("AUTOCFG_GPU_MODULE", "");
  const std::string engine = home_ / "bin/libautocfg_cuda.so";
  EXPECT_EQ(FindGpuEngine(home_ / "bin/autocfg-trainer"), engine);
  std::filesystem::create_symlink(home_ / "bin/autocfg-trainer", home_ / "trainer");
  EXPECT_EQ(FindGpuEngine(home_ / "trainer"), engine);
  EXPECT_EQ(FindGpuEngine(home_ / "tests/trainer"), engine);
  EXPECT_EQ(FindGpuEngine("/bin/sh"), "");
  EXPECT_THAT(NoGpuEngine("/bin/sh"), HasSubstr("libautocfg_cuda.so is not beside /bin/sh"));
  EXPECT_EQ(FindGpuEngine(Missing("/nonexistent/autocfg-trainer")), "");
}

TEST_F(GpuEngineFile, EnvironmentVariableOverridesLocation) {
  const std::string trainer = home_ / "bin/autocfg-trainer";
  {
    const ScopedVariable mine("AUTOCFG_GPU_MODULE", home_ / "other/mine.so");
    EXPECT_EQ(FindGpuEngine(trainer), home_ / "other/mine.so");
    EXPECT_EQ(FindGpuEngine("/bin/sh"), home_ / "other/mine.so");
  }
  {
    const ScopedVariable nowhere("AUTOCFG_GPU_MODULE", home_ / "nowhere/mine.so");
    EXPECT_EQ(FindGpuEngine(trainer), "") << "not another one in its place";
    EXPECT_THAT(NoGpuEngine(trainer), HasSubstr("nowhere/mine.so that AUTOCFG_GPU_MODULE names"));
  }
  const ScopedVariable bare("AUTOCFG_GPU_MODULE", "libmine.so");
  EXPECT_EQ(FindGpuEngine(trainer), "libmine.so") << "the loader's to find";
}

}  // namespace
}  // namespace autocfg
