#include "trainer/calibrate/timing_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace autocfg::trainer {
namespace {

using ::testing::ElementsAre;

OpDesc Compute(OpKind kind, std::int64_t size) {
  return {.kind = kind, .dtype = DType::kF32, .dims = {size, size, size}};
}

OpDesc Reduce(CommGroup group, std::int32_t ranks, std::int64_t size) {
  OpDesc op = Compute(OpKind::kAllReduceSum, size);
  op.group = group;
  op.group_size = ranks;
  return op;
}

std::vector<std::size_t> Places(const std::vector<TimingTurn>& turns) {
  std::vector<std::size_t> places;
  for (const TimingTurn& turn : turns) places.push_back(turn.op);
  return places;
}

TEST(TimingOrder, TakesGroupAfterGroupAndTheNeededOpsFirst) {
  const std::vector<OpDesc> ops = {
      Compute(OpKind::kMatmul, 1),        // vital: the first with FLOPs
      Compute(OpKind::kMatmul, 2),        // of its family
      Compute(OpKind::kMatmul, 3),        //
      Reduce(CommGroup::kTensor, 2, 10),  // vital: the first of its group
      Compute(OpKind::kFill, 1),          // vital: the first without FLOPs
      Reduce(CommGroup::kTensor, 4, 10),  // vital
      Compute(OpKind::kFill, 2),          // of its family
      Reduce(CommGroup::kTensor, 2, 20),  // of its family
      Reduce(CommGroup::kTensor, 2, 30),  //
      Compute(OpKind::kFill, 3),          //
  };
  const std::vector<TimingTurn> turns = TimingOrder(ops);
  EXPECT_THAT(Places(turns), ElementsAre(0, 4, 1, 6, 2, 9, 3, 7, 8, 5));
  std::vector<Need> needs;
  std::vector<double> due;
  for (const TimingTurn& turn : turns) {
    needs.push_back(turn.need);
    due.push_back(turn.due);
  }
  EXPECT_THAT(needs, ElementsAre(Need::kVital, Need::kVital, Need::kFamily, Need::kFamily, Need::kRest,
                                 Need::kRest, Need::kVital, Need::kFamily, Need::kRest, Need::kVital));
  EXPECT_THAT(due, ElementsAre(0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.9, 0.9, 0.9, 1.0));
  EXPECT_TRUE(TimingOrder({}).empty());
}

TEST(TimingOrder, LeavesOutWhatIsNotNeededOnceTimeIsUp) {
  const TimingTurn vital{.need = Need::kVital, .due = 0.5}, family{.need = Need::kFamily, .due = 0.5},
      rest{.need = Need::kRest, .due = 0.5};
  EXPECT_FALSE(LeavesOut(vital, 1000, 10));
  EXPECT_FALSE(LeavesOut(family, 19.9, 10));
  EXPECT_TRUE(LeavesOut(family, 20.1, 10));
  EXPECT_FALSE(LeavesOut(rest, 4.9, 10));
  EXPECT_TRUE(LeavesOut(rest, 5.1, 10));
  EXPECT_FALSE(LeavesOut(rest, 1000, 0)) << "there is no limit";
}

}  // namespace
}  // namespace autocfg::trainer
