#include "search/plan/hardware_flops.h"
#include "search/predict/predict_plan.h"

namespace autocfg {

double TokensPerSecond(const Workload& workload, double step_time_s) {
  const double tokens = static_cast<double>(workload.global_batch) * static_cast<double>(workload.seq_len);
  return step_time_s > 0 ? tokens / step_time_s : 0;
}

Throughput ThroughputOf(const Problem& problem, const ParallelPlan& plan, double step_time_s) {
  const ClusterSpec& cluster = problem.cluster;
  const Workload& workload = problem.workload;
  Throughput rates;
  const std::optional<double> peak =
      cluster.groups.empty() ? std::nullopt : PeakFlops(cluster.groups.front().device, workload.precision);
  if (peak) rates.mfu = 0.0;
  if (!(step_time_s > 0)) return rates;
  const auto seq_len = static_cast<double>(workload.seq_len);
  rates.tokens_per_s = TokensPerSecond(workload, step_time_s);
  rates.tokens_per_s_per_gpu = rates.tokens_per_s / static_cast<double>(RankCount(plan));
  rates.model_flops_per_s_per_gpu = ModelFlops(problem.model, rates.tokens_per_s_per_gpu, seq_len);
  rates.hardware_flops_per_s_per_gpu =
      HardwareFlops(problem.model, plan, rates.tokens_per_s_per_gpu, seq_len);
  if (peak) rates.mfu = rates.model_flops_per_s_per_gpu / *peak;
  return rates;
}

}  // namespace autocfg
