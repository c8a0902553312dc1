#include "worker/jobs/progress_sender.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace autocfg::worker {
namespace {

v1::Progress Passed(std::int64_t ops) {
  v1::Progress progress;
  progress.set_ops_passed(ops);
  return progress;
}

TEST(ProgressSender, SendsTheNewestValueOfThoseThatCameMeanwhile) {
  absl::Notification sending, go_on, second;
  std::vector<std::int64_t> sent;
  {
    ProgressSender sender(
        [&](const v1::Progress& progress) {
          sent.push_back(progress.ops_passed());
          if (sent.size() == 2) return second.Notify();
          sending.Notify();
          go_on.WaitForNotification();
        },
        [] {});
    sender.Set(Passed(1));
    sending.WaitForNotification();
    for (const std::int64_t ops : {2, 3, 4}) sender.Set(Passed(ops));
    go_on.Notify();
    second.WaitForNotification();
  }
  EXPECT_EQ(sent, (std::vector<std::int64_t>{1, 4}));
}

// A call in flight is cancelled, and what waits for its turn is dropped.
TEST(ProgressSender, EndsAtOnce) {
  absl::Notification sending, cancelled;
  int sent = 0;
  {
    ProgressSender sender(
        [&](const v1::Progress&) {
          ++sent;
          sending.Notify();
          cancelled.WaitForNotification();
        },
        [&] { cancelled.Notify(); });
    sender.Set(Passed(1));
    sending.WaitForNotification();
    sender.Set(Passed(2));
  }
  EXPECT_EQ(sent, 1);
  const ProgressSender idle([](const v1::Progress&) {}, [] {});
}

}  // namespace
}  // namespace autocfg::worker
