// Round trips of each struct through its message, and rejection of invalid messages.
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "proto/convert/trainer_convert.h"

namespace autocfg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Message>
std::string Refusal(const Message& message) {
  const auto result = FromProto(message);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << message.ShortDebugString();
  return std::string(result.status().message());
}

// Serializes and parses, so that tests compare what another process would receive.
template <typename Message>
Message Wire(const Message& message) {
  Message received;
  EXPECT_TRUE(received.ParseFromString(message.SerializeAsString()));
  return received;
}

ModelSpec SomeModel() {
  ModelSpec model;
  model.name = std::string("some model");
  model.layers = 3;
  model.hidden = 96;
  model.heads = 6;
  model.kv_heads = 2;
  model.head_dim = 32;
  model.ffn_hidden = 200;
  model.vocab = 1000;
  model.max_seq_len = 77;
  model.activation = Activation::kGeGlu;
  model.norm = Norm::kRmsNorm;
  model.norm_eps = 1e-6;
  model.position = Position::kRope;
  model.rope_theta = 5e5;
  model.rope_scaling = "llama3";
  model.init_std = 0.01;
  model.vocab_multiple = 64;
  model.bias = false;
  model.tied_embeddings = false;
  return model;
}

TEST(ModelConvert, RoundTrips) {
  const auto back = FromProto(Wire(ToProto(SomeModel())));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, SomeModel());
}

TEST(ModelConvert, UnsetFieldsGetDefaults) {
  v1::ModelSpec message;
  message.set_layers(2);
  message.set_hidden(64);
  message.set_heads(4);
  message.set_vocab(100);
  const auto model = FromProto(message);
  ASSERT_TRUE(model.ok()) << model.status();
  ModelSpec expected;
  expected.layers = 2;
  expected.hidden = 64;
  expected.heads = 4;
  expected.vocab = 100;
  EXPECT_EQ(*model, expected);
}

TEST(ModelConvert, RejectsInvalidMessages) {
  const v1::ModelSpec good = ToProto(SomeModel());
  v1::ModelSpec bad = good;
  bad.set_layers(0);
  EXPECT_THAT(Refusal(bad), HasSubstr("layers is 0"));
  bad = good;
  bad.set_hidden(std::numeric_limits<std::int64_t>::min());
  EXPECT_THAT(Refusal(bad), HasSubstr("hidden is -9223372036854775808"));
  bad = good;
  bad.set_hidden(std::numeric_limits<std::int64_t>::max());
  bad.clear_head_dim();
  bad.clear_ffn_hidden();
  EXPECT_THAT(Refusal(bad), HasSubstr("hidden"));
  bad = good;
  bad.set_activation("tanh");
  EXPECT_THAT(Refusal(bad), HasSubstr("activation 'tanh'"));
  bad = good;
  bad.set_norm("batch");
  EXPECT_THAT(Refusal(bad), HasSubstr("norm 'batch'"));
  bad = good;
  bad.set_position("sin");
  EXPECT_THAT(Refusal(bad), HasSubstr("position 'sin'"));
  bad = good;
  bad.set_norm_eps(std::nan(""));
  EXPECT_THAT(Refusal(bad), HasSubstr("norm_eps"));
  EXPECT_THAT(Refusal(v1::ModelSpec()), HasSubstr("layers is 0"));
}

