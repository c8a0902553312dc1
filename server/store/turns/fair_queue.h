// The queued jobs of running studies, in the order in which they come next (server/store/turns/fair_share.h).
// Reads as many rows as it returns jobs, and one for each owner: neither the number of studies nor that of
// their jobs matters. Not thread-safe; use it in one transaction.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "SQLiteCpp/Database.h"
#include "server/store/query.h"
#include "server/store/records.h"
#include "server/store/turns/fair_share.h"

namespace autocfg::server {

struct QueuedJob {
  JobKey key;
  std::int64_t job = 0;  // the row's ID
  std::string owner = {};
  std::int64_t ranks = 0;
  std::string device = {};
  bool fewer_ranks = false;
  std::int64_t attempts = 0;
  std::int64_t avoids_trial = 0;  // 0: none
  std::string engine = {};
  double limit_s = 0;  // 0: none
};

// A share that runs.
struct RunningShare {
  std::string worker;
  std::int64_t study = 0;
  std::string owner = {};
  std::int64_t ranks = 0;
  double start_s = 0;
  std::optional<double> latest_s = {};  // its lease ends by then; empty: no limit
};
std::vector<RunningShare> ReadRunningShares(SQLite::Database& db);

class FairQueue {
 public:
  FairQueue(SQLite::Database& db, const std::vector<RunningShare>& running, double now_s);

  // Returns the next job; no value: there are no more. The jobs of one study come oldest first.
  std::optional<QueuedJob> Next();
  // The job that was returned last starts now, on so many ranks.
  void Started(std::int64_t ranks);
  // No further job of the owner of the job that was returned last is returned.
  void SkipOwner();
  // Returns how many ranks run for an owner, with those that started.
  std::int64_t RanksOf(const std::string& owner) const;

 private:
  struct Turn {
    double use = kNoUse;  // for its weight
    std::int64_t study = 0;
    double weight = 1;
    std::int64_t after = 0;  // the row's ID of the last job that was returned
    friend bool operator<(const Turn& a, const Turn& b) {
      return std::pair(a.use, a.study) < std::pair(b.use, b.study);
    }
  };
  struct Owner {
    double use = kNoUse;
    double started_s = 0;
    std::int64_t ranks = 0;  // that run
    // Of its studies, those that were read and have not been passed yet.
    std::set<Turn> turns;
    Turn last_read;  // those after it are not read yet, and come after it
    bool all_read = false;
  };

  void AddOwner(const std::string& name);
  // Reads further studies of the owner until the first of `turns` is the first of all. Returns false if it
  // has no more.
  bool ReadTurns(const std::string& name, Owner& owner);
  void Place(const std::string& name, Owner& owner);  // among the others, if it has work
  std::optional<QueuedJob> OldestOf(Turn& turn);

  SQLite::Database& db_;
  const double now_s_;
  std::map<std::int64_t, double> running_s_;  // rank-seconds of running jobs, by study
  std::map<std::string, Owner> owners_;
  std::set<OwnerPlace> places_;
  struct Last {
    std::string owner;
    Turn turn;
  };
  std::optional<Last> last_;  // not yet among its owner's turns again
  Query<double, std::int64_t, double> turns_;
  Query<std::int64_t, std::int64_t, std::string, bool, std::int64_t, std::int64_t, std::int64_t, std::string,
        double>
      jobs_;
};

}  // namespace autocfg::server
