// What the store (store.h) takes and returns: records of jobs, leases, workers, tokens and studies, what
// changed in a write, and figures. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autocfg/v1/access_service.pb.h"
#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg::server {

// Identifies a job: a trial's, or a study's calibration.
struct JobKey {
  std::int64_t study = 0;
  std::int64_t trial = 0;  // 0: the study's calibration
  // NOLINTNEXTLINE(modernize-use-nullptr): false positive
  friend auto operator<=>(const JobKey&, const JobKey&) = default;
};

// A worker between two starts.
struct WorkerSession {
  std::string worker;
  std::int64_t epoch = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): false positive
  friend auto operator<=>(const WorkerSession&, const WorkerSession&) = default;
};

// A worker's right to run its share of an attempt at a job: all its ranks, or a contiguous part if the
// attempt spans workers.
struct Lease {
  WorkerSession session;
  std::string lease_id;
  std::int64_t fencing_token = 0;
  std::int64_t attempt = 0;
  JobKey key;
  autocfg::v1::Job job;
  std::int32_t first_rank = 0;
  std::int32_t ranks = 0;
  std::int32_t workers = 1;  // number of workers of the attempt
  double expires_s = 0;
};

// The share that a lease grants.
struct ShareOfAttempt {
  std::int64_t study = 0;
  std::int64_t trial = 0;  // 0: the study's calibration
  std::int64_t job = 0;    // the row's ID; (job, attempt) identifies the attempt
  std::int64_t attempt = 0;
  std::int32_t first_rank = 0;
  std::int32_t ranks = 0;
  std::int32_t job_ranks = 0;
  bool stopping = false;      // the attempt failed or was cancelled
  bool others_ended = false;  // another share of the attempt has ended
};

// A complete gathering of an attempt's shares (server/sched/rendezvous.h).
struct KeptGathering {
  std::string name;
  std::int64_t sequence = 0;
  std::map<std::int32_t, std::vector<std::string>> values;  // by the share's first rank
};

// A queued job that waits for busy workers.
struct WaitingJob {
  JobKey job;
  // By then, every job that runs now has reached its time limit: the latest time at which a held lease ends.
  // Without a limit, a job counts as if it had ten minutes left. At least one lease duration from now.
  double until_s = 0;
};

// Result of LeaseJobs.
struct Assignment {
  std::vector<Lease> leases;        // shares of one attempt are adjacent, ordered by first_rank
  std::optional<WaitingJob> waits;  // the first of those found
};

// A running study whose oldest queued job cannot start now.
struct WaitingStudy {
  enum class Why : std::uint8_t {
    kNobody,  // the workers could not run the job even if idle
    kBusy,    // they are busy
    kKept,    // a job of another study comes first on them
    kQuota,   // its owner uses as many devices as it may
  };
  JobKey job;  // its oldest queued job
  Why why = Why::kNobody;
  std::string sentence;  // the reason, for users
};

// A lease that its worker lost.
struct EndedLease {
  WorkerSession session;
  std::string job;  // job name
  // The job's new state: QUEUED again, an end state, or RUNNING until the attempt's other shares have
  // stopped.
  autocfg::v1::TrialState state = autocfg::v1::TRIAL_STATE_UNSPECIFIED;
};

// A worker as stored. Does not include when it was last seen.
struct WorkerRecord {
  WorkerSession session;
  autocfg::v1::Inventory inventory;
  bool active = false;  // not deregistered
  bool draining = false;
  double registered_s = 0;
  std::optional<double> leaves_s = {};  // when it takes no more jobs; see SetLeaving
  std::int64_t ranks_in_use = 0;
  std::vector<std::string> jobs;  // job names
};

// A token as stored: with a hash of its text, never the text.
struct TokenRecord {
  autocfg::v1::Token token;
  std::string hash;
};