TEST(PlanConvert, RoundTrips) {
  std::mt19937_64 random(3);
  const auto pick = [&random](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  for (int i = 0; i < 500; ++i) {
    ParallelPlan plan;
    plan.tp = 1 + pick(8);
    plan.pp = 1 + pick(8);
    plan.dp = 1 + pick(8);
    plan.micro_batch = 1 + pick(8);
    plan.virtual_stages = 1 + pick(3);
    plan.schedule = static_cast<Schedule>(pick(4));
    plan.split = static_cast<SplitMode>(pick(3));
    if (plan.split == SplitMode::kExplicit) plan.split_layers = {1 + pick(5), 1 + pick(5)};
    plan.recompute = static_cast<Recompute>(pick(3));
    if (plan.recompute == Recompute::kFull) plan.recompute_layers = pick(4);
    plan.attention = static_cast<Attention>(pick(2));
    plan.sequence_parallel = pick(2) == 1;
    plan.zero_stage = pick(3);
    plan.tp_overlap = std::int64_t{1} << pick(4);
    plan.grad_overlap = pick(2) == 1;
    plan.param_overlap = pick(2) == 1;
    plan.p2p_overlap = pick(2) == 1;
    plan.scatter_gather = pick(2) == 1;
    const auto back = FromProto(Wire(ToProto(plan)));
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(*back, plan);
  }
}

TEST(PlanConvert, UnsetFieldsGetDefaults) {
  EXPECT_EQ(*FromProto(v1::ParallelPlan()), ParallelPlan());
  v1::ParallelPlan message;
  message.set_virtual_stages(2);
  EXPECT_EQ(FromProto(message)->schedule, Schedule::kInterleaved);
}

TEST(PlanConvert, RejectsInvalidMessages) {
  v1::ParallelPlan bad;
  bad.set_tp(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("tp=-1 is not valid"));
  bad.Clear();
  bad.set_dp(std::int64_t{1} << 31);
  EXPECT_THAT(Refusal(bad), HasSubstr("dp=2147483648 is not valid"));
  bad.Clear();
  bad.set_schedule("2f2b");
  EXPECT_THAT(Refusal(bad), HasSubstr("schedule=2f2b"));
  bad.Clear();
  bad.set_split("4+");
  EXPECT_THAT(Refusal(bad), HasSubstr("split=4+"));
  bad.Clear();
  bad.set_recompute("some");
  EXPECT_THAT(Refusal(bad), HasSubstr("recompute=some"));
  bad.Clear();
  bad.set_zero_stage(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("zero=-1"));
  bad.Clear();
  bad.set_tp_overlap(3);
  EXPECT_THAT(Refusal(bad), HasSubstr("tp_overlap=3"));
}

ClusterSpec SomeCluster() {
  NodeGroup group;
  group.device = {.name = "d",
                  .kind = DeviceKind::kCuda,
                  .memory_bytes = 1 << 20,
                  .memory_bytes_per_s = 2e9,
                  .flops_per_s_fp64 = 3e12,
                  .flops_per_s_fp32 = 4e12,
                  .flops_per_s_bf16 = 5e12,
                  .flops_per_s_fp16 = 6e12,
                  .multiprocessors = 14,
                  .overhead_bytes = 15,
                  .efficiency = {.matmul = 0.1,
                                 .matmul_k_half = 16,
                                 .attention_forward = 1.2,
                                 .attention_backward = 0.3,
                                 .memory = 0.4,
                                 .intra_node = 0.5,
                                 .inter_node = 0.6,
                                 .op_overhead_s = 0.7}};
  group.nodes = 7;
  group.gpus_per_node = 8;
  group.intra_node_bytes_per_s = 9e9;
  group.inter_node_bytes_per_s = 10e9;
  group.intra_node_latency_s = 0.11;
  group.inter_node_latency_s = 0.12;
  group.ranks_per_core = 6;
  group.host_op_s = 0.13;
  NodeGroup other = group;
  other.device.kind = DeviceKind::kCpu;
  other.device.flops_per_s_bf16 = 0;
  other.device.efficiency.op_overhead_s = 0;  // zero overhead differs from unknown overhead
  other.device.overhead_bytes = 0;
  other.intra_node_latency_s = 0;
  other.inter_node_latency_s.reset();
  other.host_op_s = 0;
  NodeGroup unknown = group;
  unknown.device.overhead_bytes.reset();
  unknown.host_op_s.reset();
  return {.name = "c", .local = true, .groups = {group, other, unknown}};
}

TEST(ClusterConvert, RoundTrips) {
  const auto back = FromProto(Wire(ToProto(SomeCluster())));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, SomeCluster());
}

TEST(ClusterConvert, RanksPerCore) {
  v1::ClusterSpec message = ToProto(SomeCluster());
  message.mutable_groups(0)->set_ranks_per_core(0);
  const auto not_given = FromProto(message);
  ASSERT_TRUE(not_given.ok()) << not_given.status();
  EXPECT_EQ(not_given->groups[0].ranks_per_core, 1);
  message.mutable_groups(0)->set_ranks_per_core(0.5);
  EXPECT_THAT(Refusal(message), HasSubstr("ranks_per_core is 0.5; it must be from 1"));
  message.mutable_groups(0)->set_ranks_per_core(2);
  message.set_local(false);
  EXPECT_THAT(Refusal(message),
              HasSubstr("node group 0: ranks_per_core is 2, but each rank of a described cluster"));
}

