#include "trainer/comm/waiting.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace autocfg::trainer {
namespace {

class CountedWork final : public ScopedWork {
 public:
  explicit CountedWork(int& waits, bool fails = false) : waits_(waits), fails_(fails) {}
  ~CountedWork() override { WaitUnlessUnwinding(); }
  void Wait() override {
    ++waits_;
    if (fails_) throw CommError("it has ended");
  }
  bool Test() override { return false; }

 private:
  int& waits_;
  const bool fails_;
};

TEST(ScopedWork, DestructorWaits) {
  int waits = 0;
  { const CountedWork work(waits); }
  EXPECT_EQ(waits, 1);
  { const CountedWork work(waits, /*fails=*/true); }
  EXPECT_EQ(waits, 2) << "and nothing is thrown";
}

TEST(ScopedWork, DestructorDoesNotWaitDuringUnwinding) {
  int waits = 0;
  try {
    const CountedWork work(waits);
    throw std::runtime_error("of another peer");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(waits, 0);
}

struct AtEnd {
  int& waits;
  ~AtEnd() { const CountedWork work(waits); }
};

TEST(ScopedWork, DestructorWaitsIfCreatedDuringUnwinding) {
  int waits = 0;
  try {
    const AtEnd cleanup{waits};
    throw std::runtime_error("before the work was made");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(waits, 1);
}

}  // namespace
}  // namespace autocfg::trainer
