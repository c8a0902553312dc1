// Tests of calibration: every kind of op can be timed, alone and among ranks, and invalid ops are rejected.
// The tests check only that times exist, not their values.
#include "trainer/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "proto/convert/trainer_convert.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/schedule/program.h"
#include "tests/support/every_op.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

void ExpectTimes(const std::vector<OpTime>& times, const std::vector<OpDesc>& ops) {
  ASSERT_EQ(times.size(), ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(times[i].op, ops[i]);
    EXPECT_TRUE(times[i].seconds > 0 && times[i].seconds < 10)
        << ToString(ops[i]) << " took " << times[i].seconds;
  }
}

// Returns every op of a step under a plan, each once.
std::vector<OpDesc> OpsOf(const TrainConfig& c) {
  std::set<OpDesc> ops;
  const Program program = Lower(c);
  for (std::int64_t stage = 0; stage < c.plan.pp; ++stage) {
    for (const Action& action : program.ranks[stage * c.plan.tp * c.plan.dp]) {
      for (const OpDesc& op : ActionOps(c, stage, action)) ops.insert(op);
    }
  }
  return {ops.begin(), ops.end()};
}

TEST(Calibrate, TimesEveryOpOfAStep) {
  for (const char* precision : {"fp32", "fp64"}) {
    TrainConfig c = test::SmallConfig();
    c.workload.precision = *ParsePrecision(precision);
    c.plan = {{.tp = 2, .pp = 2}};
    std::vector<OpDesc> ops = OpsOf(c);
    c.plan.sequence_parallel = true;
    for (const std::vector<OpDesc>& more : {OpsOf(c), test::EveryComputeOp(c.workload.precision.compute)})
      ops.insert(ops.end(), more.begin(), more.end());
    std::set<OpKind> kinds;
    std::set<Epilogue> epilogues;
    for (const OpDesc& op : ops) {
      kinds.insert(op.kind);
      epilogues.insert(op.epilogue);
    }
    EXPECT_EQ(epilogues.size(), static_cast<std::size_t>(kEpilogueCount));
    for (int i = 0; i < kOpKindCount; ++i) {
      const auto kind = static_cast<OpKind>(i);
      EXPECT_TRUE(kinds.contains(kind)) << Name(kind);
    }
    test::RunThreads(4, [&, rendezvous = std::make_shared<std::vector<std::unique_ptr<Rendezvous>>>(
                                CreateLocalRendezvous(4))](int rank) {
      Backend backend = CreateBackend(EngineDevice::kCpu, *(*rendezvous)[rank]);
      ExpectTimes(TimeOps(ops, {.budget_s = 0}, rank, 4, backend), ops);
    });
  }
}

// A CPU device whose clock reports `sample_s` for every sample, and counts the samples.
class ClockedDevice final : public Device {
 public:
  explicit ClockedDevice(double sample_s, bool on_host = true) : sample_s_(sample_s), on_host_(on_host) {}

  std::string Name() const override { return cpu_->Name(); }
  bool ComputesOnHost() const override { return on_host_; }
  bool ComputesIn(DType type) const override { return cpu_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* data, std::int64_t bytes) noexcept override { cpu_->Free(data, bytes); }
  std::unique_ptr<Stream> CreateStream() override { return cpu_->CreateStream(); }
  std::unique_ptr<StreamTimer> CreateTimer() override { return std::make_unique<Timer>(*this); }
  void CopyFromHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyFromHost(to, from, bytes, stream);
  }
  void CopyToHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyToHost(to, from, bytes, stream);
  }
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return cpu_->OverheadBytes(arena_bytes);
  }

  int samples() const { return samples_; }

 private:
  class Timer final : public StreamTimer {
   public:
    explicit Timer(ClockedDevice& device) : device_(device) {}
    void Start(Stream&) override {}
    void Stop(Stream&) override { ++device_.samples_; }
    double Seconds() override { return device_.sample_s_; }

   private:
    ClockedDevice& device_;
  };

  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
  const double sample_s_;
  const bool on_host_;
  int samples_ = 0;
};

// The result of timing `ops` on a device where every sample takes a fixed time: the samples of each op and
// the seconds of one execution.
struct Spent {
  int samples = 0;
  double seconds = 0;
};

