// Tests notes about AdamW options without effect.
#include "cli/train/train_options.h"

#include <gtest/gtest.h>

#include "proto/convert/trainer_convert.h"

namespace autocfg::cli {
namespace {

TEST(OptimizerOptions, MinLrNeedsTheCosineSchedule) {
  const auto note = [](const std::string& min_lr, const std::string& schedule) {
    OptimizerOptions options;
    options.min_lr = min_lr;
    options.lr_schedule = schedule;
    const auto optimizer = LoadOptimizer(options);
    EXPECT_TRUE(optimizer.ok()) << optimizer.status();
    return optimizer.ok() ? UnusedNote(*optimizer) : "refused";
  };
  EXPECT_EQ(note("1e-5", "constant"),
            "--min-lr has no effect with --lr-schedule constant; give cosine, or leave it out");
  EXPECT_EQ(note("1e-5", "cosine"), "");
  EXPECT_EQ(note("0", "constant"), "");
  EXPECT_EQ(note("3e-4", "cosine"), "") << "as much as --lr";
}

TEST(WarmupNote, SaysIfTheRunIsShorter) {
  OptimizerOptions options;
  options.warmup_steps = "10";
  const auto optimizer = LoadOptimizer(options);
  ASSERT_TRUE(optimizer.ok()) << optimizer.status();
  EXPECT_EQ(WarmupNote(*optimizer, 10), "");
  EXPECT_EQ(WarmupNote(*optimizer, 9),
            "--warmup-steps: the warm-up of 10 steps is longer than the run of 9, which never reaches --lr");
}

TEST(OptimizerOptions, DefaultsEqualDefaultOptimizer) {
  const auto optimizer = LoadOptimizer({});
  ASSERT_TRUE(optimizer.ok()) << optimizer.status();
  EXPECT_EQ(optimizer->DebugString(), DefaultOptimizer().DebugString());
}

}  // namespace
}  // namespace autocfg::cli
