// What a layer needs to run: the device's ops on one stream, and the rank's groups. One rank, one thread.
#pragma once

#include "kernels/device.h"
#include "kernels/ops.h"
#include "trainer/parallel/groups.h"
#include "trainer/parallel/pending_works.h"

namespace autocfg::trainer {

struct Execution {
  Ops& ops;
  Stream& stream;
  Groups& groups;
  PendingWorks& pending;

  // Replaces `tensor` by its reduction over `group`, for all work issued on the stream from now on. Does
  // nothing if `group` is null (a group of one rank).
  void AllReduce(const std::unique_ptr<Communicator>& group, const Tensor& tensor, ReduceOp op) const {
    if (group != nullptr) pending.Run(group->AllReduce(tensor, op, stream));
  }
};

}  // namespace autocfg::trainer
