// Communication by NCCL among GPUs, one per rank, ordered on CUDA streams
// (trainer/comm/streamed/streamed_world.h says how). Only the CUDA module of the trainer includes this. One
// rank, one thread: the one whose current GPU is the rank's.
//
// Requires, set before the process opens its GPU: CUDA_MODULE_LOADING=EAGER (a kernel that is loaded when
// first launched may wait for the kernels that run, and one of NCCL's waits for a peer) and
// CUDA_DEVICE_MAX_CONNECTIONS=32 (a rank has a stream for compute, one for each of its groups, and up to four
// for the pipeline's messages; streams that share a connection would wait for each other).
//
// Compiled against NCCL 2.28 and its logic tested with fakes. NOT YET CONFIRMED ON A GPU: that communicators
// join, reduce and exchange messages; how soon NCCL reports a dead peer (over sockets it does; over NVLink it
// may not, and the launcher then ends the job); that links of one rank make progress side by side under a
// full compute stream; the memory that a link takes.
#pragma once

#include <memory>

#include "trainer/comm/comm_world.h"

namespace autocfg {

// Collective over the rendezvous, which must outlive the world. Ranks find each other, and wait in barriers,
// over host communication (CreateUcxWorld): the rendezvous brings all ranks together at once, but a group's
// communicator is made by its members alone. Its unique id therefore goes from the group's first rank to the
// others over the host, when the communicator is made.
//
// Throws NotSupported, saying what to do, where NCCL is not on the machine (nccl_api.h).
//
// Several ranks on one GPU are refused by NCCL. With AUTOCFG_NCCL_SHARE_GPU=1 in the environment each rank
// passes as a host of its own, which talks over loopback sockets: sets NCCL_HOSTID, and where they are not
// set NCCL_SOCKET_IFNAME to "lo", NCCL_NET to "Socket" and NCCL_RAS_ENABLE to "0". Untested.
std::unique_ptr<CommWorld> CreateNcclWorld(Rendezvous& rendezvous);

}  // namespace autocfg
