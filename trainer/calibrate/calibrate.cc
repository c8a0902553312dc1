#include "trainer/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "proto/convert/trainer_convert.h"
#include "search/ops/memory_sizes.h"
#include "trainer/calibrate/scratch_op.h"
#include "trainer/calibrate/timing_order.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

// Minimum duration of a sample, so that the cost of reading the clock is negligible.
constexpr double kSampleSeconds = 50e-6;
constexpr double kSampleSecondsOfDevice = 500e-6;  // for devices other than the host: hides launch costs too
constexpr double kLeastShareSeconds = 1e-3;
constexpr int kFewestSamples = 5;
constexpr double kEnoughSeconds = 0.2;  // of samples: longer ones are few enough to differ little
constexpr int kMostSamples = 200;
constexpr int kMostPerSample = 256;

double ShareOf(double budget_s, std::size_t ops) {
  return std::max(kLeastShareSeconds, budget_s / std::max<double>(1.0, static_cast<double>(ops)));
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

  // Returns times in the order of `ops`, without those that the limit left out. Collective: every rank passes
  // the same ops.
  std::vector<OpTime> TimeAll(const std::vector<OpDesc>& ops, const TimingOptions& options) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    std::vector<std::optional<OpTime>> times(ops.size());
    TimingProgress progress{.all = static_cast<std::int64_t>(ops.size())};
    for (const TimingTurn& turn : TimingOrder(ops)) {
      const double elapsed_s =
          options.limit_s > 0 ? Agree(std::chrono::duration<double>(Clock::now() - begin).count()) : 0;
      if (!LeavesOut(turn, elapsed_s, options.limit_s)) times[turn.op] = Time(ops[turn.op]);
      progress.timed = times[turn.op];
      ++progress.passed;
      const double passed_s = std::chrono::duration<double>(Clock::now() - begin).count();
      progress.left_s = passed_s / static_cast<double>(progress.passed) *
                        static_cast<double>(progress.all - progress.passed);
      if (options.limit_s > 0) progress.left_s = std::clamp(options.limit_s - passed_s, 0.0, progress.left_s);
      if (options.watch) options.watch(progress);
    }
    LeaveGroup();
    std::vector<OpTime> result;
    for (const std::optional<OpTime>& time : times) {
      if (time) result.push_back(*time);
    }
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
      default: return TimeCollective(op, scratch);
    }
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
    const Tensor& whole = scratch.buffer();
    if (PatternOf(op.kind) != CommPattern::kAllReduce && whole.Elements() % op.group_size != 0) {
      throw BadInput(fmt::format("op \"{}\" cannot be timed: {} elements are not divisible by {} ranks",
                                 ToString(op), whole.Elements(), op.group_size));
    }
    const CollectiveCall call = group_ == nullptr ? CollectiveCall{} : CallOf(op, whole, *group_);
    return Measure(
        [&] {
          if (group_ != nullptr) group_->Issue(call, *stream_)->Wait();
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
    const double sample_s = std::max(once * repetitions, 1e-9);
    const double fewest = std::clamp(std::ceil(kEnoughSeconds / sample_s), 1.0, double{kFewestSamples});
    const int samples = static_cast<int>(std::clamp(share_s_ / sample_s, fewest, double{kMostSamples}));
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

std::vector<OpTime> TimeOps(const std::vector<OpDesc>& ops, const TimingOptions& options, std::int64_t rank,
                            std::int64_t world_size, Backend& backend) {
  if (!backend.device->Computes()) throw BadInput("the dry device computes nothing, so it has no times");
  return OpTimer(ShareOf(options.budget_s, ops.size()), rank, world_size, backend).TimeAll(ops, options);
}

v1::CalibrateResult Calibrate(const v1::CalibrateSpec& spec, std::int64_t rank, std::int64_t world_size,
                              Backend& backend, const TimingWatch& watch) {
  std::vector<OpDesc> ops;
  for (const v1::OpDesc& message : spec.ops()) {
    auto op = FromProto(message);
    if (!op.ok()) throw BadInput(std::string(op.status().message()));
    ops.push_back(*op);
  }
  for (const auto& [name, value] :
       {std::pair("time_budget_s", spec.time_budget_s()), {"limit_s", spec.limit_s()}}) {
    if (!(value >= 0 && value < 1e6))
      throw BadInput(fmt::format("{} is {}; it must be a number from 0 to 1e6", name, value));
  }
  TimingOptions options{.budget_s = spec.time_budget_s(), .limit_s = spec.limit_s(), .watch = watch};
  v1::CalibrateResult result;
  std::vector<OpTime> times;
  if (backend.device->ComputesOnHost()) {
    // A few ops load everything that a run loads: afterwards communication is set up and the library has its
    // buffers. Later ops add only what the allocator keeps of their scratch memory.
    std::vector<OpDesc> few = ops;
    std::stable_partition(few.begin(), few.end(), [](const OpDesc& op) { return Flops(op) > 0; });
    few.resize(std::min<std::size_t>(few.size(), 3));
    TimeOps(few, {}, rank, world_size, backend);
    result.set_device_overhead_bytes(backend.device->OverheadBytes(0));
    if (watch) {
      options.watch = [&](TimingProgress progress) {
        progress.device_overhead_bytes = result.device_overhead_bytes();
        watch(progress);
      };
    }
    times = TimeOps(ops, options, rank, world_size, backend);
  } else {
    // Here freed memory really becomes free. Library workspaces are allocated by the ops that need them, and
    // stay.
    if (!backend.device->Computes()) throw BadInput("the dry device computes nothing, so it has no times");
    OpTimer timer(ShareOf(options.budget_s, ops.size()), rank, world_size, backend);
    times = timer.TimeAll(ops, options);
    result.set_device_overhead_bytes(timer.OverheadBytes());
  }
  for (const OpTime& time : times) *result.add_ops() = ToProto(time);
  return result;
}

}  // namespace autocfg::trainer
