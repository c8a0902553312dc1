// A machine with GPUs as `autocfg` sees it: the fake NVML's GPUs, and a trainer that answers every job
// (tests/worker/fake_trainer.cc) with a GPU engine beside it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "tests/support/fake_nvml/fake_gpus.h"

namespace autocfg::cli {

class GpuMachine {
 public:
  explicit GpuMachine(const std::string& gpus, bool engine = true)
      : fake_(gpus),
        trainer_("AUTOCFG_TRAINER", home_ / "bin/autocfg-trainer"),
        mode_("AUTOCFG_FAKE_TRAINER_MODE", "answer"),
        log_("AUTOCFG_FAKE_TRAINER_LOG", home_ / "ranks.log") {
    std::filesystem::create_directory(home_ / "bin");
    std::filesystem::copy_file(BuildPath("tests/fake_trainer"), home_ / "bin/autocfg-trainer");
    if (engine) home_.Write("bin/libautocfg_cuda.so", "");
  }

  const ScratchDirectory& home() const { return home_; }
  Finished Run(const std::vector<std::string>& args) const { return RunAutocfg(home_, args); }

  // Returns what the ranks of all runs so far were asked and saw, one line each, sorted.
  std::vector<std::string> Ranks() const {
    std::ifstream file(home_ / "ranks.log");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  }

 private:
  const ScratchDirectory home_;
  const FakeGpus fake_;
  const ScopedVariable trainer_, mode_, log_;
};

}  // namespace autocfg::cli
