// Factory for the communicators of one rank. A CommWorld holds what the groups share (endpoints, addresses).
// It must outlive its communicators. Use from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/op_log.h"
#include "search/ops/op_desc.h"
#include "trainer/comm/collective_times.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/rendezvous.h"

namespace autocfg::trainer {

class CommWorld {
 public:
  virtual ~CommWorld() = default;

  // Creates the communicator of a group of global ranks (ascending, containing this rank). Collective over
  // the group: two ranks create the groups that they share in the same order. `staging`
  // (kCollectiveStagingBytes of the arena, as kI32 or any type) is used during reductions. It may be empty
  // for a group of one rank or in a world that moves no data.
  virtual std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                                    const Tensor& staging) = 0;

  // Returns the recorder of when collectives run, or null if the world has none.
  virtual CollectiveTimes* collective_times() { return nullptr; }
};

// Creates a world that uses UCX over host memory: shared memory within a node, sockets or RDMA between nodes.
// Creation and destruction are collective over the rendezvous, which must outlive the world. Destruction
// during stack unwinding waits for no other rank.
std::unique_ptr<CommWorld> CreateUcxWorld(Rendezvous& rendezvous);

// Creates a world that moves no data: collectives leave each rank's data in place, and receives leave the
// buffer as it is (initially zero). It runs one rank of any plan alone. Barriers return at once by default.
// If several processes run copies of the rank, its barriers synchronize the `copies`, which must outlive the
// world.
std::unique_ptr<CommWorld> CreateNullWorld(int rank, int size, Rendezvous* copies = nullptr);

// Creates a world for a device whose memory the host cannot access, on top of `inner`'s host communication.
// Data to send or reduce is first copied to host memory, which waits for the stream. Received data is copied
// to the device in stream order. Ranks that share one GPU communicate through it. Waiting for one operation
// advances all operations of the world. `device` must outlive the world.
std::unique_ptr<CommWorld> CreateStagedWorld(std::unique_ptr<CommWorld> inner, Device& device);

// Wraps `inner` so that an operation starts only when it is waited for or tested. This reveals programs that
// rely on progress that the contract does not guarantee. For tests.
std::unique_ptr<CommWorld> CreateDelayedWorld(std::unique_ptr<CommWorld> inner);

// Wraps `inner` and records each operation into `log`, which must outlive the world.
std::unique_ptr<CommWorld> CreateRecordingWorld(std::unique_ptr<CommWorld> inner, OpLog& log);

}  // namespace autocfg::trainer