Spent SamplesOfEach(std::size_t ops, double sample_s, double budget_s) {
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
  auto device = std::make_unique<ClockedDevice>(sample_s);
  const ClockedDevice& clocked = *device;
  backend.device = std::move(device);
  const std::vector<OpDesc> fills(ops, {.kind = OpKind::kFill, .dtype = DType::kF32, .dims = {8}});
  const std::vector<OpTime> times = TimeOps(fills, {.budget_s = budget_s}, 0, 1, backend);
  EXPECT_EQ(clocked.samples() % static_cast<int>(ops), 0);
  for (const OpTime& timed : times) EXPECT_EQ(timed.seconds, times[0].seconds);
  return {clocked.samples() / static_cast<int>(ops), times[0].seconds};
}

// One sample measures the time of a run. The number of further samples follows from the op's share of the
// budget, from 5 to 200.
TEST(Calibrate, DividesBudgetAmongOps) {
  EXPECT_EQ(SamplesOfEach(1, 0.99e-3, 0).samples, 1 + 5) << "no budget";
  EXPECT_EQ(SamplesOfEach(4, 0.99e-3, 0).samples, 1 + 5);
  EXPECT_EQ(SamplesOfEach(1, 0.99e-3, 0.05).samples, 1 + 50);
  EXPECT_EQ(SamplesOfEach(4, 0.99e-3, 0.05).samples, 1 + 12);
  EXPECT_EQ(SamplesOfEach(4, 0.99e-3, 0.5).samples, 1 + 126);
  EXPECT_EQ(SamplesOfEach(4, 0.99e-3, 50).samples, 1 + 200);
  EXPECT_EQ(SamplesOfEach(1, 0.99e-3, 0.05).seconds, 0.99e-3);
}

// Long samples differ little, so that few of them are enough.
TEST(Calibrate, RepeatsLongOpsLess) {
  EXPECT_EQ(SamplesOfEach(1, 0.06, 0).samples, 1 + 4);
  EXPECT_EQ(SamplesOfEach(1, 0.3, 0).samples, 1 + 1);
  EXPECT_EQ(SamplesOfEach(1, 0.3, 0.95).samples, 1 + 3) << "a budget repeats them too";
}

// The limit is over at once: what remains are the ops that the others are estimated from.
TEST(Calibrate, LeavesOutOpsOnceItsLimitIsOver) {
  std::vector<OpDesc> ops;
  for (const std::int64_t size : {1000, 2000, 3000, 4000})
    ops.push_back({.kind = OpKind::kFill, .dtype = DType::kF32, .dims = {size}});
  for (const std::int64_t size : {8, 16, 24})
    ops.push_back({.kind = OpKind::kMatmul, .dtype = DType::kF32, .dims = {size, size, size}});
  for (const std::int64_t size : {100, 200}) {
    ops.push_back({.kind = OpKind::kAllReduceSum,
                   .dtype = DType::kF32,
                   .group = CommGroup::kTensor,
                   .group_size = 2,
                   .dims = {size}});
  }
  auto rendezvous = CreateLocalRendezvous(2);
  test::RunThreads(2, [&](int rank) {
    Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[rank]);
    std::vector<std::int64_t> passed;
    std::vector<OpTime> timed;
    TimingOptions options{.limit_s = 1e-9};
    options.watch = [&](const TimingProgress& progress) {
      passed.push_back(progress.passed);
      EXPECT_EQ(progress.all, 9);
      EXPECT_EQ(progress.left_s, 0);
      if (progress.timed) timed.push_back(*progress.timed);
    };
    ExpectTimes(TimeOps(ops, options, rank, 2, backend), {ops[0], ops[4], ops[7]});
    ExpectTimes(timed, {ops[0], ops[4], ops[7]});
    EXPECT_THAT(passed, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
    ExpectTimes(TimeOps(ops, {.limit_s = 1000}, rank, 2, backend), ops);
  });
}

// The host's time to issue an op is measured beside the device's own, which here is none of the host's.
TEST(Calibrate, TimesWhatTheHostTakesToIssue) {
  const std::vector<OpDesc> fills = {{.kind = OpKind::kFill, .dtype = DType::kF32, .dims = {1 << 14}}};
  const auto time = [&](bool on_host) {
    auto rendezvous = CreateLocalRendezvous(1);
    Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
    backend.device = std::make_unique<ClockedDevice>(1e-9, on_host);
    return TimeOps(fills, {.budget_s = 0}, 0, 1, backend).front();
  };
  EXPECT_EQ(time(true).host_s, 0) << "the host runs it";
  const OpTime issued = time(false);
  EXPECT_DOUBLE_EQ(issued.seconds, 1e-9 / 256);
  EXPECT_GT(issued.host_s, issued.seconds) << "a fill of 64 KiB is no matter of picoseconds";
  EXPECT_LT(issued.host_s, 10);
}

