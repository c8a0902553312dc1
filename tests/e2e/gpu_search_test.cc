// A whole search on an emulated GPU (tests/support/emulated_gpu): calibration, choice, measured trials, and
// the GPU memory that plans may use.
#include <gtest/gtest.h>

#include <filesystem>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "tests/support/fake_nvml/fake_gpus.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;

TEST(GpuSearch, PredictsWithTheMeasuredOverhead) {
  const std::string emulated = BuildPath("tests/libautocfg_emulated_gpu.so");
  if (!std::filesystem::exists(emulated))
    GTEST_SKIP() << "this build has no emulated GPU (tests/CMakeLists.txt)";
  const ScratchDirectory home;
  const FakeGpus gpus(EqualGpus(1));
  const ScopedVariable trainer("AUTOCFG_TRAINER", home / "bin/autocfg-trainer");
  const ScopedVariable module("AUTOCFG_GPU_MODULE", emulated);
  std::filesystem::create_directory(home / "bin");
  std::filesystem::copy_file(BuildPath("bin/autocfg-trainer"), home / "bin/autocfg-trainer");
  const std::string model = home.Write(
      "model.json",
      R"({"name": "smallest", "layers": 2, "hidden": 64, "heads": 2, "vocab": 128, "max_seq_len": 16})");
  const auto finished =
      ProgramProcess(home, {"search", "--model", model, "--cluster", "local:1x1", "--global-batch", "2",
                            "--device", "cuda", "--max-trials", "1", "--db", home / "search.db", "--json"})
          .Wait(std::chrono::seconds(240));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  const std::int64_t estimate = answer["cluster"]["device"]["overhead_bytes"],
                     predicted = answer["best"]["predicted"]["memory_bytes"]["device_overhead"],
                     measured = answer["best"]["measured"]["device_overhead_bytes"];
  EXPECT_GT(estimate, std::int64_t{1} << 30);
  EXPECT_GE(predicted, 32 << 20) << "cuBLASLt's workspace";
  EXPECT_LT(predicted, 64 << 20) << "measured, in place of the estimate";
  EXPECT_NEAR(static_cast<double>(predicted), static_cast<double>(measured), 1 << 20);
  for (const Json& other : answer["runners_up"])
    EXPECT_EQ(other["predicted"]["memory_bytes"]["device_overhead"], predicted);
}

}  // namespace
}  // namespace autocfg::cli
