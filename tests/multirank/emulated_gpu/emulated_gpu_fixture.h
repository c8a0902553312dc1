// Fixture: training on the GPU engine with real trainer processes and the GPU module on the emulated CUDA
// (tests/support/emulated_gpu). One rank, or several that share the emulated GPU and communicate through host
// memory. ./dev gpu covers what an emulator cannot show.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/multirank/process_jobs.h"
#include "tests/support/build_paths.h"
#include "tests/support/llama_parts.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {

class EmulatedGpu : public ::testing::Test {
 protected:
  EmulatedGpu() {
    setenv("AUTOCFG_GPU_MODULE", BuildPath("tests/libautocfg_emulated_gpu.so").c_str(), 1);
    unsetenv("AUTOCFG_GPU_TRANSPORT");
  }
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the emulated GPU runs on one thread and is not built with this sanitizer";
#endif
  }
  ~EmulatedGpu() override {
    unsetenv("AUTOCFG_GPU_MODULE");
    unsetenv("AUTOCFG_GPU_TRANSPORT");
  }
};

// A small model with a vocabulary that needs padding. Some of its heads suit the tensor-core path of
// attention and others do not.
inline TrainConfig Gpt2(const char* precision) {
  TrainConfig c = test::SmallConfig();
  c.model.hidden = 64;
  c.model.head_dim = 16;
  c.model.ffn_hidden = 96;
  c.workload.precision = *ParsePrecision(precision);
  c.lr.steps = 3;
  return c;
}

inline TrainConfig Llama(const char* precision) {
  TrainConfig c = Gpt2(precision);
  c.model.kv_heads = 2;
  c.model.head_dim = 24;
  SetLlamaParts(c.model);
  return c;
}

}  // namespace autocfg::trainer
