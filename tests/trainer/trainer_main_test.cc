// Tests which error code each exception is converted to.
#include "trainer/program/trainer_main.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "kernels/device.h"
#include "proto/rank_messages.h"
#include "trainer/comm/communicator.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

template <typename E>
v1::RankError Of(const E& e) {
  return ToRankError(std::make_exception_ptr(e));
}

TEST(ToRankError, MapsEachTypeToItsCode) {
  EXPECT_EQ(Of(BadInput("x")).code(), "INVALID_ARGUMENT");
  EXPECT_EQ(Of(NotSupported("x")).code(), "UNIMPLEMENTED");
  EXPECT_EQ(Of(CommError("x")).code(), "UNAVAILABLE");
  EXPECT_EQ(Of(DeviceError("x")).code(), "INTERNAL");
  EXPECT_EQ(Of(std::logic_error("x")).code(), "INTERNAL");
  EXPECT_EQ(Of(std::bad_alloc()).code(), "RESOURCE_EXHAUSTED");
  const v1::RankError fit = Of(DoesNotFit(12, "activations", "too\nlarge"));
  EXPECT_EQ(fit.code(), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(fit.over_bytes(), 12);
  EXPECT_EQ(fit.region(), "activations");
  EXPECT_EQ(fit.message(), "too large") << "one line";
  EXPECT_EQ(Of(DeviceOutOfMemory(10, 4, "x")).over_bytes(), 6);
  EXPECT_EQ(Of(DeviceOutOfMemory(10, -1, "x")).over_bytes(), 10);
  EXPECT_EQ(Of(DeviceOutOfMemory(4, 10, "x")).over_bytes(), 0) << "fragmented memory";
  EXPECT_EQ(Of(DeviceOutOfMemory(-1, 4, "x")).over_bytes(), 0)
      << "a library that does not report the requested size";
}

// The launcher takes messages of a limited size, and no text that is not UTF-8.
TEST(ToRankError, CutsAndCleansMessages) {
  const v1::RankError error = Of(BadInput("no file \xff" + std::string(1'000'000, 'x')));
  EXPECT_TRUE(error.message().starts_with("no file ?xxx")) << error.message().substr(0, 20);
  EXPECT_LE(error.message().size(), kMaxRankErrorBytes + 3);
  EXPECT_LT(error.ByteSizeLong(), kMaxRankMessageBytes);
}

}  // namespace
}  // namespace autocfg::trainer
