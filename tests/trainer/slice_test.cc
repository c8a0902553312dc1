// Tests one rank of a plan alone, without its peers. Its results are meaningless, but they must be finite,
// take time, and use the bytes that the rank uses among its peers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "tests/trainer/model_styles.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/layout/errors.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

using test::RunThreads;
using test::SmallConfig;

TrainConfig SliceConfig(const ModelSpec& model, const ParallelPlan& plan) {
  TrainConfig c = SmallConfig();
  c.model = model;
  test::SetLayers(c.model, 4);
  c.workload.seq_len = std::min(c.workload.seq_len, model.max_seq_len);
  c.plan = plan;
  c.lr.steps = 3;
  c.slice = SliceCoordinates{};
  return c;
}

void ExpectFinite(const Tensor& tensor, const std::string& what) {
  if (tensor.Elements() == 0 || tensor.data == nullptr) return;
  for (const double value : test::ToDoubles(tensor)) ASSERT_TRUE(std::isfinite(value)) << what;
}

// Returns the bytes that the rank reserves on the dry device, where all ranks of the plan exist by their
// sizes.
std::int64_t PlannedBytes(TrainConfig c, std::int64_t rank) {
  c.slice.reset();
  Backend backend = CreateDryBackend(static_cast<int>(rank), static_cast<int>(RankCount(c.plan)));
  return RankTrainer(c, rank, RankCount(c.plan), backend).arena().TotalBytes();
}

void ExpectASoundSlice(const TrainConfig& c) {
  const std::int64_t rank = RankOfSlice(c);
  SCOPED_TRACE(::testing::Message() << c.model.name << " tp=" << c.plan.tp << " pp=" << c.plan.pp
                                    << " dp=" << c.plan.dp << " vpp=" << c.plan.virtual_stages << " slice "
                                    << c.slice->tensor << "," << c.slice->pipeline);
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = CreateTrainBackend(EngineDevice::kCpu, *rendezvous[0], c);
  RankTrainer trainer(c, rank, RankCount(c.plan), backend);
  for (std::int64_t step = 0; step < c.lr.steps; ++step) {
    const StepResult result = trainer.Step();
    ASSERT_TRUE(std::isfinite(result.loss)) << "loss of step " << step;
    ASSERT_TRUE(std::isfinite(result.grad_norm)) << "gradient norm of step " << step;
    for (std::size_t i = 0; i < trainer.layout().parameters().size(); ++i) {
      const std::string& name = trainer.layout().parameters()[i].name;
      const ParameterTensors& p = trainer.layout().parameter_tensors()[i];
      ASSERT_NO_FATAL_FAILURE(ExpectFinite(p.value, name));
      ASSERT_NO_FATAL_FAILURE(ExpectFinite(p.grad, "gradient of " + name));
      ASSERT_NO_FATAL_FAILURE(ExpectFinite(p.m, "m of " + name));
      ASSERT_NO_FATAL_FAILURE(ExpectFinite(p.v, "v of " + name));
    }
  }
  EXPECT_EQ(trainer.arena().TotalBytes(), PlannedBytes(c, rank));
  EXPECT_EQ(trainer.PeakBytes(), trainer.arena().TotalBytes());
}

// Every rank at data coordinate 0, for plans that place it first, in the middle and last, at each tensor
// coordinate.
TEST(Slice, ValuesStayFiniteOnEveryKindOfRank) {
  const std::vector<ParallelPlan> plans = {
      {{.tp = 2, .pp = 4, .dp = 2}, {}, {.schedule = Schedule::kGPipe}},
      {{.tp = 1, .pp = 2, .dp = 4}, {.recompute = Recompute::kFull}},
      {{.tp = 2, .pp = 4, .dp = 1}, {}, {.schedule = Schedule::kZeroBubbleH1}},
      {{.tp = 2, .pp = 2, .dp = 1}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}},
      {{.tp = 2, .pp = 1, .dp = 2}},
  };
  for (const ModelSpec& model : test::ModelStyles()) {
    for (const ParallelPlan& plan : plans) {
      TrainConfig c = SliceConfig(model, plan);
      for (c.slice->pipeline = 0; c.slice->pipeline < plan.pp; ++c.slice->pipeline) {
        for (c.slice->tensor = 0; c.slice->tensor < plan.tp; ++c.slice->tensor) {
          ASSERT_NO_FATAL_FAILURE(ExpectASoundSlice(c));
        }
      }
    }
  }
}

