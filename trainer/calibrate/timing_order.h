// The order in which a calibration times its ops, and which it may leave out once its time is up. Pure,
// thread-safe.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/ops/op_desc.h"

namespace autocfg::trainer {

// The communicator on which an op is timed. Ops with the same key are timed consecutively while it exists,
// since a library may take a second to create one.
struct GroupKey {
  CommGroup name = CommGroup::kNone;  // kNone: compute, no communicator
  std::int64_t size = 0;

  auto operator<=>(const GroupKey&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// A message is timed between two neighbours, whatever the number of stages.
GroupKey GroupOf(const OpDesc& op);

// How much the estimates of other ops rest on an op.
enum class Need : std::uint8_t {
  kVital,   // without it, ops exist that cannot be estimated: the first of a group; of compute, the first op
            // with FLOPs and the first without
  kFamily,  // one of the first two of its kind, epilogue and group
  kRest,
};

struct TimingTurn {
  std::size_t op = 0;  // its place in the list
  Need need = Need::kRest;
  // The share of the calibration's time that has passed when the op's group should be over: that of the ops
  // up to there.
  double due = 1;
};

// Returns a turn for each op: group after group, within a group by need, then in the order of the list, in
// which the ops that matter most come first.
std::vector<TimingTurn> TimingOrder(const std::vector<OpDesc>& ops);

// Returns true if an op is left out after `elapsed_s` of a calibration that has `limit_s` (0: no limit). Ops
// of need kRest are left out once their group's share of the limit is over; the first ones of a family once
// twice the limit is over.
bool LeavesOut(const TimingTurn& turn, double elapsed_s, double limit_s);

}  // namespace autocfg::trainer
