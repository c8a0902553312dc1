// Which error code each exception becomes.
#include "trainer/run/result.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <new>

#include "kernels/device.h"
#include "trainer/comm/communicator.h"
#include "trainer/errors.h"
#include "trainer/run/train_config.h"

namespace autocfg {
namespace {

template <typename E>
v1::RankError Of(const E& e) {
  return ToRankError(std::make_exception_ptr(e));
}

TEST(ToRankError, GivesEachTypeItsCode) {
  EXPECT_EQ(Of(BadInput("x")).code(), "INVALID_ARGUMENT");
  EXPECT_EQ(Of(NotSupported("x")).code(), "UNIMPLEMENTED");
  EXPECT_EQ(Of(CommError("x")).code(), "UNAVAILABLE");
  EXPECT_EQ(Of(DeviceError("x")).code(), "INTERNAL");
  EXPECT_EQ(Of(std::logic_error("x")).code(), "INTERNAL");
  EXPECT_EQ(Of(std::bad_alloc()).code(), "RESOURCE_EXHAUSTED");
  const v1::RankError fit = Of(DoesNotFit(12, "activations", "too\nlarge"));
  EXPECT_EQ(fit.code(), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(fit.over_bytes(), 12);
  EXPECT_EQ(fit.region(), "activations");
  EXPECT_EQ(fit.message(), "too large") << "one line";
  EXPECT_EQ(Of(DeviceOutOfMemory(10, 4, "x")).over_bytes(), 6);
}

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

TEST(TrainConfig, TakesAGoodSpecAndNamesTheFieldOfABadOne) {
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

}  // namespace
}  // namespace autocfg