// A rank whose part of the vocabulary is only padding has no column to take a maximum over, and no peer that
// has one.
TEST(Slice, ValuesStayFiniteIfTheVocabularyIsOnlyPadding) {
  for (ModelSpec model : test::ModelStyles()) {
    model.vocab = 2;
    for (const std::int64_t pp : {1, 2}) {
      TrainConfig c = SliceConfig(model, {{.tp = 2, .pp = pp}});
      c.slice = SliceCoordinates{.tensor = 1, .pipeline = pp - 1};
      ASSERT_NO_FATAL_FAILURE(ExpectASoundSlice(c));
    }
  }
}

TEST(Slice, CopiesRunTogetherAndAreMarkedAsSlices) {
  TrainConfig c = SliceConfig(test::ModelStyles().front(), {{.tp = 2, .pp = 2, .dp = 2}});
  c.slice = SliceCoordinates{.tensor = 1, .pipeline = 1};
  c.untimed_steps = 1;
  c.trace = true;
  c.program_fingerprint = Fingerprint(Lower(c));
  // as many copies as fit on the machine: independent of the plan's number of ranks
  auto rendezvous = CreateLocalRendezvous(3);
  RunThreads(3, [&](int copy) {
    Backend backend = CreateTrainBackend(EngineDevice::kCpu, *rendezvous[static_cast<std::size_t>(copy)], c);
    std::int64_t reports = 0;
    const v1::TrainResult result = Train(c, copy, 3, backend, [&](const v1::Progress& p) {
      EXPECT_EQ(p.loss(), 0);
      EXPECT_GT(p.step_time_s(), 0);
      ++reports;
    });
    EXPECT_EQ(reports, copy == 0 ? 3 : 0);
    EXPECT_EQ(result.losses_size() + result.grad_norms_size(), 0) << "a slice reports no losses";
    ASSERT_EQ(result.step_time_s_size(), 2);
    EXPECT_GT(result.step_time_s(0), 0);
    EXPECT_EQ(result.slice().tensor(), 1);
    EXPECT_EQ(result.slice().pipeline(), 1);
    EXPECT_EQ(result.planned_memory_bytes().total(), PlannedBytes(c, RankOfSlice(c)));
    ASSERT_GT(result.trace_size(), 0);
    EXPECT_EQ(result.trace(0).rank(), RankOfSlice(c));
  });
}

TEST(Slice, RunsWithoutASliceAreNotMarked) {
  TrainConfig c = SliceConfig(test::ModelStyles().front(), {});
  c.slice.reset();
  Backend backend = CreateDryBackend(0, 1);
  EXPECT_FALSE(Train(c, 0, 1, backend, {}).has_slice());
}

TEST(Slice, RunsOnDevicesThatComputeNothing) {
  TrainConfig c = SliceConfig(test::ModelStyles().front(), {{.tp = 2, .pp = 2, .dp = 2}});
  c.slice = SliceCoordinates{.tensor = 0, .pipeline = 1};
  auto rendezvous = CreateLocalRendezvous(1);
  Backend dry = CreateTrainBackend(EngineDevice::kDry, *rendezvous[0], c);
  EXPECT_EQ(Train(c, 0, 1, dry, {}).step_time_s_size(), 0);
  double step_s = 0;
  for (const OpDesc& op : dry.log->ops()) {  // of the last step; 1 s each
    c.op_times[op] = 1;
    step_s += op.kind != OpKind::kSend;
  }
  Backend paced = CreateTrainBackend(EngineDevice::kPaced, *rendezvous[0], c);
  const v1::TrainResult result = Train(c, 0, 1, paced, {});
  ASSERT_EQ(result.step_time_s_size(), 3);
  EXPECT_TRUE(result.has_slice());
  // Receives delay the computes that need them or run ahead of them; sends run concurrently.
  EXPECT_LE(result.step_time_s(0), step_s);
  EXPECT_GT(result.step_time_s(0), 0.5 * step_s);
}

std::string Refusal(const TrainConfig& c) {
  try {
    CheckTrainConfig(c, 1);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(Slice, RejectsCoordinatesOutsideThePlanAndSaving) {
  TrainConfig c = SliceConfig(test::ModelStyles().front(), {{.tp = 2, .pp = 4}});
  c.slice = SliceCoordinates{.tensor = 1, .pipeline = 3};
  EXPECT_EQ(Refusal(c), "");
  EXPECT_EQ(RankOfSlice(c), 7);
  c.slice->tensor = 2;
  EXPECT_EQ(Refusal(c), "slice: tensor 2 is outside 0 to 1 of the plan");
  c.slice = SliceCoordinates{.tensor = 0, .pipeline = -1};
  EXPECT_EQ(Refusal(c), "slice: pipeline -1 is outside 0 to 3 of the plan");
  c.slice = SliceCoordinates{};
  c.save_path = "x.safetensors";
  EXPECT_EQ(Refusal(c), "a slice has no whole model to save; leave out --save or --slice");
}

}  // namespace
}  // namespace autocfg::trainer
