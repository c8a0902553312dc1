// Times every compute op of a training step, each alone on its own tensors, as calibration does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/gpu_op_timer.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "search/ops/op_desc.h"

namespace autocfg {

struct StepOp {
  OpDesc op;
  std::int64_t times_a_step = 0;
  OpSeconds seconds;
  std::string error;  // why it was not timed; empty if it was
};

// Reads a model's description and returns the distinct ops of its step on one rank in bf16, one microbatch of
// `micro_batch` sequences of `seq_len` tokens, in the order of their first use. Throws std::invalid_argument
// if the file or a number is invalid.
std::vector<StepOp> StepOps(const std::string& model_path, std::int64_t micro_batch, std::int64_t seq_len);

// Fills `seconds` or `error`.
void TimeStepOp(StepOp& op, Device& device, Ops& ops, Stream& stream);

}  // namespace autocfg
