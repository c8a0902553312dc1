#include "server/store/sqlite/sqlite_store.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <utility>

#include "SQLiteCpp/Transaction.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr std::size_t kMostTogether = 64;  // writes in a transaction, so that none waits for long

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path,
                                                       const SqliteOptions& options) {
  AUTOCFG_ASSIGN_OR_RETURN(auto file, OpenSqliteFile(path, options.max_pages));
  return std::make_unique<Store>(std::make_unique<Store::Impl>(std::move(file), options));
}

absl::StatusOr<std::unique_ptr<Store>> OpenMemoryStore(const SqliteOptions& options) {
  AUTOCFG_ASSIGN_OR_RETURN(auto file, OpenSqliteMemory(options.max_pages));
  return std::make_unique<Store>(std::make_unique<Store::Impl>(std::move(file), options));
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

void Store::OnChange(std::function<void(const StoreChange&)> listener) {
  impl_->listener_ = std::move(listener);
}

void Store::OnCommit(std::function<void(const StoreCommit&)> listener) {
  impl_->commit_listener_ = std::move(listener);
}

absl::Status Store::Health() {
  absl::MutexLock lock(&impl_->mutex_);
  return impl_->health_;
}

void Store::Impl::CommitInTurn(PendingWrite& write) {
  turns_mutex_.Lock();
  turns_.push_back(&write);
  while (true) {
    const auto free = [this, &write]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(turns_mutex_) { return write.ended || !committing_; };
    turns_mutex_.Await(absl::Condition(&free));
    if (write.ended) break;
    committing_ = true;
    turns_mutex_.Unlock();
    std::vector<PendingWrite*> writes;
    {
      absl::MutexLock lock(&mutex_);
      {
        absl::MutexLock turns(&turns_mutex_);
        const auto end = turns_.begin() + static_cast<std::ptrdiff_t>(std::min(turns_.size(), kMostTogether));
        writes.assign(turns_.begin(), end);
        turns_.erase(turns_.begin(), end);
      }
      CommitTogether(writes);
    }
    turns_mutex_.Lock();
    for (PendingWrite* each : writes) each->ended = true;
    committing_ = false;
  }
  turns_mutex_.Unlock();
}

void Store::Impl::CommitTogether(const std::vector<PendingWrite*>& writes) {
  bool failed = false;
  try {
    const int before = db().getTotalChanges();
    SQLite::Transaction transaction(db(), SQLite::TransactionBehavior::IMMEDIATE);
    if (writes.size() == 1) {
      Run(*writes.front());
    } else {
      bool commits = false;
      for (PendingWrite* write : writes) {
        write->saw_others = commits;
        RunInSavepoint(*write);
        commits = commits || write->commits;
      }
    }
    const auto commits = [](const PendingWrite* write) { return write->commits; };
    const auto first = std::find_if(writes.begin(), writes.end(), commits);
    if (first != writes.end()) {
      const auto begin = std::chrono::steady_clock::now();
      transaction.commit();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if ((*first)->counted) (*first)->counted->seconds = took.count();
      if (db().getTotalChanges() != before) health_ = absl::OkStatus();
    }
  } catch (const SQLite::Exception& error) {
    failed = true;
    Fail(writes, StatusOf(error, file_.path));
  } catch (const std::exception& error) {  // our own bug, or no memory: the others must not wait for ever
    failed = true;
    Fail(writes, absl::InternalError(fmt::format("internal error: {}; please report it", error.what())));
  }
  for (PendingWrite* write : writes) {
    if (!write->commits) {
      write->change = {};
      write->counted.reset();
    }
    if (!write->failure.ok()) {
      health_ = write->failure;
      write->change.failed = true;
      write->counted = StoreCommit{.failed = true};
    }
    if (!write->commits) continue;
    for (const std::string& lease : write->renewals) renewals_.erase(lease);
  }
  if (!failed) return;
  // What refused the others may have been undone.
  for (PendingWrite* write : writes) {
    if (!write->refused || !write->saw_others) continue;
    write->refused = write->saw_others = false;
    CommitTogether({write});
  }
}

void Store::Impl::RunInSavepoint(PendingWrite& write) {
  db().exec("SAVEPOINT write");
  try {
    Run(write);
  } catch (const SQLite::Exception& error) {
    if (sqlite3_get_autocommit(db().getHandle()) != 0) throw;  // the whole transaction is undone
    write.failure = StatusOf(error, file_.path);
  }
  if (!write.commits) db().exec("ROLLBACK TO write");
  db().exec("RELEASE write");
}

void Store::Impl::Run(PendingWrite& write) {
  change_ = {};
  commit_ = {};
  written_renewals_.clear();
  const int before = db().getTotalChanges();
  write.refused = false;
  write.commits = write.run();
  write.refused = !write.commits;
  write.change = std::move(change_);
  if (db().getTotalChanges() != before) write.counted = std::move(commit_);
  write.renewals = std::move(written_renewals_);
}

void Store::Impl::Fail(const std::vector<PendingWrite*>& writes, const absl::Status& failure) {
  for (PendingWrite* write : writes) {
    write->commits = false;
    if (!write->refused && write->failure.ok()) write->failure = failure;
  }
}

std::int64_t Store::Impl::Next(const char* counter) {
  return One<std::int64_t>("UPDATE counters SET value = value + 1 WHERE name = ? RETURNING value", counter);
}

void Store::Impl::Touch(std::int64_t study, std::int64_t trial) {
  const std::int64_t change = Next("change");
  if (trial > 0) Execute("UPDATE trials SET change = ? WHERE study = ? AND number = ?", change, study, trial);
  Execute("UPDATE studies SET change = ? WHERE id = ?", change, study);
  change_.studies.push_back(study);
}

void Store::Impl::SetTrialState(std::int64_t study, std::int64_t trial, v1::TrialState state,
                                const std::string& message) {
  Execute("UPDATE trials SET state = ?, message = ? WHERE study = ? AND number = ?", state, message, study,
          trial);
  Touch(study, trial);
  if (IsEnd(state)) commit_.trials_ended.push_back(state);
}

void Store::Impl::SetJobState(std::int64_t job, std::int64_t study, std::int64_t trial, v1::TrialState state,
                              const std::string& message) {
  Execute("UPDATE jobs SET state = ?, message = ? WHERE id = ?", state, message, job);
  change_.work = true;
  if (trial > 0) {
    SetTrialState(study, trial, state, message);
  } else {
    Touch(study);
  }
}

std::optional<std::string> Store::Impl::FindRequest(const std::string& request_id, const std::string& kind) {
  if (request_id.empty()) return std::nullopt;
  return Find<std::string>("SELECT subject FROM requests WHERE request_id = ? AND kind = ?", request_id,
                           kind);
}

bool Store::Impl::RequestIdTaken(const std::string& request_id) {
  return !request_id.empty() &&
         Find<int>("SELECT 1 FROM requests WHERE request_id = ?", request_id).has_value();
}

absl::Status Store::Impl::RequestIdReused(const std::string& request_id) {
  return absl::AlreadyExistsError(
      fmt::format("request_id {} was used for another request; choose a new one", request_id));
}

void Store::Impl::RememberRequest(const std::string& request_id, const std::string& kind,
                                  const std::string& subject) {
  if (!request_id.empty()) {
    Execute("INSERT INTO requests (request_id, kind, subject) VALUES (?, ?, ?)", request_id, kind, subject);
  }
}

}  // namespace autocfg::server
