// The virtual clock without communication: ops run in sequence on the stream, and the host's time advances
// when it synchronizes.
#include "kernels/paced/paced_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "kernels/dry/dry_device.h"

namespace autocfg {
namespace {

Tensor Nowhere(std::int64_t n) { return {.rank = 1, .shape = {n}}; }

double Seconds(const OpDesc& op) {
  if (op.kind != OpKind::kFill) throw std::out_of_range("no time of " + ToString(op));
  return 0.5 * static_cast<double>(op.dims[0]);
}

TEST(PacedDevice, AdvancesByTheTimeOfEachOp) {
  OpLog log;
  PacedClock clock(Seconds, &log);
  const auto device = CreatePacedDevice(clock);
  const auto ops = CreateDryOps(clock);
  const auto stream = device->CreateStream();
  ops->Fill(Nowhere(4), 0, *stream);
  ops->Fill(Nowhere(2), 0, *stream);
  EXPECT_EQ(clock.HostSeconds(), 0) << "ops are issued, not waited for";
  EXPECT_EQ(clock.StreamSeconds(), 3);
  stream->Synchronize();
  EXPECT_EQ(clock.HostSeconds(), 3);
  clock.HostWaitsUntil(10);
  clock.HostWaitsUntil(7);
  ops->Fill(Nowhere(2), 0, *stream);
  EXPECT_EQ(clock.StreamSeconds(), 11) << "an op starts no earlier than it is issued";
  EXPECT_EQ(log.ops().size(), 3u);
  clock.Restart();
  EXPECT_EQ(clock.StreamSeconds(), 0);
}

// A forward or backward takes its ops and their issue, hosted_time.h says how together; other ops take only
// their own time.
TEST(PacedDevice, HostTimeMayExceedOpTime) {
  PacedClock clock(Seconds, nullptr, 2);
  const auto device = CreatePacedDevice(clock);
  const auto ops = CreateDryOps(clock);
  const auto stream = device->CreateStream();
  ops->Fill(Nowhere(2), 0, *stream);
  EXPECT_EQ(clock.StreamSeconds(), 1);
  clock.BeginIssues();
  ops->Fill(Nowhere(2), 0, *stream);
  ops->Fill(Nowhere(4), 0, *stream);
  EXPECT_EQ(clock.StreamSeconds(), 4);
  clock.EndIssues();
  const double first = 1 + std::pow(3 * 3 * 3 * 3 + 4 * 4 * 4 * 4, 0.25);
  EXPECT_DOUBLE_EQ(clock.StreamSeconds(), first)
      << "two issues of 2 s, and 3 s of work, from the first second on";
  clock.BeginIssues();
  ops->Fill(Nowhere(10), 0, *stream);
  clock.EndIssues();
  EXPECT_DOUBLE_EQ(clock.StreamSeconds(), first + std::pow(5 * 5 * 5 * 5 + 2 * 2 * 2 * 2, 0.25))
      << "one of 2 s, while 5 s of work run";
}

TEST(PacedDevice, ThrowsForOpsOfUnknownTime) {
  PacedClock clock(Seconds);
  const auto device = CreatePacedDevice(clock);
  const auto ops = CreateDryOps(clock);
  const auto stream = device->CreateStream();
  const Tensor square{.rank = 2, .shape = {2, 2}};
  EXPECT_THROW(ops->ResidualAdd(square, square, *stream), std::out_of_range);
  EXPECT_THROW(ops->ResidualAdd(square, Nowhere(4), *stream), std::invalid_argument) << "shapes are checked";
}

}  // namespace
}  // namespace autocfg
