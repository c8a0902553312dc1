#include "search/cost/op_times/op_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace autocfg {
namespace {

double Work(const OpDesc& op) {
  const double flops = Flops(op);
  return flops > 0 ? flops : MinBytes(op);
}

double PayloadBytes(const OpDesc& op) {
  return static_cast<double>(op.dims[0]) * static_cast<double>(SizeOf(op.dtype));
}

bool Usable(double seconds) { return seconds > 0 && std::isfinite(seconds); }

// Penalties for what two ops of a kind differ in besides dims, as squared logarithms of sizes: 0.25 counts as
// much as one dim that is larger by a factor of 1.65, 0.05 as a factor of 1.25. Estimates: operand layouts
// and activations choose another kernel, an addend only adds traffic. A wrong one changes which measured ops
// an estimate leans on, and nothing where the op itself was measured.
constexpr double kOtherKernel = 0.25;
constexpr double kOtherAddend = 0.05;

// Returns the distance of two ops of a kind: between the logarithms of their dims, plus the penalties.
double DistanceSquared(const OpDesc& a, const OpDesc& b) {
  // Names every field, so that a new one does not compile until its part in the distance is decided. Kind,
  // group and its size are equal, or make no difference; types and epilogues have fits of their own.
  const auto& [kind, dtype, transpose_a, transpose_b, accumulate, epilogue, bias, window, alibi, softcap,
               gradients, moments, master, activation, group, group_size, dims] = a;
  double sum = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == b.dims[i]) continue;
    const double d = std::log(static_cast<double>(std::max<std::int64_t>(dims[i], 1)) /
                              static_cast<double>(std::max<std::int64_t>(b.dims[i], 1)));
    sum += d * d;
  }
  // Rates hardly depend on how many of the pairs are computed: those of all scale to a window's by FLOPs.
  if ((window == 0) != (b.window == 0)) sum += kOtherAddend;
  if (transpose_a != b.transpose_a || transpose_b != b.transpose_b) sum += kOtherKernel;
  if (accumulate != b.accumulate || bias != b.bias || softcap != b.softcap || gradients != b.gradients)
    sum += kOtherAddend;
  if (activation != b.activation || moments != b.moments || master != b.master || alibi != b.alibi)
    sum += kOtherKernel;
  return sum;
}

// Fits the link of points of one size only: the shape comes from `pooled`, the level from the points.
LinkModel FitLinkLike(const std::vector<TimedSize>& points, const LinkModel& pooled) {
  const auto [low, high] = std::minmax_element(
      points.begin(), points.end(), [](const TimedSize& a, const TimedSize& b) { return a.size < b.size; });
  if (low->size < high->size) return FitLine(points);
  double seconds = 0;
  for (const TimedSize& p : points) seconds += p.seconds / static_cast<double>(points.size());
  const double shape = pooled.Seconds(low->size);
  if (shape > 0 && pooled.alpha_s > 0 && pooled.beta_s_per_byte > 0) {
    return {pooled.alpha_s * seconds / shape, pooled.beta_s_per_byte * seconds / shape};
  }
  // Without a known shape, a small message is all latency and a large one all bandwidth. The bound is an
  // estimate, a page; it matters only where messages of one size were measured, and of no other group.
  constexpr double kSmallBytes = 4096;
  if (low->size <= kSmallBytes) return {seconds, 0};
  return {0, seconds / low->size};
}

// A kind that was measured in place of another, whose time is `factor` times as long.
struct StandIn {
  OpKind kind;
  double factor;
};

// Returns what stands in for a kind of communication that was not measured: nothing for compute.
std::optional<StandIn> StandInFor(OpKind kind) {
  switch (PatternOf(kind)) {
    case CommPattern::kNone: return std::nullopt;
    case CommPattern::kAllReduce:
      return StandIn{kind == OpKind::kAllReduceSum ? OpKind::kAllReduceMax : OpKind::kAllReduceSum, 1};
    // A ring's sum is a reduce-scatter followed by a gather.
    case CommPattern::kReduceScatter:
    case CommPattern::kAllGather: return StandIn{OpKind::kAllReduceSum, 0.5};
    case CommPattern::kMessage: return StandIn{kind == OpKind::kSend ? OpKind::kRecv : OpKind::kSend, 1};
  }
  return std::nullopt;
}

}  // namespace

