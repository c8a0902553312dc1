#include "search/cost/op_times/cluster_op_times.h"

#include <algorithm>
#include <string_view>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/cost/op_times/compute_model.h"
#include "search/plan/hardware_flops.h"

namespace autocfg {
namespace {

bool IsDataGroup(CommGroup group) {
  return group == CommGroup::kData || group == CommGroup::kShard || group == CommGroup::kReplica;
}

// Returns an error that names a precision the device has a rate for.
absl::Status MissingRate(const ClusterSpec& cluster, const Precision& precision) {
  const DeviceSpec& device = cluster.groups.front().device;
  // Both ways of scaling fp8 have one rate (PeakFlops).
  const bool blocks = precision.products == ProductFormat::kFp8Block;
  const std::string figure = fmt::format("device.flops_per_s.{}",
                                         blocks ? FiguresOf(ProductFormat::kFp8).name : BaseName(precision));
  for (const std::string_view other : {"bf16", "fp16", "fp32"}) {
    if (PeakFlops(device, *ParsePrecision(other))) {
      return MissingFigure(cluster, figure, fmt::format("give it, or use precision {}", other));
    }
  }
  return MissingFigure(cluster, "device.flops_per_s",
                       "give its bf16 rate (for a CPU: kind cpu, and its fp32 rate)");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ClusterOpTimes>> ClusterOpTimes::Create(const ClusterSpec& cluster,
                                                                             const Precision& precision) {
  AUTOCFG_RETURN_IF_ERROR(Validate(cluster));
  const auto links = LinksOf(cluster);
  if (absl::IsUnimplemented(links.status())) return links.status();
  const NodeGroup& group = cluster.groups.front();
  const EngineProfile engine = TimedEngine(cluster);
  const DeviceEfficiency& efficiency = group.device.efficiency;
  if (group.device.kind == DeviceKind::kCuda && BaseName(precision) == "fp64") {
    return ClusterError(cluster,
                        "fp64 is for CPUs only, and its devices are GPUs; use precision bf16, fp16 or fp32");
  }
  const auto peak = PeakFlops(group.device, precision);
  if (!peak) return MissingRate(cluster, precision);
  struct Figure {
    std::string_view name;
    bool known;
  };
  for (const Figure& figure :
       {Figure{"device.memory_bytes_per_s", group.device.memory_bytes_per_s > 0},
        Figure{"device.efficiency.matmul", efficiency.matmul > 0},
        Figure{"device.efficiency.attention_forward", efficiency.attention_forward > 0},
        Figure{"device.efficiency.attention_backward", efficiency.attention_backward > 0},
        Figure{"device.efficiency.memory", efficiency.memory > 0},
        Figure{"device.efficiency.op_overhead_s", efficiency.op_overhead_s.has_value()}}) {
    if (!figure.known) return MissingFigure(cluster, figure.name);
  }
  if (!links.ok()) return links.status();

  auto times = std::shared_ptr<ClusterOpTimes>(new ClusterOpTimes());
  // An engine that does better than its device's figure still does no better than the peak.
  const bool narrow = precision.products != ProductFormat::kCompute;
  const double reached = efficiency.matmul * (narrow ? engine.narrow_matmul : engine.matmul);
  times->device_ = {.flops_per_s = *peak * std::min(reached, 1.0),
                    .k_half = efficiency.matmul_k_half * engine.matmul_k_half,
                    .bytes_per_s = group.device.memory_bytes_per_s * efficiency.memory * engine.memory,
                    .multiprocessors = group.device.multiprocessors};
  times->products_ = precision.products;
  times->keeps_operands_ = engine.keeps_operands;
  // Attention and the output layer stay in the compute type.
  Precision compute = precision;
  compute.products = ProductFormat::kCompute;
  if (narrow) {
    AUTOCFG_ASSIGN_OR_RETURN(times->output_layer_, Create(cluster, compute));
  }
  const double attention_peak = PeakFlops(group.device, compute).value_or(*peak);
  const auto attention = [&](double share) {
    return FusedAttentionDevice{.flops_per_s = attention_peak * share,
                                .head_dim_half = efficiency.attention_head_dim_half,
                                .bytes_per_s = times->device_.bytes_per_s};
  };
  times->attention_forward_ = attention(efficiency.attention_forward);
  times->attention_backward_ = attention(efficiency.attention_backward);
  times->overhead_s_ = *efficiency.op_overhead_s;
  times->optimizer_bytes_per_s_ = efficiency.optimizer > 0
                                      ? group.device.memory_bytes_per_s * efficiency.optimizer * engine.memory
                                      : times->device_.bytes_per_s;
  if (efficiency.data_exposed > 0) times->data_exposed_ = efficiency.data_exposed;
  times->host_op_s_ = group.host_op_s.value_or(engine.host_op_s.value_or(0));
  times->gpus_per_node_ = group.gpus_per_node;
  times->links_ = *links;
  return std::shared_ptr<const ClusterOpTimes>(std::move(times));
}

double ClusterOpTimes::CastSeconds(const OpDesc& product) const {
  const auto m = static_cast<double>(product.dims[0]), n = static_cast<double>(product.dims[1]),
             k = static_cast<double>(product.dims[2]);
  const ProductFormatFigures& format = FiguresOf(products_);
  const double read = static_cast<double>(SizeOf(product.dtype)) * (format.finds_scale_first ? 2 : 1);
  if (!keeps_operands_) return (m * k + k * n) * (read + format.Bytes()) / device_.bytes_per_s;
  // An input or a gradient is cast where it is first used, along rows and along columns; the product of both
  // finds them cast, and weights are cast once a step.
  if (product.transpose_a) return 0;
  return m * k * (read + 2 * format.Bytes()) / device_.bytes_per_s;
}

double ClusterOpTimes::Seconds(const OpDesc& op, const ParallelPlan& plan) const {
  switch (op.kind) {
    case OpKind::kMatmul: {
      OpDesc product = op;
      product.epilogue = Epilogue::kNone;
      const double bytes = MinBytes(product);
      const double epilogue_s = (MinBytes(op) - bytes) / device_.bytes_per_s;
      const double product_s =
          MatmulSeconds(device_, {1, op.dims[0], op.dims[1], op.dims[2]}, bytes) + epilogue_s + overhead_s_;
      return products_ == ProductFormat::kCompute ? product_s : product_s + CastSeconds(op);
    }
    case OpKind::kAttentionForward: return FusedAttentionSeconds(op, attention_forward_, overhead_s_);
    case OpKind::kAttentionBackward: return FusedAttentionSeconds(op, attention_backward_, overhead_s_);
    case OpKind::kUnfusedAttentionForward:
    case OpKind::kUnfusedAttentionBackward: return UnfusedAttentionSeconds(op, device_, overhead_s_);
    case OpKind::kSumOfSquares:
    case OpKind::kAdamW:
    case OpKind::kSgd: return MinBytes(op) / optimizer_bytes_per_s_ + overhead_s_;
    default: break;
  }
  if (!IsCommunication(op.kind)) return MinBytes(op) / device_.bytes_per_s + overhead_s_;
  if (op.group_size <= 1) return 0;
  const double seconds = CommunicationSeconds(op, SpanOf(op, plan, gpus_per_node_), links_);
  return (IsDataGroup(op.group) ? data_exposed_ * seconds : seconds) + overhead_s_;
}

}  // namespace autocfg
