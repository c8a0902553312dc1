// Generates test cases that cover every pair of choices: for any two axes, each pair of their values that
// occurs in some legal case occurs in a returned case. Pure, deterministic.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace autocfg::test {

using Case = std::vector<int>;  // by axis: the index of its value

// Returns every legal case in lexicographic order; `sizes` is the number of values of each axis. Requires:
// every size is positive.
inline std::vector<Case> LegalCases(const std::vector<int>& sizes,
                                    const std::function<bool(const Case&)>& legal) {
  std::vector<Case> cases;
  Case current(sizes.size(), 0);
  for (;;) {
    if (legal(current)) cases.push_back(current);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++current[axis - 1] == sizes[axis - 1]) current[--axis] = 0;
    if (axis == 0) return cases;
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
// with the most missing pairs, among those the one with the lowest `cost`, among those the first.
inline std::vector<Case> PairwiseCases(const std::vector<int>& sizes,
                                       const std::function<bool(const Case&)>& legal,
                                       const std::function<int(const Case&)>& cost) {
  const std::vector<Case> all = LegalCases(sizes, legal);
  // Flat tables, because the greedy search visits each case many times.
  std::vector<int> first_choice;  // index of each axis's first choice among all choices
  int choices = 0;
  for (const int size : sizes) {
    first_choice.push_back(choices);
    choices += size;
  }
  std::vector<std::vector<int>> pairs_of(all.size());
  std::vector<int> costs(all.size());
  std::vector<bool> missing(static_cast<std::size_t>(choices) * static_cast<std::size_t>(choices), false);
  std::size_t left = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    costs[i] = cost(all[i]);
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      for (std::size_t b = a + 1; b < sizes.size(); ++b) {
        const int pair = (first_choice[a] + all[i][a]) * choices + first_choice[b] + all[i][b];
        pairs_of[i].push_back(pair);
        if (missing[static_cast<std::size_t>(pair)]) continue;
        missing[static_cast<std::size_t>(pair)] = true;
        ++left;
      }
    }
  }
  std::vector<Case> chosen;
  while (left > 0) {
    std::size_t best = 0;
    std::size_t best_gain = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t gain = 0;
      for (const int pair : pairs_of[i]) gain += missing[static_cast<std::size_t>(pair)] ? 1 : 0;
      if (gain > best_gain || (gain == best_gain && gain > 0 && costs[i] < costs[best])) {
        best = i;
        best_gain = gain;
      }
    }
    for (const int pair : pairs_of[best]) missing[static_cast<std::size_t>(pair)] = false;
    left -= best_gain;
    chosen.push_back(all[best]);
  }
  return chosen;
}

}  // namespace autocfg::test
