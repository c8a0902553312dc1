#include "trainer/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "proto/convert/trainer_convert.h"
#include "search/ops/memory_sizes.h"
#include "trainer/calibrate/scratch_op.h"
#include "trainer/comm/group.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

// Minimum duration of a sample, so that the cost of reading the clock is negligible.
constexpr double kSampleSeconds = 50e-6;
constexpr double kSampleSecondsOfDevice = 500e-6;  // for devices other than the host: hides launch costs too
constexpr double kLeastShareSeconds = 1e-3;
constexpr int kFewestSamples = 5;
constexpr int kMostSamples = 200;
constexpr int kMostPerSample = 256;

double ShareOf(double budget_s, std::size_t ops) {
  return std::max(kLeastShareSeconds, budget_s / std::max<double>(1.0, static_cast<double>(ops)));
}

// The communicator on which an op is timed. Ops with the same key are timed consecutively while it exists,
// since a library may take a second to create one.
struct GroupKey {
  CommGroup name = CommGroup::kNone;  // kNone: compute, no communicator
  std::int64_t size = 0;

  auto operator<=>(const GroupKey&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// A message is timed between two neighbours, whatever the number of stages.
GroupKey GroupOf(const OpDesc& op) {
  switch (PatternOf(op.kind)) {
    case CommPattern::kNone: return {};
    case CommPattern::kMessage: return {CommGroup::kPipeline, 2};
    case CommPattern::kAllReduce:
    case CommPattern::kReduceScatter:
    case CommPattern::kAllGather: return {op.group, op.group_size};
  }
  return {};
}

class OpTimer {
 public:
  OpTimer(double share_s, std::int64_t rank, std::int64_t world_size, Backend& backend)
      : share_s_(share_s),
        rank_(rank),
        world_size_(world_size),
        backend_(backend),
        stream_(backend.device->CreateStream()),
        timer_(backend.device->CreateTimer()),
        arena_(*backend.device) {
    const auto reserve_staging = [&] {
      return arena_.Reserve(Region::kCommunication, DType::kI32,
                            {kCollectiveStagingBytes / SizeOf(DType::kI32)});
    };
    const Reservation world_staging = reserve_staging(), group_staging = reserve_staging();
    const Reservation agreed = arena_.Reserve(Region::kWorkspace, DType::kF64, {1});
    arena_.Commit();
    agreed_ = arena_.At(agreed);
    group_staging_ = arena_.At(group_staging);
    std::vector<std::int64_t> all(world_size);
    std::iota(all.begin(), all.end(), 0);
    if (world_size > 1) world_ = backend.comm->CreateGroup(CommGroup::kWorld, all, arena_.At(world_staging));
    shares_cores_ = backend.shares_cores != nullptr && backend.shares_cores();
  }

  OpTime Time(const OpDesc& op) {
    try {
      const Seconds seconds = TimeValid(op);
      backend_.ops->ReleaseSpare();  // the next op's tensors may need it, and a run has no such overhead
      return {op, seconds.device, IsCommunication(op.kind) ? 0 : seconds.host};
    } catch (const std::invalid_argument& error) {
      // The sizes do not match, or the device does not support the type.
      throw BadInput(fmt::format("op \"{}\" cannot be timed: {}", ToString(op), error.what()));
    }
  }

  // Returns times in the order of `ops`. Collective: every rank passes the same ops.
  std::vector<OpTime> TimeAll(const std::vector<OpDesc>& ops) {
    std::vector<std::size_t> order(ops.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return GroupOf(ops[a]) < GroupOf(ops[b]); });
    std::vector<OpTime> result(ops.size());
    for (const std::size_t i : order) result[i] = Time(ops[i]);
    LeaveGroup();
    return result;
  }

  // Returns the memory that a rank uses on its device, which it may share with others, besides tensors.
  // Counts communicators as a run has them. Collective.
  std::int64_t OverheadBytes() {
    Barrier();  // no rank has scratch tensors any more
    const std::int64_t used = backend_.device->OverheadBytes(0) + backend_.kept_back_bytes;
    Barrier();  // no rank frees anything before all have measured
    std::int64_t communicators = 0;
    for (const auto& [group, bytes] : communicator_bytes_) communicators += bytes;
    return std::max<std::int64_t>(used / backend_.ranks_on_device - arena_.TotalBytes() + communicators, 0);
  }

 private:
  // Of one execution of an op.
  struct Seconds {
    double device = 0;
    double host = 0;  // to issue it; 0 if the host runs it
  };

  Seconds TimeValid(const OpDesc& op) {
    if (op.group != CommGroup::kNone && (op.group_size < 2 || op.group_size > world_size_)) {
      throw BadInput(fmt::format("op \"{}\" cannot be timed among {} ranks", ToString(op), world_size_));
    }
    if (IsCommunication(op.kind) && op.group == CommGroup::kNone) {
      throw BadInput(fmt::format("op \"{}\" cannot be timed: it names no group", ToString(op)));
    }
    EnterGroup(GroupOf(op));  // before scratch tensors exist: the added memory is the communicator's
    ScratchOp scratch(op, *backend_.device, *backend_.ops, *stream_);
    switch (PatternOf(op.kind)) {
      case CommPattern::kNone: return Measure([&] { scratch.Run(); }, 1.0);
      case CommPattern::kMessage: return TimeMessage(scratch);
      case CommPattern::kAllReduce:
      case CommPattern::kReduceScatter:
      case CommPattern::kAllGather: return TimeCollective(op, scratch);
    }
    throw BadInput(fmt::format("op \"{}\" cannot be timed: it has no known pattern", ToString(op)));
  }

  // Creates the communicators of groups of consecutive ranks. Leftover ranks have none and only take part in
  // barriers. Reported times are those of rank 0's group.
  void EnterGroup(const GroupKey& key) {
    if (key == group_key_) return;
    LeaveGroup();
    group_key_ = key;
    if (key.name == CommGroup::kNone) return;
    bytes_before_group_ = backend_.device->OverheadBytes(0);
    const std::int64_t first = rank_ / key.size * key.size;
    if (first + key.size > world_size_) return;
    std::vector<std::int64_t> ranks(key.size);
    std::iota(ranks.begin(), ranks.end(), first);
    group_ = backend_.comm->CreateGroup(key.name, ranks, group_staging_);
  }

  void LeaveGroup() {
    NoteCommunicator();
    group_.reset();
    group_key_ = {};
  }

  // Parts lie within the whole. A rank without a group takes part in the barriers only.
  Seconds TimeCollective(const OpDesc& op, ScratchOp& scratch) {
    const ReduceOp reduce = op.kind == OpKind::kAllReduceMax ? ReduceOp::kMax : ReduceOp::kSum;
    const Tensor& whole = scratch.buffer();
    if (PatternOf(op.kind) != CommPattern::kAllReduce && whole.Elements() % op.group_size != 0) {
      throw BadInput(fmt::format("op \"{}\" cannot be timed: {} elements are not divisible by {} ranks",
                                 ToString(op), whole.Elements(), op.group_size));
    }
    const Tensor own =
        group_ == nullptr ? Tensor{} : PartOf(whole, group_->rank(), std::int64_t{group_->size()});
    const auto issue = [&]() -> std::unique_ptr<Work> {
      switch (PatternOf(op.kind)) {
        case CommPattern::kReduceScatter: return group_->ReduceScatter(whole, own, reduce, *stream_);
        case CommPattern::kAllGather: return group_->AllGather(own, whole, *stream_);
        default: return group_->AllReduce(whole, reduce, *stream_);
      }
    };
    return Measure(
        [&] {
          if (group_ != nullptr) issue()->Wait();
        },
        1.0);
  }

  Seconds TimeMessage(ScratchOp& scratch) {
    const auto round_trip = [&] {
      if (group_ == nullptr) return;
      const int other = 1 - group_->rank();
      const auto send = [&] { group_->Send(scratch.buffer(), other, 0, *stream_)->Wait(); };
      const auto receive = [&] { group_->Recv(scratch.buffer(), other, 0, *stream_)->Wait(); };
      if (group_->rank() == 0) {
        send();
        receive();
      } else {
        receive();
        send();
      }
    };
    return Measure(round_trip, 0.5);
  }

  // Records the device memory that the group's communicator (the library's buffers) added: the maximum for
  // each group name. The world's communicator always exists, so it is not counted. Ranks that share a device
  // cannot measure this; they communicate through host memory.
  void NoteCommunicator() {
    const CommGroup name = group_key_.name;
    if (backend_.ranks_on_device > 1 || name == CommGroup::kNone || name == CommGroup::kWorld) return;
    // A rank in the middle of the pipeline sends to both neighbours and receives from both.
    const std::int64_t times = name == CommGroup::kPipeline ? 2 : 1;
    std::int64_t& bytes = communicator_bytes_[name];
    bytes = std::max(bytes, (backend_.device->OverheadBytes(0) - bytes_before_group_) * times);
  }

  // Returns the largest of the ranks' numbers, on every rank.
  double Agree(double mine) {
    if (world_ == nullptr) return mine;
    backend_.device->CopyFromHost(agreed_.data, &mine, sizeof(mine), *stream_);
    world_->AllReduce(agreed_, ReduceOp::kMax, *stream_)->Wait();
    double result = mine;
    backend_.device->CopyToHost(&result, agreed_.data, sizeof(result), *stream_);
    stream_->Synchronize();
    return result;
  }

  void Barrier() {
    if (world_ != nullptr) world_->Barrier();
  }

  template <typename Run>
  Seconds Sample(const Run& run, int repetitions) {
    using Clock = std::chrono::steady_clock;
    const bool on_host = backend_.device->ComputesOnHost();
    // One extra run keeps the device busy while the host issues the timed ones, as in a step.
    if (repetitions > 1 && !on_host) run();
    timer_->Start(*stream_);
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) run();
    const double issuing = std::chrono::duration<double>(Clock::now() - begin).count();
    timer_->Stop(*stream_);
    return {timer_->Seconds() / repetitions, on_host ? 0 : issuing / repetitions};
  }

