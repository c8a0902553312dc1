#include "trainer/calibrate/timing_order.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace autocfg::trainer {

GroupKey GroupOf(const OpDesc& op) {
  switch (PatternOf(op.kind)) {
    case CommPattern::kNone: return {};
    case CommPattern::kMessage: return {CommGroup::kPipeline, 2};
    case CommPattern::kAllReduce:
    case CommPattern::kReduceScatter:
    case CommPattern::kAllGather: return {op.group, op.group_size};
  }
  return {};
}

std::vector<TimingTurn> TimingOrder(const std::vector<OpDesc>& ops) {
  std::vector<TimingTurn> turns(ops.size());
  std::map<GroupKey, std::size_t> of_group;
  std::map<std::pair<GroupKey, bool>, int> of_class;
  std::map<std::tuple<OpKind, Epilogue, CommGroup, std::int32_t>, int> of_family;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const OpDesc& op = ops[i];
    const GroupKey group = GroupOf(op);
    ++of_group[group];
    const bool first = of_class[{group, Flops(op) > 0}]++ == 0;
    const bool family = of_family[{op.kind, op.epilogue, op.group, op.group_size}]++ < 2;
    turns[i] = {.op = i, .need = first ? Need::kVital : family ? Need::kFamily : Need::kRest};
  }
  std::map<GroupKey, double> due;
  std::size_t until = 0;
  for (const auto& [group, count] : of_group)
    due[group] = static_cast<double>(until += count) / static_cast<double>(ops.size());
  for (TimingTurn& turn : turns) turn.due = due.at(GroupOf(ops[turn.op]));
  std::stable_sort(turns.begin(), turns.end(), [&](const TimingTurn& a, const TimingTurn& b) {
    return std::tuple(GroupOf(ops[a.op]), a.need) < std::tuple(GroupOf(ops[b.op]), b.need);
  });
  return turns;
}

bool LeavesOut(const TimingTurn& turn, double elapsed_s, double limit_s) {
  if (limit_s <= 0) return false;
  switch (turn.need) {
    case Need::kVital: return false;
    case Need::kFamily: return elapsed_s > 2 * limit_s;
    case Need::kRest: return elapsed_s > turn.due * limit_s;
  }
  return false;
}

}  // namespace autocfg::trainer
