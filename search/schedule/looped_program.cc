#include "search/schedule/looped_program.h"

#include <algorithm>

#include "fmt/format.h"
#include "search/schedule/compute_order.h"

namespace autocfg {
LoopWriter::LoopWriter(const ParallelPlan& plan, bool one_by_one) : mesh_(plan), one_by_one_(one_by_one) {}

void LoopWriter::BeginRank() {
  ReleaseSlack();
  program_.ranks.push_back({OpLoop{}});
  lanes_.fill({});
  index_ = 0;
  unjoined_ = 0;
}

void LoopWriter::ReleaseSlack() {
  if (!program_.ranks.empty()) Straight().shrink_to_fit();
}

LoopWriter::Handle LoopWriter::Add(const LoweredAction& action, std::span<const Handle> after) {
  for (const Handle handle : after) Wait(handle);
  std::vector<KnownOp>& of_kind = known_[Index(action.kind)];
  const std::size_t writes = WritesGradients(action.kind, action.microbatch) ? 1 : 0;
  const auto key = static_cast<std::size_t>(std::int64_t{action.stage} + 1) * 2 + writes;
  if (key >= of_kind.size()) of_kind.resize(key + 1);
  KnownOp& known = of_kind[key];
  if (one_by_one_ || known.rank != rank() || known.peer != action.peer) {
    known.op = MakeOp(action);
    known.rank = rank();
    known.peer = action.peer;
  }
  ++index_;
  LaneCount& lane = lanes_[Index(action.lane)];
  const auto lane_number = static_cast<std::int16_t>(action.lane);
  const bool runs = known.op.what == LoopOp::What::kRun;
  if (runs) Wait({lane_number, lane.issued});  // a lane's actions run in order
  LoopOp& op = Straight().emplace_back(known.op);
  op.wait_lane = waiting_.wait_lane;
  op.back = waiting_.back;
  waiting_.back = -1;
  if (runs) return {};
  return {lane_number, ++lane.issued};
}

void LoopWriter::Wait(Handle handle) {
  if (handle.lane < 0) return;
  LaneCount& lane = lanes_[static_cast<std::size_t>(handle.lane)];
  if (handle.number <= lane.known) return;
  lane.known = handle.number;
  std::vector<LoopOp>& ops = Straight();
  const auto of_lane = static_cast<Lane>(handle.lane);
  if (handle.number == lane.issued && ops.size() > unjoined_ && ops.back().what == LoopOp::What::kMeet &&
      ops.back().lane == of_lane) {
    ops.back().awaited = true;  // it was issued just now
    return;
  }
  if (waiting_.back >= 0) ops.push_back(waiting_);
  waiting_.wait_lane = of_lane;
  waiting_.back = static_cast<std::int32_t>(lane.issued - handle.number);
}

LoopOp LoopWriter::MakeOp(const LoweredAction& action) {
  LoopOp op{.lane = action.lane, .action = static_cast<std::int32_t>(program_.actions.size())};
  program_.actions.push_back({rank(), index_, ActionFrom(action)});
  std::tuple<int, std::int64_t, std::int64_t> key;
  std::size_t members = 2;
  if (const CommGroup group = GroupOf(action.kind); group != CommGroup::kNone) {
    const std::vector<std::int64_t> ranks = mesh_.Group(rank(), group);
    key = {2 + static_cast<int>(group), ranks.front(), -1};
    members = ranks.size();
  } else if (IsSend(action.kind) || IsRecv(action.kind)) {
    const int what =
        action.kind == ActionKind::kSendActivation || action.kind == ActionKind::kRecvActivation ? 0 : 1;
    key = IsSend(action.kind) ? std::tuple{what, rank(), action.peer} : std::tuple{what, action.peer, rank()};
  } else {
    op.what = LoopOp::What::kRun;
    op.of_microbatch = IsMicrobatch(action.kind);
    return op;
  }
  const auto next = static_cast<std::int32_t>(program_.channels.size());
  const auto [channel, made] = channels_.try_emplace(key, next);
  if (made) {
    program_.channels.push_back(static_cast<std::int32_t>(members));
    sides_.emplace_back();
  }
  KnownSide& known = sides_[static_cast<std::size_t>(channel->second)];
  if (known.rank != rank()) known = {rank(), program_.sides++};
  op.what = LoopOp::What::kMeet;
  op.channel = channel->second;
  op.side = known.side;
  return op;
}

void LoopWriter::MakeLoop(std::size_t begin, std::int64_t times) {
  std::vector<LoopOp>& straight = Straight();
  OpLoop loop{{straight.begin() + static_cast<std::ptrdiff_t>(begin), straight.end()}, times};
  straight.resize(begin);
  ReleaseSlack();
  std::vector<OpLoop>& loops = program_.ranks.back();
  loops.push_back(std::move(loop));
  loops.emplace_back();
  unjoined_ = 0;
}

void LoopWriter::JoinLoop() {
  std::vector<LoopOp>& straight = Straight();
  std::vector<OpLoop>& loops = program_.ranks.back();
  OpLoop& loop = loops[loops.size() - 2];
  if (straight.size() >= loop.ops.size() || !std::equal(straight.begin(), straight.end(), loop.ops.begin()))
    return;
  loop.extra = straight.size();
  straight.clear();
}

LoopedProgram LowerLoops(const PipelineShape& shape) {
  ParallelPlan pipeline;
  pipeline.pp = shape.ranks;
  LoopWriter writer(pipeline);
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    const auto previous = static_cast<std::int32_t>((rank + shape.ranks - 1) % shape.ranks);
    const auto next = static_cast<std::int32_t>((rank + 1) % shape.ranks);
    writer.BeginRank();
    RankLowering lowering(shape, {rank, previous, next}, writer);
    lowering.Begin();
    const ComputeLoops loops = MakeComputeLoops(shape, rank);
    for (std::size_t i = 0; i < loops.size(); ++i) {
      const auto compute = [&](std::int64_t n) {
        const auto [kind, stage, writes] = loops[i].computes[static_cast<std::size_t>(n)];
        lowering.Compute(kind, stage, writes ? 0 : -1);
      };
      const auto loop = writer.Repeat(static_cast<std::int64_t>(loops[i].computes.size()), loops[i].count,
                                      compute, [&] { return lowering.BufferUsers(); });
      if (loop) writer.NoteRepetition(i, *loop);
    }
    lowering.Finish();
  }
  return writer.Take();
}

absl::StatusOr<LoopedProgram> LoopsOf(const Program& program) {
  LoopWriter writer(program.plan, /*one_by_one=*/true);
  const auto count = static_cast<std::int32_t>(program.ranks.size());
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const RankProgram& list = program.ranks[rank];
    std::vector<LoopWriter::Handle> handles, after;
    handles.reserve(list.size());
    writer.BeginRank();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action& action = list[i];
      const auto broken = [&](std::string_view what) {
        return absl::FailedPreconditionError(
            fmt::format("rank {}: action {} ({}) {}", rank, i, ToString(action), what));
      };
      after.clear();
      for (const std::int32_t index : action.after) {
        if (index < 0 || static_cast<std::size_t>(index) >= i) {
          return broken(fmt::format("waits for action {}, which is not before it", index));
        }
        after.push_back(handles[static_cast<std::size_t>(index)]);
      }
      const bool has_peer = IsSend(action.kind) || IsRecv(action.kind);
      if (has_peer && (action.peer < 0 || action.peer >= count)) return broken("has a peer that is no rank");
      handles.push_back(
          writer.Add({action.kind, action.lane, action.stage, action.microbatch, action.peer}, after));
    }
  }
  return writer.Take();
}

}  // namespace autocfg
