// Calls that wait: the threads that run them, and callers that leave.
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/services/call_threads.h"
#include "server/services/parked_reactor.h"

namespace autocfg::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(CallThreads, ACallThatWaitsHoldsUpNoOther) {
  std::atomic<bool> second = false;
  CallThreads threads(2);
  threads.Run([&] {
    while (!second) std::this_thread::yield();
  });
  threads.Run([&] { second = true; });
}

TEST(CallThreads, EndAfterTheCallsThatWereGiven) {
  std::vector<int> ran;
  {
    CallThreads threads(1);
    for (int i = 0; i < 100; ++i) threads.Run([&ran, i] { ran.push_back(i); });
  }
  ASSERT_EQ(ran.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

class ParkedReactorTest : public testing::Test {
 protected:
  ParkedReactor* New() {
    return new ParkedReactor(
        &context_, [this, alive = alive_](CallId id, bool broke) { gone_.emplace_back(id, broke); });
  }
  bool deleted() const { return alive_.use_count() == 1; }

  grpc::CallbackServerContext context_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // each reactor has a copy
  std::vector<std::pair<CallId, bool>> gone_;
};

TEST_F(ParkedReactorTest, CallerThatLeavesIsSaidByItsId) {
  ParkedReactor* const call = New();
  call->Park([] { return CallId{7}; });
  EXPECT_FALSE(call->caller_gone());
  call->OnCancel();
  EXPECT_THAT(gone_, ElementsAre(Pair(7, true)));
  EXPECT_TRUE(call->caller_gone());
  EXPECT_FALSE(deleted());
  call->OnDone();
  EXPECT_TRUE(deleted());
}

TEST_F(ParkedReactorTest, CallerThatLeavesBeforeTheCallIsParkedIsSaidThen) {
  ParkedReactor* const call = New();
  call->Park([&] {
    call->OnCancel();
    EXPECT_THAT(gone_, IsEmpty()) << "nobody knows its ID yet";
    return CallId{7};
  });
  EXPECT_THAT(gone_, ElementsAre(Pair(7, true)));
  EXPECT_FALSE(deleted());
  call->OnDone();
  EXPECT_TRUE(deleted());
}

TEST_F(ParkedReactorTest, CallThatIsDoneBeforeItsParkingEndsLivesUntilThen) {
  ParkedReactor* const call = New();
  bool undelivered = false;
  call->set_undelivered([&] { undelivered = true; });
  call->Park([&] {
    call->OnDone();
    EXPECT_FALSE(deleted());
    return CallId{0};
  });
  EXPECT_TRUE(deleted());
  EXPECT_THAT(gone_, IsEmpty());
  EXPECT_FALSE(undelivered) << "the caller did not leave";
}

}  // namespace
}  // namespace autocfg::server
