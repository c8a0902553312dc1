#include "server/store/turns/fair_share.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::server {

absl::Status CheckWeight(double weight) {
  if (weight >= kLeastWeight && weight <= kMostWeight) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("weight is {:g}; give a number from {:g} to {:g}", weight, kLeastWeight, kMostWeight));
}

double RankSecondsOf(double use, double now_s) { return std::exp2(use - now_s / kUseHalfLifeSeconds); }

double AddUse(double use, double rank_s, double now_s) {
  const double all_s = RankSecondsOf(use, now_s) + std::max(0.0, rank_s);
  return all_s > 0 ? std::log2(all_s) + now_s / kUseHalfLifeSeconds : kNoUse;
}

double ForNewWeight(double use, double before, double after) {
  return use > kNoUse ? use + std::log2(before / after) : kNoUse;
}

absl::Status CheckMayCreate(const std::string& owner, const OwnerLimits& limits, std::int64_t open_studies,
                            std::int64_t bytes) {
  if (limits.open_studies > 0 && open_studies >= limits.open_studies) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} has {} stud{} that ha{} not ended, the most that this coordinator allows an owner; wait "
        "until one ends, or cancel one",
        owner, open_studies, open_studies == 1 ? "y" : "ies", open_studies == 1 ? "s" : "ve"));
  }
  if (limits.bytes > 0 && bytes >= limits.bytes) {
    return absl::ResourceExhaustedError(fmt::format(
        "the studies of {} take {}, and this coordinator allows an owner {}; delete some (DeleteStudy "
        "of the API), or ask its administrator for more",
        owner, base::BytesText(bytes), base::BytesText(limits.bytes)));
  }
  return absl::OkStatus();
}

std::string WhyQuota(const std::string& owner, const OwnerLimits& limits, std::int64_t ranks,
                     std::int64_t used) {
  if (ranks > limits.devices) {
    return fmt::format(
        "its next job needs {} devices, and this coordinator allows {} at once to its owner, {}; narrow the "
        "search to fewer ranks, or ask the coordinator's administrator for more",
        ranks, limits.devices, owner);
  }
  return fmt::format(
      "its next job needs {} device{}, and its owner, {}, uses {} of the {} that this coordinator allows at "
      "once; it waits for the owner's other jobs",
      ranks, ranks == 1 ? "" : "s", owner, used, limits.devices);
}

bool operator<(const OwnerPlace& a, const OwnerPlace& b) {
  if (a.passed != b.passed) return a.passed;
  if (a.passed && a.started_s != b.started_s) return a.started_s < b.started_s;
  return std::tie(a.use, a.study, a.owner) < std::tie(b.use, b.study, b.owner);
}

}  // namespace autocfg::server