TEST(ClusterConvert, RejectsInvalidMessages) {
  const v1::ClusterSpec good = ToProto(SomeCluster());
  EXPECT_THAT(Refusal(v1::ClusterSpec()), HasSubstr("no node groups"));
  v1::ClusterSpec bad = good;
  bad.mutable_groups(1)->set_nodes(0);
  EXPECT_THAT(Refusal(bad), HasSubstr("node group 1: nodes is 0"));
  bad = good;
  bad.mutable_groups(0)->mutable_device()->set_kind("tpu");
  EXPECT_THAT(Refusal(bad), HasSubstr("device kind 'tpu'"));
  bad = good;
  (*bad.mutable_groups(0)->mutable_device()->mutable_flops_per_s())["int8"] = 1;
  EXPECT_THAT(Refusal(bad), HasSubstr("flops_per_s: unknown precision 'int8'"));
  bad = good;
  bad.mutable_groups(0)->set_intra_node_latency_s(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("intra_node_latency_s is -1"));
  for (const double wrong : {-1e-6, std::nan(""), HUGE_VAL}) {
    bad = good;
    bad.mutable_groups(2)->set_host_op_s(wrong);
    EXPECT_THAT(Refusal(bad), HasSubstr("node group 2: host_op_s is"));
    EXPECT_THAT(Refusal(bad), HasSubstr("it must be a finite number, not negative"));
  }
  bad = good;
  bad.mutable_groups(0)->mutable_device()->set_memory_bytes(-5);
  EXPECT_THAT(Refusal(bad), HasSubstr("memory_bytes is -5"));
  bad = good;
  bad.mutable_groups(1)->mutable_device()->mutable_efficiency()->set_memory(1.01);
  EXPECT_THAT(Refusal(bad), HasSubstr("node group 1: efficiency.memory is 1.01; at most 1"));
  bad = good;
  bad.mutable_groups(0)->mutable_device()->set_overhead_bytes(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("overhead_bytes is -1"));
  bad = good;
  bad.mutable_groups(0)->mutable_device()->set_multiprocessors(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("multiprocessors is -1"));
}

TEST(WorkloadConvert, RoundTripsAndRejectsInvalidMessages) {
  for (const char* precision : {"fp64", "fp32", "bf16", "fp16"}) {
    const Workload workload{16, 64, *ParsePrecision(precision)};
    const auto back = FromProto(Wire(ToProto(workload)));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, workload);
  }
  v1::Workload bad = ToProto(Workload{16, 64, {}});
  bad.set_precision("fp8");
  EXPECT_THAT(Refusal(bad), HasSubstr("unknown precision 'fp8'; expected fp64, fp32, bf16 or fp16"));
  bad = ToProto(Workload{0, 64, {}});
  EXPECT_THAT(Refusal(bad), HasSubstr("global_batch is 0"));
  bad = ToProto(Workload{16, -1, {}});
  EXPECT_THAT(Refusal(bad), HasSubstr("seq_len is -1"));
}

TEST(OpConvert, RoundTrips) {
  for (int k = 0; k < kOpKindCount; ++k) {
    OpDesc op;
    op.kind = static_cast<OpKind>(k);
    op.dtype = DType::kF64;
    if (op.kind == OpKind::kMatmul) op.transpose_b = op.accumulate = true;
    if (HasActivation(op)) op.activation = Activation::kGeGlu;
    if (IsCommunication(op.kind)) {
      op.group = CommGroup::kData;
      op.group_size = 4;
    }
    for (int i = 0; i < DimCount(op.kind); ++i) op.dims[static_cast<std::size_t>(i)] = i + 2;
    const auto back = FromProto(Wire(ToProto(OpTime{op, 0.25})));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->op, op);
    EXPECT_EQ(back->seconds, 0.25);
  }
}