  template <typename Run>
  Seconds Measure(const Run& run, double part) {
    Barrier();
    run();  // warms up caches, connections and the library's own buffers
    const double once = Agree(Sample(run, 1).device);
    const int repetitions = static_cast<int>(
        std::clamp(std::ceil(least_sample_s_ / std::max(once, 1e-9)), 1.0, double{kMostPerSample}));
    const int samples = static_cast<int>(std::clamp(share_s_ / std::max(once * repetitions, 1e-9),
                                                    double{kFewestSamples}, double{kMostSamples}));
    std::vector<double> device, host;
    device.reserve(static_cast<std::size_t>(samples));
    host.reserve(static_cast<std::size_t>(samples));
    Barrier();
    for (int i = 0; i < samples; ++i) {
      const Seconds sample = Sample(run, repetitions);
      device.push_back(sample.device * part);
      host.push_back(sample.host * part);
    }
    Barrier();
    if (shares_cores_) return {std::accumulate(device.begin(), device.end(), 0.0) / samples, Middle(host)};
    return {Middle(device), Middle(host)};
  }

  // Returns the middle one of the values, which it reorders; of an even number the upper one.
  static double Middle(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  const double share_s_;
  const std::int64_t rank_;
  const std::int64_t world_size_;
  Backend& backend_;
  const double least_sample_s_ = backend_.device->ComputesOnHost() ? kSampleSeconds : kSampleSecondsOfDevice;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StreamTimer> timer_;
  Arena arena_;
  Tensor agreed_, group_staging_;
  std::unique_ptr<Communicator> world_;
  GroupKey group_key_;  // of group_
  std::unique_ptr<Communicator> group_;
  std::int64_t bytes_before_group_ = 0;
  std::map<CommGroup, std::int64_t> communicator_bytes_;
  bool shares_cores_ = false;
};

}  // namespace

