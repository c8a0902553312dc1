// Makes the communicators of one rank. A CommWorld holds what the groups share (endpoints, addresses). It
// must outlive its communicators and be used from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/op_log.h"
#include "search/ops/op_desc.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/rendezvous.h"

namespace autocfg {

class CommWorld {
 public:
  virtual ~CommWorld() = default;

  // The communicator of a group of global ranks (ascending, contains this rank). Every member calls it, in
  // the same order among the groups that it shares with another. `staging` (kCollectiveStagingBytes of the
  // arena, as kI32 or any type) is used while reducing; it may be empty for a group of one or on a world that
  // moves nothing.
  virtual std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                                    const Tensor& staging) = 0;
};

// UCX over host memory: shared memory within a node, sockets or RDMA between nodes. Making it and destroying
// it are collective over the rendezvous, which must outlive it; while an exception passes, destroying it
// waits for nobody.
std::unique_ptr<CommWorld> CreateUcxWorld(Rendezvous& rendezvous);

// Moves nothing: collectives leave their own data in place, receives leave the buffer as it is (zeroed at
// first). Runs one rank of any plan alone. Barriers return at once; where several processes run copies of the
// rank, those of their groups bring the `copies` together (which must outlive the world).
std::unique_ptr<CommWorld> CreateNullWorld(int rank, int size, Rendezvous* copies = nullptr);

// The host communication of `inner` under a device whose memory the host cannot reach: what is sent or
// reduced is copied out to host memory first, which waits for the stream, and what has come is copied in, in
// the order of the stream. Ranks that share one GPU talk through it. Whoever waits for one operation advances
// all of the world. `device` must outlive the world.
std::unique_ptr<CommWorld> CreateStagedWorld(std::unique_ptr<CommWorld> inner, Device& device);

// As `inner`, but an operation starts only when it is waited for (or tested): shows programs that rely on
// progress that nobody promised. For tests.
std::unique_ptr<CommWorld> CreateDelayedWorld(std::unique_ptr<CommWorld> inner);

// As `inner`, and records each operation into `log`, which must outlive the world.
std::unique_ptr<CommWorld> CreateRecordingWorld(std::unique_ptr<CommWorld> inner, OpLog& log);

}  // namespace autocfg
