// Caches choices by key, such as algorithms by shape. One rank, one thread.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace autocfg::cuda {

template <typename Key, typename Choice>
class ChoiceCache {
 public:
  // Returns the choice for `key`. If there is none yet, calls `choose()` and stores its result. An exception
  // from `choose()` stores nothing. The reference is valid as long as the cache.
  template <typename Choose>
  const Choice& Find(const Key& key, const Choose& choose) {
    const auto it = choices_.find(key);
    if (it != choices_.end()) return it->second;
    return choices_.emplace(key, choose()).first->second;
  }

  // Replaces the choice for `key`, which must exist. References to it see the new one.
  void Replace(const Key& key, Choice choice) { choices_.at(key) = std::move(choice); }

  std::size_t size() const { return choices_.size(); }
  const std::map<Key, Choice>& choices() const { return choices_; }

 private:
  std::map<Key, Choice> choices_;
};

// Returns the index of the candidate for which `seconds(candidate)` is smallest; the first of equals.
// `seconds` returns infinity for candidates that cannot run. Returns -1 if no candidate can run.
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
