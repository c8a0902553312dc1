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
        [&](const v1::Progress& progress, const v1::CalibrateResult& timed) {
          EXPECT_TRUE(timed.ops().empty());
          sent.push_back(progress.ops_passed());
          if (sent.size() == 2) {
            second.Notify();
            return true;
          }
          sending.Notify();
          go_on.WaitForNotification();
          return true;
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
        [&](const v1::Progress&, const v1::CalibrateResult&) {
          ++sent;
          sending.Notify();
          cancelled.WaitForNotification();
          return true;
        },
        [&] { cancelled.Notify(); });
    sender.Set(Passed(1));
    sending.WaitForNotification();
    sender.Set(Passed(2));
  }
  EXPECT_EQ(sent, 1);
  const ProgressSender idle([](const v1::Progress&, const v1::CalibrateResult&) { return true; }, [] {});
}

v1::CalibrateResult Timed(const std::vector<double>& seconds, std::int64_t overhead) {
  v1::CalibrateResult timed;
  for (const double s : seconds) timed.add_ops()->set_seconds(s);
  timed.set_device_overhead_bytes(overhead);
  return timed;
}

// Op times, unlike progress, all arrive: what was not delivered comes before what is new.
TEST(ProgressSender, SendsOpTimesUntilTheyAreDelivered) {
  absl::Notification sending, go_on, second;
  std::vector<double> sent;
  {
    ProgressSender sender(
        [&](const v1::Progress&, const v1::CalibrateResult& timed) {
          if (!sending.HasBeenNotified()) {
            EXPECT_EQ(timed.ops_size(), 1);
            sending.Notify();
            go_on.WaitForNotification();
            return false;
          }
          for (const v1::OpTime& time : timed.ops()) sent.push_back(time.seconds());
          EXPECT_EQ(timed.device_overhead_bytes(), 7);
          second.Notify();
          return true;
        },
        [] {});
    sender.Add(Timed({1}, 7));
    sender.Set(Passed(1));
    sending.WaitForNotification();
    sender.Add(Timed({2, 3}, 7));
    sender.Set(Passed(3));
    go_on.Notify();
    second.WaitForNotification();
  }
  EXPECT_EQ(sent, (std::vector<double>{1, 2, 3}));
}

}  // namespace
}  // namespace autocfg::worker
