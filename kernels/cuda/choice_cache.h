// Choices that are made once for each key and kept: algorithms by shape. One rank, one thread.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <vector>

namespace autocfg::cuda {

template <typename Key, typename Choice>
class ChoiceCache {
 public:
  // The choice of this key; `choose()` makes it where there is none yet. What it throws leaves no choice
  // behind. The reference is valid as long as the cache.
  template <typename Choose>
  const Choice& Find(const Key& key, const Choose& choose) {
    const auto it = choices_.find(key);
    if (it != choices_.end()) return it->second;
    return choices_.emplace(key, choose()).first->second;
  }

  std::size_t size() const { return choices_.size(); }
  const std::map<Key, Choice>& choices() const { return choices_; }

 private:
  std::map<Key, Choice> choices_;
};

// The candidate that `seconds(candidate)` finds fastest; the first of equals. What cannot run answers
// infinity; -1 where none can, or there is none.
template <typename Candidate, typename Seconds>
int Fastest(std::vector<Candidate>& candidates, const Seconds& seconds) {
  double least = std::numeric_limits<double>::infinity();
  int fastest = -1;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (const double s = seconds(candidates[i]); s < least) {
      least = s;
      fastest = static_cast<int>(i);
    }
  }
  return fastest;
}

}  // namespace autocfg::cuda
