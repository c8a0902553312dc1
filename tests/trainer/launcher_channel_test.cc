// Tests a rank's end of its socket. tests/worker/processes/process_launcher_test.cc tests that a rank ends
// with its launcher.
#include "trainer/program/launcher_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "proto/framing.h"
#include "proto/rank_messages.h"
#include "trainer/comm/communicator.h"

namespace autocfg::trainer {
namespace {

v1::LauncherMessage RunSpecFor(int rank, int size) {
  v1::LauncherMessage message;
  message.mutable_run_spec()->set_rank(rank);
  message.mutable_run_spec()->set_world_size(size);
  return message;
}

std::string WhatItThrows(int fd) {
  try {
    LauncherChannel channel(fd);
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

class LauncherChannelTest : public testing::Test {
 protected:
  LauncherChannelTest() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_), 0); }
  ~LauncherChannelTest() override { ::close(launcher()); }  // the channel closes its own end
  int launcher() const { return fds_[0]; }
  int rank() const { return fds_[1]; }

 private:
  int fds_[2] = {-1, -1};
};

TEST_F(LauncherChannelTest, ReadsTheRunSpecGathersAndReports) {
  ASSERT_TRUE(WriteFrame(launcher(), RunSpecFor(1, 2)).ok());
  LauncherChannel channel(rank());
  EXPECT_EQ(channel.rank(), 1);
  EXPECT_EQ(channel.size(), 2);

  v1::RankMessage asked;
  std::thread launching([&] {
    EXPECT_TRUE(ReadFrame(launcher(), asked).ok());
    v1::LauncherMessage reply;
    reply.mutable_gather_reply()->set_name("x");
    reply.mutable_gather_reply()->add_values(std::string("a"));
    reply.mutable_gather_reply()->add_values(std::string("b\0", 2));
    EXPECT_TRUE(WriteFrame(launcher(), reply).ok());
  });
  EXPECT_EQ(channel.AllGather("x", "mine"), (std::vector<std::string>{"a", std::string("b\0", 2)}));
  launching.join();
  EXPECT_EQ(asked.gather_request().name(), "x");
  EXPECT_EQ(asked.gather_request().value(), "mine");

  v1::RankMessage report;
  report.mutable_progress()->set_step(3);
  channel.Send(report);
  v1::RankMessage received;
  ASSERT_TRUE(ReadFrame(launcher(), received).ok());
  EXPECT_EQ(received.progress().step(), 3);
}

TEST_F(LauncherChannelTest, SendsLargeResultsInParts) {
  ASSERT_TRUE(WriteFrame(launcher(), RunSpecFor(0, 1)).ok());
  LauncherChannel channel(rank());
  v1::RankMessage result;
  for (int step = 0; step < 100'000; ++step) result.mutable_train_result()->add_losses(step);
  std::thread sending([&] { channel.Send(result); });
  v1::RankMessage whole;
  int parts = 0;
  for (bool more = true; more; ++parts) {
    v1::RankMessage part;
    EXPECT_TRUE(ReadFrame(launcher(), part).ok());
    EXPECT_LE(part.ByteSizeLong(), kMaxRankMessageBytes);
    more = part.more();
    whole.MergeFrom(part);
  }
  sending.join();
  EXPECT_GT(parts, 10);
  EXPECT_EQ(whole.train_result().SerializeAsString(), result.train_result().SerializeAsString());
}

TEST_F(LauncherChannelTest, OtherLargeMessagesAreErrorsOfTheRank) {
  ASSERT_TRUE(WriteFrame(launcher(), RunSpecFor(0, 1)).ok());
  LauncherChannel channel(rank());
  EXPECT_THROW(channel.AllGather("x", std::string(kMaxRankMessageBytes, 'x')), std::length_error);
  v1::RankMessage report;
  report.mutable_progress()->set_step(3);
  channel.Send(report);
  v1::RankMessage received;
  ASSERT_TRUE(ReadFrame(launcher(), received).ok());
  EXPECT_EQ(received.progress().step(), 3) << "nothing was sent before";
}

TEST_F(LauncherChannelTest, RejectsRepliesToAnotherGathering) {
  ASSERT_TRUE(WriteFrame(launcher(), RunSpecFor(0, 2)).ok());
  LauncherChannel channel(rank());
  v1::LauncherMessage other_name, too_few;
  other_name.mutable_gather_reply()->set_name("y");
  other_name.mutable_gather_reply()->add_values(std::string("a"));
  other_name.mutable_gather_reply()->add_values(std::string("b"));
  too_few.mutable_gather_reply()->set_name("x");
  too_few.mutable_gather_reply()->add_values(std::string("a"));
  for (const auto& reply : {other_name, too_few, RunSpecFor(0, 2)}) {
    ASSERT_TRUE(WriteFrame(launcher(), reply).ok());
    EXPECT_THROW(channel.AllGather("x", ""), CommError);
  }
}

TEST_F(LauncherChannelTest, KnowsRequestsToStop) {
  ASSERT_TRUE(WriteFrame(launcher(), RunSpecFor(0, 1)).ok());
  LauncherChannel channel(rank());
  EXPECT_FALSE(channel.StopRequested()) << "and it does not wait for one";
  v1::LauncherMessage stop, reply;
  stop.mutable_stop();
  reply.mutable_gather_reply()->set_name("x");
  reply.mutable_gather_reply()->add_values(std::string("a"));
  ASSERT_TRUE(WriteFrame(launcher(), stop).ok());
  ASSERT_TRUE(WriteFrame(launcher(), reply).ok());
  EXPECT_EQ(channel.AllGather("x", "a").size(), 1u) << "a request may come before a reply";
  EXPECT_TRUE(channel.StopRequested());
  EXPECT_TRUE(channel.StopRequested()) << "once asked, for good";
}

TEST_F(LauncherChannelTest, RejectsMessagesThatNothingAskedFor) {
  ASSERT_TRUE(WriteFrame(launcher(), RunSpecFor(0, 1)).ok());
  LauncherChannel channel(rank());
  ASSERT_TRUE(WriteFrame(launcher(), RunSpecFor(0, 1)).ok());
  EXPECT_THROW(channel.StopRequested(), CommError);
}

TEST_F(LauncherChannelTest, RejectsRunSpecWithInvalidRank) {
  ASSERT_TRUE(WriteFrame(launcher(), RunSpecFor(2, 2)).ok());
  EXPECT_EQ(WhatItThrows(rank()), "the run spec is for rank 2 of 2");
  ::close(rank());
}

TEST_F(LauncherChannelTest, RejectsOtherFirstMessages) {
  v1::LauncherMessage reply;
  reply.mutable_gather_reply()->set_name("x");
  ASSERT_TRUE(WriteFrame(launcher(), reply).ok());
  EXPECT_EQ(WhatItThrows(rank()), "the launcher's first message is not a run spec");
  ::close(rank());
}

TEST_F(LauncherChannelTest, ReportsClosedLauncher) {
  ::shutdown(launcher(), SHUT_RDWR);
  EXPECT_EQ(WhatItThrows(rank()), "no run spec from the launcher: the other side has closed the connection");
  ::close(rank());
}

TEST(LauncherChannel, ReportsMissingLauncher) {
  EXPECT_EQ(WhatItThrows(987),
            "no launcher at file descriptor 987 (Bad file descriptor): this program is started by autocfg");
}

}  // namespace
}  // namespace autocfg::trainer
