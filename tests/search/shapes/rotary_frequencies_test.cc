// Frequencies against those that tests/golden/make_rope_golden.py computes.
#include "search/shapes/rotary_frequencies.h"

#include <cmath>
#include <fstream>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/text/model_json.h"
#include "tests/support/build_paths.h"

namespace autocfg {
namespace {

TEST(RotaryFrequencies, EqualIndependentOnes) {
  std::ifstream in(SourcePath("tests/golden/rope_frequencies.json"));
  std::set<RopeScaling> scalings;
  for (const nlohmann::ordered_json& golden : nlohmann::ordered_json::parse(in)) {
    const auto model = ParseModelJson(golden.at("model"));
    ASSERT_TRUE(model.ok()) << model.status() << golden.at("model");
    scalings.insert(model->rope_scaling);
    const auto wanted = golden.at("frequencies").get<std::vector<double>>();
    const std::int64_t dims = RotaryDims(*model);
    ASSERT_EQ(static_cast<std::int64_t>(wanted.size()), dims / 2);
    const RotaryFrequencies got = FrequenciesOf(*model, golden.at("seq_len"));
    const double factor = golden.at("factor");
    EXPECT_NEAR(got.factor, factor, 1e-14 * factor) << golden.at("model");
    for (std::int64_t i = 0; i < dims / 2; ++i) {
      const double frequency = wanted[static_cast<std::size_t>(i)];
      EXPECT_NEAR(got.At(i, dims), frequency, 1e-13 * frequency)
          << "pair " << i << " of " << golden.at("model");
    }
  }
  EXPECT_EQ(scalings.size(), kRopeScalingCount);
}

// Without a scaling, the frequencies are those of theta to the bit.
TEST(RotaryFrequencies, ArePlainWithoutAScaling) {
  ModelSpec model{.layers = 1, .hidden = 64, .heads = 4, .vocab = 16};
  model.position = Position::kRope;
  FillDefaults(model);
  const RotaryFrequencies got = FrequenciesOf(model, 128);
  EXPECT_TRUE(got.IsPlain());
  EXPECT_EQ(got.At(3, 16), std::pow(10000.0, -6.0 / 16));
}

}  // namespace
}  // namespace autocfg
