#include "search/cost/closed_form.h"

#include <algorithm>

namespace autocfg {
namespace {

// Forward and backward of a stage with the receive before it.
struct StageTime {
  double forward = 0;
  double backward = 0;
};

class Pipeline {
 public:
  Pipeline(std::span<const StageCosts> stages, double microbatches, double ranks_per_core)
      : stages_(stages), m_(microbatches), ranks_per_core_(ranks_per_core) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const StageTime t = At(s);
      sum_forward_ += t.forward;
      sum_backward_ += t.backward;
      max_forward_ = std::max(max_forward_, t.forward);
      max_backward_ = std::max(max_backward_, t.backward);
    }
  }

  StageTime At(std::size_t s) const {
    const StageCosts& c = stages_[s];
    return {UnloadedForward(c, ranks_per_core_) + (s == 0 ? 0 : c.p2p_s),
            UnloadedBackward(c, ranks_per_core_) + (s + 1 == stages_.size() ? 0 : c.p2p_s)};
  }

  double GPipe() const { return sum_forward_ + sum_backward_ + (m_ - 1) * (max_forward_ + max_backward_); }

  double OneFOneB() const {
    double longest = 0, forward_before = 0, backward_before = 0;
    for (std::size_t q = 0; q < stages_.size(); ++q) {
      const StageTime t = At(q);
      const double warm_up = std::min(m_, static_cast<double>(stages_.size() - q));
      // Busy from the first forward to the last backward.
      const double busy = forward_before + m_ * (t.forward + t.backward) + backward_before;
      // Its first backward waits for the first microbatch to go all the way down and back up.
      const double waits = sum_forward_ + (sum_backward_ - backward_before - t.backward) + m_ * t.backward +
                           (m_ - warm_up) * t.forward + backward_before;
      longest = std::max({longest, busy, waits});
      forward_before += t.forward;
      backward_before += t.backward;
    }
    return longest;
  }

 private:
  std::span<const StageCosts> stages_;
  double m_;
  double ranks_per_core_;
  double sum_forward_ = 0, sum_backward_ = 0, max_forward_ = 0, max_backward_ = 0;
};

}  // namespace

double UnloadedForward(const StageCosts& c, double ranks_per_core) {
  return (c.forward_s - c.tp_forward_s) / ranks_per_core + c.tp_forward_s;
}

double UnloadedBackward(const StageCosts& c, double ranks_per_core) {
  const double messages = c.tp_backward_s + c.tp_recompute_s;
  return (c.backward_s - messages) / ranks_per_core + messages;
}

double SharedCoreSeconds(std::span<const StageCosts> stages, std::int64_t microbatches) {
  double sum = 0;
  for (const StageCosts& c : stages) sum += c.forward_s + c.backward_s;
  return sum * static_cast<double>(microbatches) / static_cast<double>(stages.size());
}

Breakdown ClosedForm(std::span<const StageCosts> stages, Schedule schedule, std::int64_t microbatches,
                     double ranks_per_core) {
  const auto m = static_cast<double>(microbatches);
  const std::size_t p = stages.size();
  const Pipeline pipeline(stages, m, ranks_per_core);
  double pipe_s = schedule == Schedule::kGPipe ? pipeline.GPipe() : pipeline.OneFOneB();
  if (ranks_per_core > 1) pipe_s = std::max(pipe_s, SharedCoreSeconds(stages, microbatches));

  // A stage zeroes its gradients before its first forward: only what is not hidden behind the fill counts.
  double zero_s = 0, fill_s = 0;
  std::size_t slowest = 0;
  double slowest_s = -1;
  for (std::size_t s = 0; s < p; ++s) {
    const StageTime t = pipeline.At(s);
    zero_s = std::max(zero_s, stages[s].zero_s - fill_s);
    fill_s += t.forward;
    if (t.forward + t.backward > slowest_s) {
      slowest = s;
      slowest_s = t.forward + t.backward;
    }
  }

  // The drain: stage s ends its last backward earlier than stage 0 by the backwards of the stages before it.
  double before = 0, first_ready = 0, last_ready = 0, ready = 0, scalars = 0, scalars_norm = 0, update = 0;
  for (std::size_t s = 0; s < p; ++s) {
    const StageCosts& c = stages[s];
    const double reduced = c.reduce_s - before;  // relative to the end of the pipeline
    if (s == 0) first_ready = reduced;
    if (s + 1 == p) last_ready = reduced;
    ready = std::max(ready, reduced);
    before += pipeline.At(s).backward;
    if (c.norm_s + c.scalars_s > scalars + scalars_norm) {
      scalars = c.scalars_s;
      scalars_norm = c.norm_s;
    }
    update = std::max(update, c.UpdateSeconds());
  }
  if (p > 1 && stages.front().tied_s > 0)
    ready = std::max(ready, std::max(first_ready, last_ready) + stages.front().tied_s);

  // The pipeline's time, attributed on its slowest stage; what that stage does not fill is bubble.
  const StageCosts& q = stages[slowest];
  const double messages = q.p2p_s * ((slowest > 0 ? 1 : 0) + (slowest + 1 < p ? 1 : 0));
  Breakdown parts;
  parts.compute = m * (q.forward_s - q.tp_forward_s + q.backward_s - q.tp_backward_s - q.recompute_s);
  parts.recompute = m * q.recompute_s;
  parts.tp_comm = m * (q.tp_forward_s + q.tp_backward_s);
  parts.pp_comm = m * messages;
  const double busy = parts.Total();
  if (busy > pipe_s) {  // shared cores: the slowest stage runs faster than measured while others idle
    const double scale = pipe_s / busy;
    parts.compute *= scale;
    parts.recompute *= scale;
    parts.tp_comm *= scale;
    parts.pp_comm *= scale;
  } else {
    parts.bubble = pipe_s - busy;
  }
  parts.dp_comm = ready;
  parts.optimizer = zero_s + scalars_norm + update;
  parts.overhead = scalars;
  return parts;
}

}  // namespace autocfg
