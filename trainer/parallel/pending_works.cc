#include "trainer/parallel/pending_works.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace autocfg {
namespace {

// Ranks may outnumber cores: yields at once, and after a while sleeps for a small part of the time already
// waited.
class Idle {
 public:
  void operator()() {
    using namespace std::chrono;
    std::this_thread::yield();
    if (++rounds_ < 256) return;
    const auto now = steady_clock::now();
    if (rounds_ == 256) since_ = now;
    const auto waited = now - since_;
    if (waited < milliseconds(1)) return;
    std::this_thread::sleep_for(std::min<steady_clock::duration>(waited / 16, microseconds(500)));
  }

 private:
  int rounds_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace

std::int64_t PendingWorks::Add(std::unique_ptr<Work> work) {
  entries_.push_back({next_ticket_, std::move(work)});
  return next_ticket_++;
}

void PendingWorks::Wait(std::int64_t ticket) {
  for (Idle idle; IsPending(ticket);) {
    if (entries_.size() == 1) entries_.front().work->Wait();
    TestAll();
    if (IsPending(ticket)) idle();
  }
}

void PendingWorks::WaitAll() {
  for (Idle idle; !entries_.empty();) {
    if (entries_.size() == 1) entries_.front().work->Wait();
    TestAll();
    if (!entries_.empty()) idle();
  }
}

void PendingWorks::Run(std::unique_ptr<Work> work) {
  for (Idle idle; !entries_.empty(); idle()) {
    if (work->Test()) return;
    TestAll();
  }
  work->Wait();
}

void PendingWorks::TestAll() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.work->Test(); });
}

bool PendingWorks::IsPending(std::int64_t ticket) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.ticket == ticket; });
}

}  // namespace autocfg