OpTimes::OpTimes(const std::vector<OpTime>& measured) {
  absl::flat_hash_map<OpDesc, int, OpDescHash> count;
  int issued = 0;
  for (const OpTime& m : measured) {
    const int n = ++count[m.op];
    double& seconds = measured_[m.op];
    seconds += (m.seconds - seconds) / n;
    if (!IsCommunication(m.op.kind) && Usable(m.host_s)) host_op_s_ += (m.host_s - host_op_s_) / ++issued;
  }

  std::map<std::pair<OpKind, DType>, std::vector<TimedSize>> compute;
  std::map<std::tuple<OpKind, CommGroup, std::int32_t>, std::vector<TimedSize>> links;
  std::map<std::pair<OpKind, std::int32_t>, std::vector<TimedSize>> by_size;
  std::map<OpKind, std::vector<TimedSize>> by_kind;
  std::vector<TimedSize> bytes, flops;
  for (const OpTime& time : this->measured()) {  // sorted, so that sums have a fixed order
    const OpDesc& op = time.op;
    const double seconds = time.seconds;
    if (!Usable(seconds)) continue;
    if (IsCommunication(op.kind)) {
      const TimedSize point{PayloadBytes(op), seconds};
      links[{op.kind, op.group, op.group_size}].push_back(point);
      by_size[{op.kind, op.group_size}].push_back(point);
      by_kind[op.kind].push_back(point);
      continue;
    }
    const TimedSize point{Work(op), seconds};
    compute[{op.kind, op.dtype}].push_back(point);
    (Flops(op) > 0 ? flops : bytes).push_back(point);
    best_bytes_per_s_ = std::max(best_bytes_per_s_, MinBytes(op) / seconds);
    compute_[{op.kind, op.dtype}].points[op.epilogue].push_back({op, point.size, 0});
  }

  has_bytes_ = !bytes.empty();
  has_flops_ = !flops.empty();
  any_bytes_ = FitLine(bytes);
  any_flops_ = FitLine(flops);
  for (auto& [key, fit] : compute_) {
    fit.line = FitLine(compute[key]);
    for (auto& [epilogue, points] : fit.points) {
      for (Point& p : points) {
        const double line = std::max(fit.line.Seconds(p.work), MinBytes(p.op) / best_bytes_per_s_);
        p.log_residual = line > 0 ? std::log(measured_.at(p.op) / line) : 0;
      }
      std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
        return a.work != b.work ? a.work < b.work : a.op < b.op;
      });
    }
  }
  for (const auto& [key, points] : by_size)
    group_size_links_[key] = FitLinkLike(points, FitLine(by_kind[key.first]));
  for (const auto& [key, points] : links) {
    links_[key] =
        FitLinkLike(points, group_size_links_[{std::get<OpKind>(key), std::get<std::int32_t>(key)}]);
  }
}

std::vector<OpTime> OpTimes::measured() const {
  std::vector<OpTime> all;
  all.reserve(measured_.size());
  for (const auto& [op, seconds] : measured_) all.push_back({.op = op, .seconds = seconds});
  std::sort(all.begin(), all.end(), [](const OpTime& a, const OpTime& b) { return a.op < b.op; });
  return all;
}

double OpTimes::Seconds(const OpDesc& op) const {
  if (const auto it = measured_.find(op); it != measured_.end()) return it->second;
  return IsCommunication(op.kind) ? CommunicationSeconds(op) : ComputeSeconds(op);
}

double OpTimes::ComputeSeconds(const OpDesc& op) const {
  const double floor = best_bytes_per_s_ > 0 ? MinBytes(op) / best_bytes_per_s_ : 0;
  auto it = compute_.find({op.kind, op.dtype});
  double type_scale = 1;
  if (it == compute_.end()) {
    it = compute_.lower_bound({op.kind, DType::kF32});
    if (it == compute_.end() || it->first.first != op.kind) {
      const bool flops = Flops(op) > 0;
      if (flops ? !has_flops_ : !has_bytes_) return std::numeric_limits<double>::infinity();
      return std::max((flops ? any_flops_ : any_bytes_).Seconds(Work(op)), floor);
    }
    // Bytes already depend on the type; the time of FLOPs is scaled by the element size.
    if (Flops(op) > 0)
      type_scale = static_cast<double>(SizeOf(op.dtype)) / static_cast<double>(SizeOf(it->first.second));
  }
  const ComputeFit& fit = it->second;
  const auto family = fit.points.find(op.epilogue);
  const std::vector<Point>& points = family != fit.points.end() ? family->second : fit.points.begin()->second;
  const double work = Work(op) * type_scale;
  const double line = std::max(fit.line.Seconds(work), floor);

  // The measured ops nearest in work, weighted by nearness in shape.
  constexpr std::ptrdiff_t kEachSide = 4;
  constexpr double kFadeWeight =
      0.05;  // equals a measured op at a distance of 4.5, a factor of 90 in one dim
  const auto middle = std::lower_bound(points.begin(), points.end(), work,
                                       [](const Point& p, double w) { return p.work < w; });
  const auto begin = points.begin() + std::max<std::ptrdiff_t>(0, middle - points.begin() - kEachSide);
  const auto end = middle + std::min<std::ptrdiff_t>(kEachSide, points.end() - middle);
  double weights = kFadeWeight, residual = 0;
  for (auto p = begin; p != end; ++p) {
    const double weight = 1 / (DistanceSquared(op, p->op) + 1e-3);
    weights += weight;
    residual += weight * p->log_residual;
  }
  return line * std::exp(residual / weights);
}

const LinkModel* OpTimes::FindLink(OpKind kind, CommGroup group, std::int32_t size) const {
  if (const auto it = links_.find({kind, group, size}); it != links_.end()) return &it->second;
  auto it = group_size_links_.lower_bound({kind, size});
  if (it != group_size_links_.end() && it->first.first == kind) return &it->second;
  if (it == group_size_links_.begin()) return nullptr;
  --it;
  return it->first.first == kind ? &it->second : nullptr;
}

bool OpTimes::MeasuredInGroup(const OpDesc& op) const {
  const std::optional<StandIn> other = StandInFor(op.kind);
  return group_size_links_.contains({op.kind, op.group_size}) ||
         (other && group_size_links_.contains({other->kind, op.group_size}));
}

double OpTimes::CommunicationSeconds(const OpDesc& op) const {
  if (op.group_size <= 1) return 0;
  if (const LinkModel* link = FindLink(op.kind, op.group, op.group_size); link != nullptr)
    return link->Seconds(PayloadBytes(op));
  if (const std::optional<StandIn> other = StandInFor(op.kind)) {
    if (const LinkModel* link = FindLink(other->kind, op.group, op.group_size); link != nullptr)
      return link->Seconds(PayloadBytes(op)) * other->factor;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace autocfg
