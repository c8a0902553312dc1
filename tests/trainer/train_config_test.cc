// Tests how the launcher's TrainSpec is parsed and which specs are refused.
#include "trainer/config/train_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

v1::TrainSpec GoodSpec() {
  v1::TrainSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_layers(2);
  model.set_hidden(8);
  model.set_heads(2);
  model.set_vocab(16);
  spec.mutable_workload()->set_global_batch(2);
  spec.mutable_workload()->set_seq_len(4);
  spec.mutable_workload()->set_precision("fp32");
  spec.set_steps(3);
  spec.mutable_optimizer()->set_lr(1e-3);
  return spec;
}

std::string Refusal(const v1::TrainSpec& spec) {
  try {
    CheckTrainConfig(ParseTrainSpec(spec), 1);
  } catch (const BadInput& e) {
    return e.what();
  } catch (const NotSupported& e) {
    return std::string("not supported: ") + e.what();
  }
  return "";
}

TEST(TrainConfig, AcceptsValidSpecAndNamesInvalidField) {
  EXPECT_EQ(Refusal(GoodSpec()), "");
  EXPECT_EQ(ParseTrainSpec(GoodSpec()).model.max_seq_len, 4) << "defaults are filled";
  const auto refusal = [](const std::function<void(v1::TrainSpec&)>& spoil) {
    v1::TrainSpec spec = GoodSpec();
    spoil(spec);
    return Refusal(spec);
  };
  const auto names = [](const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
  };
  EXPECT_TRUE(names(refusal([](auto& s) { s.set_steps(0); }), "steps"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_optimizer()->set_lr(-1); }), "lr"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_optimizer()->set_lr(std::nan("")); }), "lr"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_optimizer()->set_beta1(1.0); }), "beta1"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_optimizer()->set_clip_norm(-0.5); }), "clip_norm"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_optimizer()->set_lr_schedule("linear"); }), "linear"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_model()->set_layers(0); }), "layers"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_workload()->set_precision("fp8"); }), "fp8"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_plan()->set_split("auto"); }), "split=auto"));
  EXPECT_TRUE(names(refusal([](auto& s) { s.mutable_plan()->set_dp(2); }), "2"));
}

v1::OpTime* AddFill(v1::TrainSpec& spec, std::int64_t elements, double seconds) {
  v1::OpTime* time = spec.add_op_times();
  time->mutable_op()->set_kind("fill");
  time->mutable_op()->set_dtype("fp32");
  time->mutable_op()->set_group("none");
  time->mutable_op()->set_group_size(1);
  time->mutable_op()->add_dims(elements);
  time->set_seconds(seconds);
  return time;
}

TEST(TrainConfig, ParsesTraceSliceAndOpTimes) {
  v1::TrainSpec spec = GoodSpec();
  TrainConfig c = ParseTrainSpec(spec);
  EXPECT_FALSE(c.trace);
  EXPECT_FALSE(c.slice.has_value());
  EXPECT_TRUE(c.op_times.empty());
  EXPECT_EQ(c.host_op_s, 0);
  spec.set_trace(true);
  spec.mutable_plan()->set_pp(2);
  spec.mutable_slice()->set_pipeline(1);
  AddFill(spec, 7, 0.25);
  spec.set_host_op_s(0.125);
  c = ParseTrainSpec(spec);
  EXPECT_TRUE(c.trace);
  EXPECT_EQ(c.slice->tensor, 0);
  EXPECT_EQ(c.slice->pipeline, 1);
  EXPECT_EQ(c.op_times.at({.kind = OpKind::kFill, .dims = {7}}), 0.25);
  EXPECT_EQ(c.host_op_s, 0.125);
  EXPECT_EQ(Refusal(spec), "") << "a slice runs on any number of processes";
}

TEST(TrainConfig, RecordsABreakdownOnlyOfAnUntimedStep) {
  v1::TrainSpec spec = GoodSpec();
  EXPECT_FALSE(ParseTrainSpec(spec).record_breakdown);
  spec.set_record_breakdown(true);
  EXPECT_TRUE(ParseTrainSpec(spec).record_breakdown);
  spec.set_warmup_steps_untimed(0);
  EXPECT_EQ(Refusal(spec).find("record_breakdown needs a step that is not timed"), 0u) << Refusal(spec);
  spec.set_warmup_steps_untimed(1);
  EXPECT_EQ(Refusal(spec), "");
}

TEST(TrainConfig, RejectsInvalidOpTimes) {
  v1::TrainSpec spec = GoodSpec();
  AddFill(spec, 7, 0.25);
  AddFill(spec, 8, std::nan(""));
  EXPECT_EQ(Refusal(spec).find("op_times[1]: "), 0u) << Refusal(spec);
  spec.mutable_op_times(1)->set_seconds(-1);
  EXPECT_EQ(Refusal(spec).find("op_times[1]: "), 0u) << Refusal(spec);
  spec.mutable_op_times(1)->set_seconds(1);
  spec.mutable_op_times(1)->mutable_op()->set_dims(0, 7);
  EXPECT_EQ(Refusal(spec), "op_times[1]: duplicate time for fill fp32 7");
  for (const double wrong : {-1e-6, std::nan(""), 2.0}) {
    v1::TrainSpec host = GoodSpec();
    host.set_host_op_s(wrong);
    EXPECT_EQ(Refusal(host).find("host_op_s is "), 0u) << Refusal(host);
  }
  spec.mutable_op_times(1)->mutable_op()->set_kind("teleport");
  EXPECT_NE(Refusal(spec).find("teleport"), std::string::npos) << Refusal(spec);
}

// Rejected before any rank builds the program, which would use up its memory.
TEST(TrainConfig, RejectsTooLargeProgram) {
  v1::TrainSpec spec = GoodSpec();
  spec.mutable_workload()->set_global_batch(std::int64_t{1} << 19);
  EXPECT_NE(Refusal(spec).find("microbatches"), std::string::npos) << Refusal(spec);
}

}  // namespace
}  // namespace autocfg::trainer
