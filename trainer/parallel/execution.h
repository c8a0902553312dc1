// What a layer needs to run: the device's ops on one stream, and the communicators of the rank's groups. One
// rank, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "kernels/ops.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/communicator.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/pending_works.h"

namespace autocfg::trainer {

// One communicator for each of the rank's groups of more than one rank; null for a group of one rank.
struct Groups {
  std::unique_ptr<Communicator> tensor, kv_replica, data, shard, replica, pipeline, embedding, world;
};

// Creates the groups. Collective: every rank of the world calls it. `world` and the memory behind `staging`
// must outlive the result.
Groups MakeGroups(CommWorld& world, const RankShape& shape, const GroupStaging& staging);

// What an action does inside of it, beside its own compute.
enum class Section : std::uint8_t {
  kCollective,  // over the tensor group, or that of the action
  kStates,      // of sharded states, over the shard group
  kRecompute,
};

// Observes the sections of actions. Sections nest: a recomputation may have collectives. Called on the rank's
// thread.
class SectionObserver {
 public:
  virtual ~SectionObserver() = default;

  // Called before the first work of the section is issued, and after its last work has been issued. A
  // collective has then been waited for (Work::Wait).
  virtual void OnSectionStart(Section) {}
  virtual void OnSectionEnd(Section) {}
};

class UnitExchange;

struct Execution {
  Ops& ops;
  Stream& stream;
  Groups& groups;
  PendingWorks& pending;
  bool splits_sequence = false;         // sequence parallelism over a tensor group of several ranks
  std::int64_t tensor_chunks = 1;       // of a product whose sums over the tensor group overlap it
  Tensor reduced = {};                  // Workspace::reduced
  bool shards_gradients = false;        // ShardsGradients(plan)
  UnitExchange* units = nullptr;        // null: nothing that runs reads or writes units
  SectionObserver* observer = nullptr;  // null: none

  // Runs `issue` as a section.
  template <typename Issue>
  void Observed(Section section, const Issue& issue) const {
    if (observer != nullptr) observer->OnSectionStart(section);
    issue();
    if (observer != nullptr) observer->OnSectionEnd(section);
  }

  // Waits for the operation of a collective that `issue` returns, and drives pending works meanwhile.
  template <typename Issue>
  void RunCollective(const Issue& issue, Section section = Section::kCollective) const {
    Observed(section, [&] { pending.Run(issue()); });
  }

  // Replaces `tensor` by its reduction over `group`, for all work issued on the stream from now on. Does
  // nothing if `group` is null (a group of one rank).
  void AllReduce(const std::unique_ptr<Communicator>& group, const Tensor& tensor, ReduceOp op) const {
    if (group != nullptr) RunCollective([&] { return group->AllReduce(tensor, op, stream); });
  }

  // Returns whether the gradient of a weight is added to that of earlier microbatches where it is computed.
  // Otherwise UnitExchange adds it.
  bool Adds(bool accumulate) const { return accumulate && !shards_gradients; }
};

// Sums the gradients of norms over the tensor group. Under sequence parallelism each rank computed them from
// its own tokens.
void SumNormGradients(const Execution& run, const MemoryLayout& layout);

// Sums the embedding's gradient over the first and the last rank of the pipeline, which both hold the tied
// embedding; with sharded states the rank's own part.
void SumTiedEmbedding(const Execution& run, const MemoryLayout& layout);

}  // namespace autocfg::trainer
