// Communication through NCCL among GPUs, one per rank, ordered on CUDA streams
// (trainer/comm/streamed/streamed_world.h describes how). Only the trainer's CUDA module includes this file.
// One rank, one thread: the thread whose current GPU is the rank's.
//
// Requires two environment variables, set before the process opens its GPU:
//   - CUDA_MODULE_LOADING=EAGER. A kernel that is loaded at its first launch may wait for the running
//     kernels, and an NCCL kernel waits for a peer.
//   - CUDA_DEVICE_MAX_CONNECTIONS=32. A rank has one compute stream, one stream per group and up to four
//     streams for pipeline messages. Streams that share a connection would wait for each other.
//
// Compiled against NCCL 2.28; the logic is tested with fakes. NOT YET CONFIRMED ON A GPU: that communicators
// join, reduce and exchange messages; how soon NCCL reports a dead peer (it does over sockets; it may not
// over NVLink, in which case the launcher ends the job); that links of one rank progress concurrently while
// the compute stream is full; how much memory a link takes.
#pragma once

#include <memory>

#include "trainer/comm/comm_world.h"

namespace autocfg::trainer {

// Collective over the rendezvous, which must outlive the world. Ranks find each other and run barriers over
// host communication (CreateUcxWorld), because the rendezvous always involves all ranks while a group's
// communicator is created by its members only. The group's first rank therefore sends the NCCL unique id to
// the others over the host when the communicator is created.
//
// Throws NotSupported, with a message that says what to do, if NCCL is not installed (nccl_api.h).
//
// NCCL does not allow several ranks on one GPU. With AUTOCFG_NCCL_SHARE_GPU=1 in the environment, each rank
// pretends to be a separate host that communicates over loopback sockets. This sets NCCL_HOSTID and, unless
// they are already set, NCCL_SOCKET_IFNAME to "lo", NCCL_NET to "Socket" and NCCL_RAS_ENABLE to "0".
// Untested.
std::unique_ptr<CommWorld> CreateNcclWorld(Rendezvous& rendezvous);

}  // namespace autocfg::trainer
