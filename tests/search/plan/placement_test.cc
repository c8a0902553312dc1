#include "search/plan/placement.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace autocfg {
namespace {

// Rajbhandari et al. 2020, figure 1: gigabytes of a model of 7.5 billion parameters on 64 ranks, of types of
// 2 bytes with a master copy and two moments of 4.
TEST(Placement, StagesOfZeroKeepTheirPublishedBytes) {
  constexpr std::int64_t kParameters = 7'500'000'000;
  constexpr std::array<double, 4> kPublished = {120, 31.4, 16.6, 1.9};
  Precision types = *ParsePrecision("bf16");
  types.gradients = DType::kBF16;
  for (std::int64_t zero = 0; zero <= 3; ++zero) {
    const ParallelPlan plan{{.dp = 64}, {}, {}, {}, {.zero_stage = zero}};
    const auto bytes = [&](State state) {
      return static_cast<double>(KeptElements(plan, UnitKind::kLayer, state, kParameters) *
                                 SizeOf(*TypeOfState(types, state)));
    };
    const double all = bytes(State::kParameters) + bytes(State::kGradients) + 2 * bytes(State::kMoments) +
                       bytes(State::kMaster);
    EXPECT_NEAR(all / 1e9, kPublished[static_cast<std::size_t>(zero)], 0.05) << "zero=" << zero;
  }
}

TEST(Placement, NormsKeepWholeParametersAndGradients) {
  const ParallelPlan plan{{.dp = 4}, {}, {}, {}, {.zero_stage = 3, .grad_overlap = true}};
  for (const State state : {State::kParameters, State::kGradients}) {
    EXPECT_EQ(KeptElements(plan, UnitKind::kNorms, state, 64), 64);
    EXPECT_EQ(KeptElements(plan, UnitKind::kEmbedding, state, 64), 16);
  }
  EXPECT_EQ(KeptElements(plan, UnitKind::kNorms, State::kMoments, 64), 16);
  EXPECT_FALSE(IsReducedInComputes(plan, UnitKind::kNorms));
  EXPECT_TRUE(IsReducedInComputes(plan, UnitKind::kOutputLayer));
}

// Ranks of other replicas hold the same parts; a rank alone has all of them.
TEST(Placement, PartsAreOfTheRanksThatShareStates) {
  ParallelPlan plan{{.dp = 8}, {}, {}, {}, {.zero_stage = 3, .dp_shard = 2}};
  EXPECT_EQ(KeptElements(plan, UnitKind::kLayer, State::kParameters, 128), 64);
  plan.dp = plan.dp_shard = 1;
  EXPECT_EQ(KeptElements(plan, UnitKind::kLayer, State::kMaster, 128), 128);
  EXPECT_FALSE(ShardsParameters(plan));
}

// At zero <= 1 gradients are whole: computes reduce them only to hide that.
TEST(Placement, WholeGradientsAreReducedInComputesToHideIt) {
  for (const bool overlap : {false, true}) {
    const ParallelPlan plan{{.dp = 2}, {}, {}, {}, {.zero_stage = 1, .grad_overlap = overlap}};
    EXPECT_FALSE(ShardsGradients(plan));
    EXPECT_EQ(IsReducedInComputes(plan, UnitKind::kLayer), overlap);
  }
}

}  // namespace
}  // namespace autocfg
