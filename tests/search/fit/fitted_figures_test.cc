#include "search/fit/fitted_figures.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

TEST(FittedFigures, EachIsReadWhereItIsSet) {
  std::set<std::string_view> names;
  for (const FigureToFit& figure : FiguresToFit()) {
    NodeGroup group = PresetCluster("a100-80gb-sxm:2x8")->groups.front();
    const double value = (figure.least + figure.most) / 2;
    figure.set(group, value);
    EXPECT_EQ(figure.get(group), value) << figure.name;
    EXPECT_TRUE(names.insert(figure.name).second) << figure.name;
    EXPECT_EQ(&FigureToFitOf(figure.name), &figure);
    EXPECT_FALSE(figure.determined_by.empty()) << figure.name;
    EXPECT_GT(figure.prior_sigma, 0) << figure.name;
  }
}

}  // namespace
}  // namespace autocfg