// Cache key for reusing op times and measured trials across studies: everything they depend on besides the op
// or the work (op_times_key.h).
struct OpTimesKey {
  std::string device;  // GPU names and driver, or CPU and host
  std::string build_id;
  std::int64_t ranks = 0;             // ranks that ran each op at the same time
  std::int64_t ranks_per_device = 1;  // maximum over the devices
  std::int64_t workers = 1;           // number of workers that ran the ranks
  double kept_s = 0;                  // how long a time under the key holds
  friend auto operator<=>(const OpTimesKey&, const OpTimesKey&) = default;
};

// Additional changes in the same transaction as an edit of a study.
struct StudyEdit {
  // If not empty: a second edit with this ID changes nothing and returns the current study. AlreadyExists if
  // the ID was used for another study or kind of request.
  std::string request_id = {};
  std::string request_kind = {};  // stored with the ID; unique among moves (StudyMove): start, pause, ...
  double add_wall_s = 0;          // added to the usage of the study's search
  double add_plan_cpu_s = 0;
  std::optional<double> weight = {};  // the study's new one, which counts from its next turn
};

// Resources used by a study's search, over all coordinators that ran it.
struct StudyUsage {
  double wall_s = 0;  // while a coordinator worked on it
  double plan_cpu_s = 0;
  double device_s = 0;  // ranks x wall seconds of all ended attempts, including the calibration's
};

// How much of a list one call returns.
struct ListLimit {
  // NOLINTNEXTLINE(google-explicit-constructor): most lists have a count alone
  ListLimit(int most, std::size_t most_bytes = std::numeric_limits<std::size_t>::max())
      : count(most), bytes(most_bytes) {}

  // Returns whether a list of this many elements, of which all encode to `encoded` bytes, gets no more. A
  // list ends with the element that exceeds `bytes`, so that its caller sees that there are more; the first
  // element alone never ends it, whatever its size.
  bool Reached(std::size_t elements, std::size_t encoded) const {
    return elements >= static_cast<std::size_t>(count) || (elements > 1 && encoded > bytes);
  }

  int count;
  std::size_t bytes;
};

// Changes of a study after a cursor.
struct StudyChanges {
  std::int64_t cursor = 0;  // the study's current cursor
  autocfg::v1::Study study;
  // Ascending by the cursor of their last change.
  std::vector<std::pair<std::int64_t, autocfg::v1::Trial>> trials;
  bool more = false;  // the limit ended `trials`: others may follow
};

// What a write changed, for those who wait for it.
struct StoreChange {
  std::vector<std::int64_t> studies = {};  // whose change cursor it raised, maybe repeatedly
  // Work may have become free, taken or unwanted: jobs, attempts and workers changed, or a study's state.
  bool work = false;
  bool failed = false;  // the write failed in the storage
};

// How a lease ended: its worker reported or gave the job back; it ran out; its worker was replaced or cut
// off; or it was returned without a fault of the worker (it did not arrive, the worker deregistered, or no
// coordinator was running).
enum class LeaseEnd : std::uint8_t { kReported, kExpired, kLost, kReturned };
inline constexpr std::size_t kLeaseEnds = 4;

// What one write did, for those who count.
struct StoreCommit {
  bool failed = false;  // in the storage; the rest is then 0
  // The commit, without the statements before it; nothing if the write shared that of another one.
  std::optional<double> seconds = {};
  std::int64_t leases_granted = 0;
  std::array<std::int64_t, kLeaseEnds> leases_ended = {};  // by LeaseEnd
  std::vector<autocfg::v1::TrialState> trials_ended = {};  // their end states
  std::int64_t reports_rejected = 0;
};

// What the storage holds at one time.
struct StoreFigures {
  std::int64_t jobs_queued = 0;  // of running studies
  std::int64_t leases_held = 0;
  std::map<autocfg::v1::StudyState, std::int64_t> studies = {};
  std::int64_t file_bytes = 0;  // of the database; 0 in memory
  std::int64_t log_bytes = 0;   // of its write-ahead log
  std::int64_t used_bytes = 0;
};

}  // namespace autocfg::server