// A sample of a short op consists of several runs, 50 us in total; a very short op runs 256 times.
TEST(Calibrate, RepeatsShortOpsWithinASample) {
  const Spent three = SamplesOfEach(1, 20e-6, 6.03e-3);
  EXPECT_EQ(three.samples, 1 + 100);
  EXPECT_DOUBLE_EQ(three.seconds, 20e-6 / 3);
  EXPECT_DOUBLE_EQ(SamplesOfEach(1, 1e-9, 0).seconds, 1e-9 / 256);
}

TEST(Calibrate, TimesComputeOnOneRank) {
  TrainConfig c = test::SmallConfig();
  const std::vector<OpDesc> ops = OpsOf(c);
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
  ExpectTimes(TimeOps(ops, {.budget_s = 0.05}, 0, 1, backend), ops);
}

// Groups that do not divide the world leave some ranks over. These must not block the others.
TEST(Calibrate, SupportsGroupsThatDoNotDivideTheWorld) {
  std::vector<OpDesc> ops;
  for (const OpKind kind : {OpKind::kAllReduceSum, OpKind::kSend}) {
    OpDesc op;
    op.kind = kind;
    op.group = kind == OpKind::kSend ? CommGroup::kPipeline : CommGroup::kTensor;
    op.group_size = 2;
    op.dims = {1000, 0, 0, 0};
    ops.push_back(op);
  }
  auto rendezvous = CreateLocalRendezvous(3);
  test::RunThreads(3, [&](int rank) {
    Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[rank]);
    const auto times = TimeOps(ops, {.budget_s = 0}, rank, 3, backend);
    if (rank == 0) ExpectTimes(times, ops);
  });
}

TEST(Calibrate, RejectsInvalidOps) {
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
  const auto refuses = [&](const OpDesc& op) {
    try {
      TimeOps({op}, {.budget_s = 0}, 0, 1, backend);
    } catch (const BadInput&) {
      return true;
    }
    return false;
  };
  OpDesc op;
  op.dims = {2, 2, 2, 0};
  EXPECT_FALSE(refuses(op));
  op.dims = {2, 0, 2, 0};
  EXPECT_TRUE(refuses(op)) << "a size of zero";
  op.dims = {2, -1, 2, 0};
  EXPECT_TRUE(refuses(op)) << "a negative size";
  op.kind = OpKind::kAllReduceSum;
  op.dims = {2, 0, 0, 0};
  EXPECT_TRUE(refuses(op)) << "communication without a group";
  op.group = CommGroup::kTensor;
  op.group_size = 2;
  EXPECT_TRUE(refuses(op)) << "a group larger than the world";
  OpDesc attention;
  attention.kind = OpKind::kAttentionForward;
  attention.dims = {1, 4, 6, 8, 4};
  EXPECT_TRUE(refuses(attention)) << "key-value heads that do not divide the heads";
  OpDesc rope;
  rope.kind = OpKind::kRope;
  rope.dims = {4, 2, 4, 3};
  EXPECT_TRUE(refuses(rope)) << "an odd number of rotated dims";
  OpDesc form;
  form.dims = {2, 2, 2};
  form.epilogue = Epilogue::kBiasGradient;
  EXPECT_TRUE(refuses(form)) << "an epilogue of another form of the product";
  SetEpilogue(form, Epilogue::kActivation);
  EXPECT_FALSE(refuses(form));
  form.activation = Activation::kSwiGlu;
  EXPECT_TRUE(refuses(form)) << "a gate in an epilogue";
  OpDesc plain;
  plain.kind = OpKind::kActivationForward;
  plain.dims = {2, 2};
  EXPECT_FALSE(refuses(plain)) << "an activation that is computed again from the stored product";
  plain.kind = OpKind::kActivationBackward;
  EXPECT_TRUE(refuses(plain)) << "the gradient of an activation by itself that is not gated";
  OpDesc half;
  half.dims = {2, 2, 2};
  half.dtype = DType::kBF16;
  EXPECT_TRUE(refuses(half)) << "a type that the device does not run";
  OpDesc master;
  master.kind = OpKind::kAdamW;
  master.dims = {8};
  master.moments = master.master = DType::kF32;
  EXPECT_TRUE(refuses(master)) << "a master copy, which the cpu device does not keep";
  Backend dry = CreateDryBackend(0, 1);
  EXPECT_THROW(TimeOps({}, {.budget_s = 0}, 0, 1, dry), BadInput);
}

// A device other than the host whose communicators use device memory too, as NCCL's do.
class CountingDevice final : public Device {
 public:
  static constexpr std::int64_t kContextBytes = 1000;