std::vector<OpTime> TimeOps(const std::vector<OpDesc>& ops, double budget_s, std::int64_t rank,
                            std::int64_t world_size, Backend& backend) {
  if (!backend.device->Computes()) throw BadInput("the dry device computes nothing, so it has no times");
  return OpTimer(ShareOf(budget_s, ops.size()), rank, world_size, backend).TimeAll(ops);
}

v1::CalibrateResult Calibrate(const v1::CalibrateSpec& spec, std::int64_t rank, std::int64_t world_size,
                              Backend& backend) {
  std::vector<OpDesc> ops;
  for (const v1::OpDesc& message : spec.ops()) {
    auto op = FromProto(message);
    if (!op.ok()) throw BadInput(std::string(op.status().message()));
    ops.push_back(*op);
  }
  if (!(spec.time_budget_s() >= 0 && spec.time_budget_s() < 1e6)) {
    throw BadInput(
        fmt::format("time_budget_s is {}; it must be a number from 0 to 1e6", spec.time_budget_s()));
  }
  v1::CalibrateResult result;
  std::vector<OpTime> times;
  if (backend.device->ComputesOnHost()) {
    // A few ops load everything that a run loads: afterwards communication is set up and the library has its
    // buffers. Later ops add only what the allocator keeps of their scratch memory.
    const std::size_t few = std::min<std::size_t>(ops.size(), 3);
    TimeOps({ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(few)}, 0, rank, world_size, backend);
    result.set_device_overhead_bytes(backend.device->OverheadBytes(0));
    times = TimeOps(ops, spec.time_budget_s(), rank, world_size, backend);
  } else {
    // Here freed memory really becomes free. Library workspaces are allocated by the ops that need them, and
    // stay.
    if (!backend.device->Computes()) throw BadInput("the dry device computes nothing, so it has no times");
    OpTimer timer(ShareOf(spec.time_budget_s(), ops.size()), rank, world_size, backend);
    times = timer.TimeAll(ops);
    result.set_device_overhead_bytes(timer.OverheadBytes());
  }
  for (const OpTime& time : times) *result.add_ops() = ToProto(time);
  return result;
}

}  // namespace autocfg::trainer
