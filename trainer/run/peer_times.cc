#include "trainer/run/peer_times.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "base/fnv1a.h"
#include "base/os/host.h"
#include "search/schedule/action_kinds.h"

namespace autocfg::trainer {
namespace {

using Indices = std::vector<std::size_t>;

// Returns the messages with each peer: those that the lower of both ranks sends, kind by kind, then those
// that it receives. Messages of a kind match in order of issue, so both ranks list them alike.
std::map<std::int64_t, Indices> MessagesByPeer(const RankProgram& program, std::int64_t rank) {
  std::map<std::int64_t, Indices> messages;
  for (const bool lower_sends : {true, false}) {
    for (const ActionKind sent : {ActionKind::kSendActivation, ActionKind::kSendGradient}) {
      for (std::size_t i = 0; i < program.size(); ++i) {
        const bool sends = lower_sends == (rank < program[i].peer);
        if (program[i].kind == (sends ? sent : ReceiveOf(sent))) messages[program[i].peer].push_back(i);
      }
    }
  }
  return messages;
}

void MeetPeersOfMessages(const RankProgram& program, std::int64_t rank, RankExchange& exchange,
                         std::vector<ActionTime>& times) {
  // In order of the peer: the pairs with lower ranks come first, as in the order of all pairs.
  for (const auto& [peer, messages] : MessagesByPeer(program, rank)) {
    std::vector<double> own;
    for (const std::size_t i : messages) own.insert(own.end(), {times[i].start_s, times[i].end_s});
    const std::vector<double> theirs = exchange.Swap(static_cast<int>(peer), own);
    for (std::size_t k = 0; k < messages.size(); ++k) {
      ActionTime& time = times[messages[k]];
      time.start_s = std::max(time.start_s, theirs[2 * k]);
      time.end_s = std::max(time.start_s, std::min(time.end_s, theirs[2 * k + 1]));
    }
  }
}

// The last start of a collective on the ranks that run it together. The ranks of the data axis are those of
// the shard groups and the replica groups between them.
double LastStart(ActionKind kind, const Groups& groups, RankExchange& exchange, double start_s) {
  switch (GroupOf(kind)) {
    case CommGroup::kTensor: return exchange.LargestIn(groups.tensor, start_s);
    case CommGroup::kData:
      start_s = exchange.LargestIn(groups.kv_replica, start_s);
      if (groups.shard == nullptr) return exchange.LargestIn(groups.data, start_s);
      return exchange.LargestIn(groups.replica, exchange.LargestIn(groups.shard, start_s));
    case CommGroup::kEmbedding: return exchange.LargestIn(groups.embedding, start_s);
    case CommGroup::kWorld: return exchange.Largest(start_s);
    case CommGroup::kNone:
    case CommGroup::kShard:
    case CommGroup::kReplica:
    case CommGroup::kKvReplica:
    case CommGroup::kPipeline: break;
  }
  return start_s;
}

// Returns how much later than the first rank this rank began the step; 0 if the ranks are on several
// machines, whose clocks cannot be compared.
double SecondsLate(RankExchange& exchange, double origin_s) {
  const auto machine = static_cast<double>(base::Fnv1a(base::KernelId()) >> 12);  // exact as a double
  const bool one_machine = exchange.Largest(machine) == -exchange.Largest(-machine);
  const double first_s = -exchange.Largest(-origin_s);
  return one_machine ? origin_s - first_s : 0;
}

void Shift(std::vector<ActionTime>& times, double seconds) {
  for (ActionTime& time : times) {
    time.start_s += seconds;
    time.end_s += seconds;
  }
}

}  // namespace

double MeetPeers(const RankProgram& program, std::int64_t rank, double origin_s, const Groups& groups,
                 RankExchange& exchange, std::vector<ActionTime>& times) {
  const double late_s = SecondsLate(exchange, origin_s);
  Shift(times, late_s);
  MeetPeersOfMessages(program, rank, exchange, times);
  std::array<double, kLanes> free_s{};
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Lane lane = program[i].lane;
    if (lane == Lane::kCompute) continue;
    ActionTime& time = times[i];
    if (lane == Lane::kReduce) time.start_s = LastStart(program[i].kind, groups, exchange, time.start_s);
    // The transfers of a lane run one after the other.
    time.start_s = std::min(std::max(time.start_s, free_s[Index(lane)]), time.end_s);
    free_s[Index(lane)] = time.end_s;
  }
  Shift(times, -late_s);
  return late_s;
}

}  // namespace autocfg::trainer