  std::string Name() const override { return "counting"; }
  bool ComputesOnHost() const override { return false; }
  bool ComputesIn(DType type) const override { return cpu_->ComputesIn(type); }
  void* Allocate(std::int64_t bytes) override {
    taken += bytes;
    return cpu_->Allocate(bytes);
  }
  void Free(void* data, std::int64_t bytes) noexcept override {
    taken -= bytes;
    cpu_->Free(data, bytes);
  }
  std::unique_ptr<Stream> CreateStream() override { return cpu_->CreateStream(); }
  void CopyFromHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyFromHost(to, from, bytes, stream);
  }
  void CopyToHost(void* to, const void* from, std::int64_t bytes, Stream& stream) override {
    cpu_->CopyToHost(to, from, bytes, stream);
  }
  std::int64_t OverheadBytes(std::int64_t arena_bytes) const override {
    return kContextBytes + taken - arena_bytes;
  }

  std::int64_t taken = 0;

 private:
  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
};

class CountingWorld final : public CommWorld {
 public:
  CountingWorld(std::unique_ptr<CommWorld> inner, CountingDevice& device)
      : inner_(std::move(inner)), device_(device) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    ++created[{name, static_cast<std::int64_t>(ranks.size())}];
    const std::int64_t bytes = name == CommGroup::kWorld      ? 20
                               : name == CommGroup::kPipeline ? 70
                                                              : 250 * static_cast<std::int64_t>(ranks.size());
    return std::make_unique<Counted>(inner_->CreateGroup(name, ranks, staging), device_, bytes);
  }

  std::map<std::pair<CommGroup, std::int64_t>, int> created;  // by name and size

 private:
  class Counted final : public Communicator {
   public:
    Counted(std::unique_ptr<Communicator> inner, CountingDevice& device, std::int64_t bytes)
        : inner_(std::move(inner)), device_(device), bytes_(bytes) {
      device_.taken += bytes_;
    }
    ~Counted() override { device_.taken -= bytes_; }
    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    std::unique_ptr<Work> Run(const CollectiveCall& call, Stream& stream) override {
      return inner_->Run(call, stream);
    }
    void Barrier() override { inner_->Barrier(); }

   private:
    const std::unique_ptr<Communicator> inner_;
    CountingDevice& device_;
    const std::int64_t bytes_;
  };

  const std::unique_ptr<CommWorld> inner_;
  CountingDevice& device_;
};

// A run's communicators use device memory at the same time. A calibration creates each one once, one after
// the other.
TEST(Calibrate, OverheadIncludesCommunicatorsOfARun) {
  v1::CalibrateSpec spec;
  const auto add = [&](OpKind kind, CommGroup group, std::int64_t size) {
    OpDesc op{.kind = kind};
    op.group = group;
    op.group_size = size;
    op.dims = {100};
    *spec.add_ops() = ToProto(op);
  };
  for (const std::int64_t size : {2, 4, 2}) add(OpKind::kAllReduceSum, CommGroup::kTensor, size);
  add(OpKind::kAllReduceSum, CommGroup::kData, 2);
  add(OpKind::kAllReduceMax, CommGroup::kWorld, 4);
  add(OpKind::kSend, CommGroup::kPipeline, 2);
  add(OpKind::kFill, CommGroup::kNone, 1);
  add(OpKind::kRecv, CommGroup::kPipeline, 4);  // messages are between neighbours, whatever the group
  auto rendezvous = CreateLocalRendezvous(4);
  test::RunThreads(4, [&](int rank) {
    Backend backend;
    auto device = std::make_unique<CountingDevice>();
    auto world =
        std::make_unique<CountingWorld>(CreateUcxWorld(*rendezvous[static_cast<std::size_t>(rank)]), *device);
    const CountingWorld& groups = *world;
    backend.comm = std::move(world);
    backend.device = std::move(device);
    backend.ops = CreateCpuOps();
    backend.kept_back_bytes = 400;
    EXPECT_EQ(Calibrate(spec, rank, 4, backend).device_overhead_bytes(),
              1000 + 400 + 20 + 4 * 250 + 2 * 250 + 2 * 70);
    using Group = std::pair<CommGroup, std::int64_t>;
    EXPECT_THAT(
        groups.created,
        UnorderedElementsAre(Pair(Group(CommGroup::kTensor, 2), 1), Pair(Group(CommGroup::kTensor, 4), 1),
                             Pair(Group(CommGroup::kData, 2), 1), Pair(Group(CommGroup::kPipeline, 2), 1),
                             Pair(Group(CommGroup::kWorld, 4), 2)))
        << "one communicator for all ops of a group; the timer also creates the world's";
  });
}

}  // namespace
}  // namespace autocfg::trainer
