// Generates test cases that cover every pair of choices: for any two axes, each pair of their values that
// occurs in some legal case occurs in a returned case. Pure, deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace autocfg::test {

using Case = std::vector<int>;  // by axis: the index of its value

// Calls `visit` with every legal case in lexicographic order; `sizes` is the number of values of each axis.
// Requires: every size is positive.
template <typename Legal, typename Visit>
void ForEachLegalCase(const std::vector<int>& sizes, const Legal& legal, const Visit& visit) {
  Case current(sizes.size(), 0);
  for (;;) {
    if (legal(current)) visit(current);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++current[axis - 1] == sizes[axis - 1]) current[--axis] = 0;
    if (axis == 0) return;
  }
}

// Two pairs of an axis and the index of its value; the earlier axis comes first.
using ChoicePair = std::pair<std::pair<int, int>, std::pair<int, int>>;

inline std::set<ChoicePair> PairsOf(const Case& c) {
  std::set<ChoicePair> pairs;
  for (int a = 0; a < static_cast<int>(c.size()); ++a) {
    for (int b = a + 1; b < static_cast<int>(c.size()); ++b) {
      pairs.insert({{a, c[static_cast<std::size_t>(a)]}, {b, c[static_cast<std::size_t>(b)]}});
    }
  }
  return pairs;
}

// Returns a few legal cases that together have every pair that any legal case has. Chooses greedily: the case
// with the most missing pairs, among those the one with the lowest `cost`, among those the first. Requires:
// no axis has more than 256 values.
inline std::vector<Case> PairwiseCases(const std::vector<int>& sizes,
                                       const std::function<bool(const Case&)>& legal,
                                       const std::function<int(const Case&)>& cost) {
  const std::size_t axes = sizes.size();
  // Flat tables of bytes, because there may be millions of cases.
  std::vector<std::uint8_t> values;  // by case, by axis
  std::vector<int> costs;
  ForEachLegalCase(sizes, legal, [&](const Case& c) {
    for (const int value : c) values.push_back(static_cast<std::uint8_t>(value));
    costs.push_back(cost(c));
  });
  std::vector<std::size_t> first_choice;  // index of each axis's first choice among all choices
  std::size_t choices = 0;
  for (const int size : sizes) {
    first_choice.push_back(choices);
    choices += static_cast<std::size_t>(size);
  }
  std::vector<std::uint8_t> missing(choices * choices, 0);
  const auto for_each_pair = [&](std::size_t i, const auto& visit) {
    const std::uint8_t* value = &values[i * axes];
    for (std::size_t a = 0; a < axes; ++a) {
      const std::size_t row = (first_choice[a] + value[a]) * choices;
      for (std::size_t b = a + 1; b < axes; ++b) visit(missing[row + first_choice[b] + value[b]]);
    }
  };
  for (std::size_t i = 0; i < costs.size(); ++i) {
    for_each_pair(i, [](std::uint8_t& pair) { pair = 1; });
  }
  // The missing pairs of a case when they were last counted: at least those that it has now.
  std::vector<std::size_t> most(costs.size(), axes * axes);
  std::vector<Case> chosen;
  for (;;) {
    std::size_t best = 0;
    std::size_t best_gain = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (most[i] < best_gain || (most[i] == best_gain && costs[i] >= costs[best])) continue;
      most[i] = 0;
      for_each_pair(i, [&](const std::uint8_t& pair) { most[i] += pair; });
      if (most[i] > best_gain || (most[i] == best_gain && costs[i] < costs[best])) {
        best = i;
        best_gain = most[i];
      }
    }
    if (best_gain == 0) return chosen;
    for_each_pair(best, [](std::uint8_t& pair) { pair = 0; });
    const std::uint8_t* value = &values[best * axes];
    chosen.emplace_back(value, value + axes);
  }
}

}  // namespace autocfg::test
