// Communication that a rank has issued and not yet waited for. Whoever waits for one operation here drives
// all of them, so no operation depends on progress that a communicator does not promise. One rank, one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "trainer/comm/communicator.h"

namespace autocfg {

class PendingWorks {
 public:
  PendingWorks() = default;
  PendingWorks(const PendingWorks&) = delete;
  PendingWorks& operator=(const PendingWorks&) = delete;

  // Keeps an operation until something waits for it. Returns its ticket. `at_end` (may be empty) is called
  // once, after Work::Wait.
  std::int64_t Add(std::unique_ptr<Work> work, std::function<void()> at_end = {});

  // Return when that operation, or every operation, needs no more progress from the host and has been waited
  // for, so that work issued from here on may use its buffers: where a communicator keeps a clock, or orders
  // a stream behind the operation, only waiting does it. Throw CommError. A ticket may be waited for again.
  void Wait(std::int64_t ticket);
  void WaitAll();

  // Waits for an operation, driving the others meanwhile.
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

  void TestAll();  // moves those that need nothing but to be waited for to ready_
  bool IsPending(std::int64_t ticket) const;

  std::vector<Entry> entries_;
  std::map<std::int64_t, Entry> ready_;  // by ticket
  std::int64_t next_ticket_ = 0;
};

}  // namespace autocfg
