#include "bench/gpu_step_ops.h"

#include <chrono>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "search/cost/op_lists/action_ops.h"
#include "search/plan/plan_options.h"
#include "search/plan/states/precision.h"
#include "search/schedule/program.h"
#include "search/text/model_json.h"
#include "trainer/calibrate/scratch_op.h"

namespace autocfg {
namespace {

constexpr int kRuns = 10;
constexpr std::chrono::milliseconds kWarmUp{5};  // the ops before have warmed the GPU

ModelSpec ReadModel(const std::string& path, std::int64_t seq_len) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument(path + ": cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  auto model = ParseModelText(text.str());
  if (!model.ok()) throw std::invalid_argument(path + ": " + std::string(model.status().message()));
  FillDefaults(*model, seq_len);
  return *std::move(model);
}

}  // namespace

std::vector<StepOp> StepOps(const std::string& model_path, std::int64_t micro_batch, std::int64_t seq_len) {
  const ModelSpec model = ReadModel(model_path, seq_len);
  const Workload workload{
      .global_batch = micro_batch, .seq_len = seq_len, .precision = ParsePrecision("bf16").value()};
  ParallelPlan plan;
  plan.micro_batch = micro_batch;
  if (const absl::Status status = Validate(workload, model); !status.ok()) {
    throw std::invalid_argument(std::string(status.message()));
  }
  std::vector<StepOp> found;
  std::map<OpDesc, std::size_t> places;
  const Program program = Lower({model, workload, Canonical(plan)});
  for (const Action& action : program.ranks.front()) {
    for (const OpDesc& op : ActionOps({model, workload, plan}, 0, action)) {
      const auto [place, is_new] = places.emplace(op, found.size());
      if (is_new) found.push_back({.op = op, .times_a_step = 0, .seconds = {}, .error = {}});
      ++found[place->second].times_a_step;
    }
  }
  return found;
}

void TimeStepOp(StepOp& op, Device& device, Ops& ops, Stream& stream) {
  try {
    trainer::ScratchOp scratch(op.op, device, ops, stream);
    op.seconds = TimeOnStream(stream, kRuns, kWarmUp, [&] { scratch.Run(); });
  } catch (const std::exception& error) {
    op.error = error.what();
  }
}

}  // namespace autocfg