// These ops set each field of the message. A new field needs an op that sets it.
TEST(OpConvert, EveryFieldRoundTrips) {
  OpDesc product{.dims = {2, 3, 4}};
  SetEpilogue(product, Epilogue::kBiasGradient);
  OpDesc derivative{.activation = Activation::kRelu, .dims = {2, 3, 4}};
  SetEpilogue(derivative, Epilogue::kActivationGradient);
  const std::vector<OpDesc> ops = {
      product,
      derivative,
      {.kind = OpKind::kActivationForward, .bias = true, .activation = Activation::kGeGlu, .dims = {2, 3}},
      {.kind = OpKind::kAdamW, .dtype = DType::kBF16, .master_weights = true, .dims = {2}},
      {.kind = OpKind::kSend, .group = CommGroup::kPipeline, .group_size = 4, .dims = {2}}};
  std::set<std::string> set;
  for (const OpDesc& op : ops) {
    const v1::OpDesc message = Wire(ToProto(op));
    EXPECT_EQ(*FromProto(message), op) << ToString(op);
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const auto* field : fields) set.insert(field->name());
  }
  const auto* fields = v1::OpDesc::descriptor();
  for (int i = 0; i < fields->field_count(); ++i)
    EXPECT_TRUE(set.contains(fields->field(i)->name())) << fields->field(i)->name();
}

TEST(OpConvert, RoundTripsEpilogues) {
  for (int e = 0; e < kEpilogueCount; ++e) {
    for (bool bias : {false, true}) {
      OpDesc op{.kind = OpKind::kMatmul, .dims = {2, 3, 4}};
      SetEpilogue(op, static_cast<Epilogue>(e));
      if (HasActivation(op)) op.activation = Activation::kRelu;
      op.bias = bias && TakesBias(op);
      const auto back = FromProto(Wire(ToProto(op)));
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, op);
    }
  }
  // An empty epilogue comes from older messages; "none" states it by name.
  v1::OpDesc message = ToProto(OpDesc{.dims = {2, 3, 4}});
  EXPECT_EQ(message.epilogue(), "");
  message.set_epilogue("none");
  EXPECT_EQ(FromProto(message)->epilogue, Epilogue::kNone);
}

TEST(OpConvert, RejectsInvalidEpilogues) {
  OpDesc op{.dims = {2, 3, 4}};
  SetEpilogue(op, Epilogue::kActivation);
  const v1::OpDesc good = ToProto(op);
  v1::OpDesc bad = good;
  bad.set_epilogue("softmax");
  EXPECT_THAT(Refusal(bad), HasSubstr("unknown epilogue 'softmax'"));
  bad = good;
  bad.set_transpose_b(true);
  EXPECT_THAT(Refusal(bad), HasSubstr("epilogue is activation"));
  bad = good;
  bad.set_activation("swiglu");
  EXPECT_THAT(Refusal(bad), HasSubstr("activation is swiglu; it must be ungated"));
  bad = good;
  bad.clear_activation();
  EXPECT_THAT(Refusal(bad), HasSubstr("unknown activation ''"));
  bad = good;
  bad.set_epilogue("bias");
  EXPECT_THAT(Refusal(bad), HasSubstr("an activation op if activation is set"));
  bad = good;
  bad.clear_epilogue();
  bad.clear_activation();
  bad.set_bias(true);
  EXPECT_THAT(Refusal(bad), HasSubstr("if bias is set"));
  bad = ToProto(OpDesc{.kind = OpKind::kResidualAdd, .dims = {2, 3}});
  bad.set_epilogue("bias");
  EXPECT_THAT(Refusal(bad), HasSubstr("matmul if epilogue is set"));
  bad =
      ToProto(OpDesc{.kind = OpKind::kActivationForward, .activation = Activation::kSwiGlu, .dims = {2, 3}});
  bad.set_activation("gelu");
  EXPECT_THAT(Refusal(bad), HasSubstr("activation is gelu; it must be gated"));
}

