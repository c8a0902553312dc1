// Round trips of ops and trace rows through their messages, and rejection of invalid messages.
#include "proto/convert/trainer_convert.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "tests/proto/convert/wire.h"

namespace autocfg {
namespace {

using test::Refusal;
using test::Wire;
using ::testing::HasSubstr;

TEST(OpConvert, RoundTrips) {
  for (int k = 0; k < kOpKindCount; ++k) {
    OpDesc op;
    op.kind = static_cast<OpKind>(k);
    op.dtype = DType::kF64;
    if (op.kind == OpKind::kMatmul) op.transpose_b = true;
    op.accumulate = TakesAccumulate(op);
    if (HasActivation(op)) op.activation = Activation::kGeGlu;
    if (op.kind == OpKind::kAdamW) op.moments = DType::kF64;
    if (IsCommunication(op.kind)) {
      op.group = CommGroup::kData;
      op.group_size = 4;
    }
    for (int i = 0; i < DimCount(op.kind); ++i) op.dims[static_cast<std::size_t>(i)] = i + 2;
    const auto back = FromProto(Wire(ToProto(OpTime{op, 0.25, 0.125})));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->op, op);
    EXPECT_EQ(back->seconds, 0.25);
    EXPECT_EQ(back->host_s, 0.125);
  }
}

TEST(OpConvert, HostTimeIsChecked) {
  v1::OpTime time = ToProto(OpTime{OpDesc{.dims = {2, 3, 4}}, 1});
  EXPECT_EQ(FromProto(time)->host_s, 0);
  for (const double bad : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    time.set_host_s(bad);
    EXPECT_THAT(FromProto(time).status().message(), HasSubstr("host_s"));
  }
}

// These ops set each field of the message. A new field needs an op that sets it.
TEST(OpConvert, EveryFieldRoundTrips) {
  OpDesc product{.dims = {2, 3, 4}};
  SetEpilogue(product, Epilogue::kBiasGradient);
  product.accumulate = true;
  OpDesc derivative{.activation = Activation::kRelu, .dims = {2, 3, 4}};
  SetEpilogue(derivative, Epilogue::kActivationGradient);
  const std::vector<OpDesc> ops = {
      product,
      derivative,
      {.kind = OpKind::kActivationForward, .bias = true, .activation = Activation::kGeGlu, .dims = {2, 3}},
      {.kind = OpKind::kActivationForward, .activation = Activation::kGelu, .dims = {2, 3}},
      {.kind = OpKind::kAttentionBackward, .alibi = true, .dims = {2, 3, 4, 5, 1}},
      {.kind = OpKind::kCrossEntropy, .softcap = true, .dims = {2, 3}},
      {.kind = OpKind::kAttentionForward, .window = 2, .dims = {2, 3, 4, 5, 1}},
      {.kind = OpKind::kAdamW,
       .dtype = DType::kBF16,
       .gradients = DType::kBF16,
       .moments = DType::kF32,
       .master = DType::kF32,
       .dims = {2}},
      {.kind = OpKind::kSgd, .dims = {2}},
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
      ToProto(OpDesc{.kind = OpKind::kActivationBackward, .activation = Activation::kSwiGlu, .dims = {2, 3}});
  bad.set_activation("gelu");
  EXPECT_THAT(Refusal(bad), HasSubstr("activation is gelu; it must be gated"));
}

// Op times that an earlier version measured say of a rope how large heads are, and not how much of them
// rotates.
TEST(OpConvert, RopesOfEarlierVersionsRotateWholeHeads) {
  v1::OpDesc message = ToProto(OpDesc{.kind = OpKind::kRope, .dims = {6, 2, 8, 8}});
  ASSERT_EQ(message.dims_size(), 4);
  const OpDesc whole = *FromProto(message);
  message.mutable_dims()->RemoveLast();
  EXPECT_EQ(*FromProto(message), whole);
  message.mutable_dims()->RemoveLast();
  EXPECT_THAT(Refusal(message), HasSubstr("a list of 4 for rope"));
}

TEST(OpConvert, RejectsInvalidMessages) {
  OpDesc op;
  op.dims = {2, 3, 4, 0};
  const v1::OpDesc good = ToProto(op);
  v1::OpDesc bad = good;
  bad.set_kind("conv");
  EXPECT_THAT(Refusal(bad), HasSubstr("unknown kind 'conv'"));
  bad = good;
  bad.set_alibi(true);
  EXPECT_THAT(Refusal(bad), HasSubstr("attention if alibi is set"));
  bad.set_alibi(false);
  bad.set_softcap(true);
  EXPECT_THAT(Refusal(bad), HasSubstr("cross-entropy of logits, if softcap is set"));
  bad.set_softcap(false);
  bad.set_window(3);
  EXPECT_THAT(Refusal(bad), HasSubstr("attention if window is set"));
  bad.set_window(-1);
  EXPECT_THAT(Refusal(bad), HasSubstr("at least 0"));
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
