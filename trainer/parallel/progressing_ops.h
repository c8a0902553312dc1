// Progress of communication while a rank computes: the mechanism of every plan whose communication overlaps
// compute.
//
// A rank is one thread, and a transport of the host moves data only while that thread polls it. So the rank
// polls after each op that it issues: a message advances between two ops, not during one. What the transport
// itself does in a poll, such as copying from shared memory, is done by the rank's core. An error of a peer
// is thrown by the op after which it was noticed, on the rank's own thread.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "trainer/parallel/pending_works.h"

namespace autocfg::trainer {

// Returns ops that issue those of `ops` and let `pending` progress after each. Both must outlive the result.
// Ops throw what `ops` throws, and CommError.
std::unique_ptr<Ops> CreateProgressingOps(Ops& ops, PendingWorks& pending);

}  // namespace autocfg::trainer