TEST(OpConvert, RejectsInvalidMessages) {
  OpDesc op;
  op.dims = {2, 3, 4, 0};
  const v1::OpDesc good = ToProto(op);
  v1::OpDesc bad = good;
  bad.set_kind("conv");
  EXPECT_THAT(Refusal(bad), HasSubstr("unknown kind 'conv'"));
  bad = good;
  bad.set_dtype("fp8");
  EXPECT_THAT(Refusal(bad), HasSubstr("unknown dtype 'fp8'"));
  bad = good;
  bad.set_group("all");
  EXPECT_THAT(Refusal(bad), HasSubstr("unknown group 'all'"));
  bad = good;
  bad.set_group("data");
  EXPECT_THAT(Refusal(bad), HasSubstr("group is data"));
  bad = good;
  bad.set_group_size(0);
  EXPECT_THAT(Refusal(bad), HasSubstr("group_size is 0"));
  bad = good;
  bad.add_dims(1);
  EXPECT_THAT(Refusal(bad), HasSubstr("dims is a list of 4 sizes; it must be a list of 3 for matmul"));
  bad = good;
  bad.set_dims(1, -3);
  EXPECT_THAT(Refusal(bad), HasSubstr("dims is -3"));
  bad = good;
  bad.set_kind("residual_add");
  bad.mutable_dims()->Truncate(2);
  bad.set_accumulate(true);
  EXPECT_THAT(Refusal(bad), HasSubstr("accumulate"));
  v1::OpTime time;
  *time.mutable_op() = good;
  time.set_seconds(std::nan(""));
  EXPECT_THAT(Refusal(time), HasSubstr("seconds is nan"));
}

TEST(ResultConvert, SampleIsWhatTheSearchNeedsOfAMeasurement) {
  v1::Measurement message;
  message.add_step_time_s(0.5);
  message.add_step_time_s(0.25);
  message.set_median_step_time_s(9);
  message.set_device_s(3);
  EXPECT_THAT(FromProto(message).step_time_s, ElementsAre(0.5, 0.25));
  EXPECT_EQ(FromProto(message).device_s, 3);
  EXPECT_FALSE(FromProto(message).slice);
  message.set_slice(true);
  EXPECT_TRUE(FromProto(message).slice);
}

TEST(ResultConvert, EveryTrialStateHasItsOutcomeOrNone) {
  const std::map<v1::TrialState, std::optional<TrialOutcome>> outcomes = {
      {v1::TRIAL_STATE_UNSPECIFIED, std::nullopt},
      {v1::TRIAL_STATE_QUEUED, std::nullopt},
      {v1::TRIAL_STATE_RUNNING, std::nullopt},
      {v1::TRIAL_STATE_MEASURED, TrialOutcome::kMeasured},
      {v1::TRIAL_STATE_INFEASIBLE, TrialOutcome::kOutOfMemory},
      {v1::TRIAL_STATE_FAILED, TrialOutcome::kFailed},
      {v1::TRIAL_STATE_TIMED_OUT, TrialOutcome::kTimedOut},
      {v1::TRIAL_STATE_CANCELLED, std::nullopt},
      {v1::TRIAL_STATE_LOST, TrialOutcome::kLost}};
  ASSERT_EQ(outcomes.size(), static_cast<std::size_t>(v1::TrialState_descriptor()->value_count()));
  for (const auto& [state, outcome] : outcomes) EXPECT_EQ(FromProto(state), outcome) << state;
  EXPECT_EQ(FromProto(static_cast<v1::TrialState>(77)), std::nullopt) << "of a newer build";
}

