// Interrupts long statements.
#pragma once

#include <sqlite3.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "SQLiteCpp/Database.h"

namespace autocfg::server {

// Interrupts the statement that runs on a connection once `stop` returns true, as long as it exists: the
// statement then fails with SQLITE_INTERRUPT. Polls `stop` every 50 ms on a thread of its own.
class StopWatch {
 public:
  StopWatch(SQLite::Database& db, const std::function<bool()>& stop) {
    if (!stop) return;
    thread_ = std::jthread([this, &stop, db = db.getHandle()](const std::stop_token& end) {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, end, kPoll, [&end] { return end.stop_requested(); })) {
        // Again and again: SQLite forgets an interruption between two statements.
        if (stop()) sqlite3_interrupt(db);
      }
    });
  }

 private:
  static constexpr std::chrono::milliseconds kPoll{50};
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // the last member, so that it ends before the others
};

}  // namespace autocfg::server
