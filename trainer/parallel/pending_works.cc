#include "trainer/parallel/pending_works.h"

#include <algorithm>
#include <utility>

#include "trainer/comm/waiting.h"

namespace autocfg::trainer {

std::int64_t PendingWorks::Add(std::unique_ptr<Work> work, std::function<void()> at_end) {
  entries_.push_back({next_ticket_, std::move(work), std::move(at_end)});
  return next_ticket_++;
}

void PendingWorks::Wait(std::int64_t ticket) {
  for (Idle idle; IsPending(ticket);) {
    if (entries_.size() == 1) entries_.front().work->Wait();
    TestAll();
    if (IsPending(ticket)) idle();
  }
  if (const auto it = ready_.find(ticket); it != ready_.end()) {
    it->second.Finish();
    ready_.erase(it);
  }
}

void PendingWorks::WaitAll() {
  for (Idle idle; !entries_.empty();) {
    if (entries_.size() == 1) entries_.front().work->Wait();
    TestAll();
    if (!entries_.empty()) idle();
  }
  for (const auto& [ticket, entry] : ready_) entry.Finish();
  ready_.clear();
}

void PendingWorks::Run(std::unique_ptr<Work> work) {
  for (Idle idle; !entries_.empty() && !work->Test(); idle()) TestAll();
  work->Wait();
}

void PendingWorks::TestAll() {
  std::erase_if(entries_, [this](Entry& entry) {
    if (!entry.work->Test()) return false;
    const std::int64_t ticket = entry.ticket;
    ready_.emplace(ticket, std::move(entry));
    return true;
  });
}

bool PendingWorks::IsPending(std::int64_t ticket) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.ticket == ticket; });
}

}  // namespace autocfg::trainer