TEST(ResultConvert, PredictionRoundTrips) {
  Prediction prediction;
  prediction.feasible = true;
  prediction.reason = std::string("too big");
  prediction.step_time_s = 1;
  prediction.step_time_low_s = 0.5;
  prediction.step_time_high_s = 2;
  prediction.memory = {.parameters = 1,
                       .gradients = 2,
                       .optimizer = 3,
                       .activations = 4,
                       .workspace = 5,
                       .communication = 6,
                       .device_overhead = 7};
  prediction.capacity_bytes = 100;
  prediction.breakdown = {.compute = 1,
                          .recompute = 2,
                          .tp_comm = 3,
                          .pp_comm = 4,
                          .dp_comm = 5,
                          .bubble = 6,
                          .optimizer = 7,
                          .overhead = 8};
  const v1::Prediction message = Wire(ToProto(prediction));
  EXPECT_EQ(message.step_time_s(), 1);
  EXPECT_EQ(message.step_time_low_s(), 0.5);
  EXPECT_EQ(message.step_time_high_s(), 2);
  const v1::MemoryBytes& memory = message.memory_bytes();
  EXPECT_THAT((std::vector<std::int64_t>{memory.parameters(), memory.gradients(), memory.optimizer(),
                                         memory.activations(), memory.workspace(), memory.communication(),
                                         memory.device_overhead(), memory.total(), memory.capacity()}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 28, 100));
  const v1::Breakdown& parts = message.breakdown_s();
  EXPECT_THAT((std::vector<double>{parts.compute(), parts.recompute(), parts.tp_comm(), parts.pp_comm(),
                                   parts.dp_comm(), parts.bubble(), parts.optimizer(), parts.overhead()}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  const Prediction back = FromProto(message);
  EXPECT_EQ(back.feasible, true);
  EXPECT_EQ(back.reason, "too big");
  EXPECT_EQ(back.step_time_s, 1);
  EXPECT_EQ(back.step_time_low_s, 0.5);
  EXPECT_EQ(back.step_time_high_s, 2);
  EXPECT_EQ(back.memory, prediction.memory);
  EXPECT_EQ(back.capacity_bytes, 100);
  const Breakdown& b = back.breakdown;
  EXPECT_THAT((std::vector<double>{b.compute, b.recompute, b.tp_comm, b.pp_comm, b.dp_comm, b.bubble,
                                   b.optimizer, b.overhead}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

// The names of a message's fields, in their order.
std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  return names;
}

TEST(PredictionConvert, MessagesHaveTheFieldsOfTheTables) {
  std::vector<std::string> parts, regions;
  for (const BreakdownPart& part : kBreakdownParts) parts.emplace_back(part.name);
  for (const MemoryRegion& region : kMemoryRegions) regions.emplace_back(region.name);
  EXPECT_EQ(FieldNames(*v1::Breakdown::descriptor()), parts);
  regions.insert(regions.end(), {"total", "capacity"});
  EXPECT_EQ(FieldNames(*v1::MemoryBytes::descriptor()), regions);
}

TEST(CountsConvert, AllFields) {
  SearchCounts counts;
  counts.enumerated = 6;
  counts.illegal = 1;
  counts.out_of_memory = 2;
  counts.predicted = 3;
  counts.evaluated = 4;
  counts.measured = 5;
  counts.rejected = {{"out_of_memory", 2}, {"failed", 1}};
  const v1::Counts message = ToProto(counts);
  EXPECT_THAT((std::vector<std::int64_t>{message.enumerated(), message.illegal(), message.out_of_memory(),
                                         message.predicted(), message.evaluated(), message.measured()}),
              ElementsAre(6, 1, 2, 3, 4, 5));
  EXPECT_EQ(message.rejected_size(), 2);
  EXPECT_EQ(message.rejected().at("out_of_memory"), 2);
}

TEST(Provenance, SliceLeavesThePlanPredicted) {
  v1::Candidate candidate;
  EXPECT_EQ(Provenance(candidate), "predicted");
  candidate.mutable_measured()->set_slice(true);
  EXPECT_EQ(Provenance(candidate), "predicted");
  candidate.mutable_measured()->set_slice(false);
  EXPECT_EQ(Provenance(candidate), "measured");
}

TEST(TraceConvert, RoundTripsAndRejectsInvalidRows) {
  const TraceRow row{3, Lane::kPipelineRecv, 17, 0.25, 0.5};
  const auto back = FromProto(ToProto(row));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->rank, 3);
  EXPECT_EQ(back->lane, Lane::kPipelineRecv);
  EXPECT_EQ(back->action, 17);
  EXPECT_EQ(back->start_s, 0.25);
  EXPECT_EQ(back->end_s, 0.5);
  const auto refused = [&](auto change) {
    v1::TraceRow message = ToProto(row);
    change(message);
    EXPECT_TRUE(absl::IsInvalidArgument(FromProto(message).status())) << message.ShortDebugString();
  };
  refused([](v1::TraceRow& m) { m.set_lane("street"); });
  refused([](v1::TraceRow& m) { m.set_rank(-1); });
  refused([](v1::TraceRow& m) { m.set_action(-1); });
  refused([](v1::TraceRow& m) { m.set_end_s(0.125); });
  refused([](v1::TraceRow& m) { m.set_start_s(std::nan("")); });
}

}  // namespace
}  // namespace autocfg
