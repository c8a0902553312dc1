#include <gtest/gtest.h>

#include "tests/conformance/rank_threads.h"
#include "trainer/comm/group.h"

namespace autocfg::trainer {
namespace {

OpDesc Op(OpKind kind, DType dtype, CommGroup group, int size, std::int64_t n) {
  OpDesc op;
  op.kind = kind;
  op.dtype = dtype;
  op.group = group;
  op.group_size = size;
  op.dims[0] = n;
  return op;
}

TEST(RecordingWorld, RecordsEachOperationAsIssued) {
  OpLog log;
  auto world = CreateRecordingWorld(CreateNullWorld(1, 4), log);
  auto tensor = world->CreateGroup(CommGroup::kTensor, {0, 1}, Tensor{});
  auto pipeline = world->CreateGroup(CommGroup::kPipeline, {1, 2, 3}, Tensor{});
  auto alone = world->CreateGroup(CommGroup::kData, {1}, Tensor{});
  HostStream stream;
  Buffer<float> f(12);
  Buffer<double> d(2);
  tensor->AllReduce(f.tensor().Reshape({3, 4}), ReduceOp::kSum, stream);
  tensor->AllReduce(d.tensor(), ReduceOp::kMax, stream);
  tensor->ReduceScatter(f.tensor(), PartOf(f.tensor(), 1, 2), ReduceOp::kSum, stream);
  tensor->AllGather(PartOf(d.tensor(), 1, 2), d.tensor(), stream);
  pipeline->Send(f.tensor(), 2, 0, stream);
  pipeline->Barrier();
  pipeline->Recv(f.tensor(), 1, 1, stream);
  alone->AllReduce(f.tensor(), ReduceOp::kSum, stream);
  alone->ReduceScatter(f.tensor(), f.tensor(), ReduceOp::kSum, stream);
  alone->AllGather(f.tensor(), f.tensor(), stream);
  const std::vector<OpDesc> expected = {
      Op(OpKind::kAllReduceSum, DType::kF32, CommGroup::kTensor, 2, 12),
      Op(OpKind::kAllReduceMax, DType::kF64, CommGroup::kTensor, 2, 2),
      Op(OpKind::kReduceScatter, DType::kF32, CommGroup::kTensor, 2, 12),
      Op(OpKind::kAllGather, DType::kF64, CommGroup::kTensor, 2, 2),
      Op(OpKind::kSend, DType::kF32, CommGroup::kPipeline, 3, 12),
      Op(OpKind::kRecv, DType::kF32, CommGroup::kPipeline, 3, 12),
  };
  EXPECT_EQ(log.ops(), expected);
}

TEST(RecordingWorld, DoesNotRecordRejectedOperations) {
  OpLog log;
  auto world = CreateRecordingWorld(CreateNullWorld(0, 2), log);
  auto group = world->CreateGroup(CommGroup::kTensor, {0, 1}, Tensor{});
  HostStream stream;
  Buffer<float> f(12);
  EXPECT_THROW(group->Send(f.tensor(), 5, 0, stream), CommError);
  Buffer<float> odd(13);
  EXPECT_THROW(group->ReduceScatter(odd.tensor(), f.tensor(), ReduceOp::kSum, stream), CommError);
  EXPECT_THROW(group->AllGather(f.tensor(), odd.tensor(), stream), CommError);
  EXPECT_TRUE(log.ops().empty());
}

}  // namespace
}  // namespace autocfg::trainer
