// Fair shares of the devices: whose queued work comes next. Owners share the devices equally, and the studies
// of one owner by their weights.
//
// - What counts is the use of devices in rank-seconds, of which recent ones count more: half after
//   kUseHalfLifeSeconds. The owner that used least comes first, then its study that used least for its
//   weight. Equals: the older study first.
// - A running job counts as if it had run for kLeastRunSeconds at least.
// - An owner none of whose jobs runs, and who was given none for kLongestPassedSeconds, comes before all
//   others, whatever it used. So nobody waits for the work of others for longer, as long as jobs end.
//
// Pure, thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace autocfg::server {

inline constexpr double kUseHalfLifeSeconds = 24 * 3600;
inline constexpr double kLeastRunSeconds = 60;
inline constexpr double kLongestPassedSeconds = 600;

// Of a study; 1 unless given.
inline constexpr double kLeastWeight = 0.01;
inline constexpr double kMostWeight = 100;
absl::Status CheckWeight(double weight);  // InvalidArgument

// A use is stored as a number that remains the same while nothing is used: the logarithm to base 2 of the
// use, plus the time in half-lives. So two uses compare as these numbers do, at any time.
inline constexpr double kNoUse = -1e9;
double AddUse(double use, double rank_s, double now_s);
double RankSecondsOf(double use, double now_s);
// Returns the use of a study for its weight `after`, of that for its weight `before`.
double ForNewWeight(double use, double before, double after);

// What one owner may have; 0: no limit.
struct OwnerLimits {
  std::int64_t open_studies = 0;  // that have not ended
  std::int64_t devices = 0;       // ranks that run at once
  std::int64_t bytes = 0;         // stored, of all its studies, approximately
};
// ResourceExhausted, in one line, if an owner who has so much may create no further study.
absl::Status CheckMayCreate(const std::string& owner, const OwnerLimits& limits, std::int64_t open_studies,
                            std::int64_t bytes);
// Why a job waits for its owner's limit of devices, as sentences for users. `ranks`: of the job; `used`: by
// the owner's running jobs.
std::string WhyQuota(const std::string& owner, const OwnerLimits& limits, std::int64_t ranks,
                     std::int64_t used);

// The place of an owner among those that have queued work: the least comes first.
struct OwnerPlace {
  bool passed = false;     // for kLongestPassedSeconds
  double started_s = 0;    // when it was last given a job
  double use = kNoUse;     // with that of its running jobs
  std::int64_t study = 0;  // whose job is its next one
  std::string owner = {};
};
bool operator<(const OwnerPlace& a, const OwnerPlace& b);

}  // namespace autocfg::server
