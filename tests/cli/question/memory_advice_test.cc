#include "cli/question/memory_advice.h"

#include "gtest/gtest.h"

namespace autocfg::cli {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

MemoryBytes Held(std::int64_t MemoryBytes::*largest) {
  MemoryBytes memory{.parameters = kGiB, .gradients = kGiB, .optimizer = kGiB, .activations = kGiB};
  memory.*largest = 3 * kGiB;
  return memory;
}

TEST(MemoryAdvice, NamesTheLargestRegionAndWhatLowersIt) {
  const ParallelPlan plan{{.tp = 2, .dp = 4}, {.micro_batch = 2}};
  const auto of = [&](std::int64_t MemoryBytes::*largest) { return MemoryAdvice(plan, Held(largest)); };
  EXPECT_EQ(of(&MemoryBytes::activations),
            "activations take 3.0 GiB; use a smaller mbs, sp=1, recompute=full or more ranks");
  EXPECT_EQ(of(&MemoryBytes::optimizer), "optimizer states take 3.0 GiB; use zero=1 or more ranks");
  EXPECT_EQ(of(&MemoryBytes::gradients), "gradients take 3.0 GiB; use zero=2 or more ranks");
  EXPECT_EQ(of(&MemoryBytes::parameters), "parameters take 3.0 GiB; use zero=3 or more ranks");
}

TEST(MemoryAdvice, LeavesOutWhatThePlanHasOrMayNotHave) {
  ParallelPlan plan{{.pp = 2, .dp = 1}, {.micro_batch = 1, .recompute = Recompute::kFull}};
  EXPECT_EQ(MemoryAdvice(plan, Held(&MemoryBytes::activations)), "activations take 3.0 GiB; use more ranks");
  EXPECT_EQ(MemoryAdvice(plan, Held(&MemoryBytes::optimizer)),
            "optimizer states take 3.0 GiB; use more ranks")
      << "there is nobody to share them with";
  plan.dp = 2;
  plan.zero_stage = 2;
  EXPECT_EQ(MemoryAdvice(plan, Held(&MemoryBytes::gradients)), "gradients take 3.0 GiB; use more ranks");
  plan.recompute_layers = 3;
  EXPECT_EQ(MemoryAdvice(plan, Held(&MemoryBytes::activations)),
            "activations take 3.0 GiB; use recompute=full or more ranks");
}

}  // namespace
}  // namespace autocfg::cli
