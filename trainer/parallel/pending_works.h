// In-flight communication of a rank. Waiting for one operation drives all of them, so no operation depends on
// progress that a communicator does not guarantee. While the rank computes, Progress drives them
// (progressing_ops.h). One rank, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "trainer/comm/communicator.h"

namespace autocfg::trainer {

class PendingWorks {
 public:
  PendingWorks() = default;
  PendingWorks(const PendingWorks&) = delete;
  PendingWorks& operator=(const PendingWorks&) = delete;

  // Keeps an operation until it is waited for. Returns its ticket. `at_end` (may be empty) is called once,
  // after Work::Wait.
  std::int64_t Add(std::unique_ptr<Work> work, std::function<void()> at_end = {});

  // Wait until one operation, or all operations, need no more progress from the host, and wait for each. Work
  // issued afterwards may then use their buffers. Work::Wait is always called, since a communicator may
  // update its clock, or order a stream after the operation, only there. Throw CommError. A ticket may be
  // waited for repeatedly.
  void Wait(std::int64_t ticket);
  void WaitAll();

  // Makes all operations progress as far as they can without waiting. Throws CommError.
  void Progress() {
    if (!entries_.empty()) TestAll();
  }

  // Waits for an operation and drives the others meanwhile.
  void Run(std::unique_ptr<Work> work);

 private:
  struct Entry {
    std::int64_t ticket;
    std::unique_ptr<Work> work;
    std::function<void()> at_end;

    void Finish() const {
      work->Wait();
      if (at_end) at_end();
    }
  };

  void TestAll();  // moves operations that only need Work::Wait to ready_
  bool IsPending(std::int64_t ticket) const;

  std::vector<Entry> entries_;
  std::map<std::int64_t, Entry> ready_;  // by ticket
  std::int64_t next_ticket_ = 0;
};

}  // namespace autocfg::trainer
