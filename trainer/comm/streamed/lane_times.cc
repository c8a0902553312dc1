#include "trainer/comm/streamed/lane_times.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>

#include "trainer/comm/group.h"
#include "trainer/comm/waiting.h"

namespace autocfg::trainer {
namespace {

// The host knows the moment of the begin to half of this, unless it was interrupted in each of some tries.
constexpr double kCloseEnoughS = 50e-6;
constexpr int kTries = 10;

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void LaneTimes::Remove(Lane& lane) {
  std::erase_if(groups_, [&lane](const Group& group) { return group.lane == &lane; });
}

void LaneTimes::Begin(Stream& stream) {
  stream.Synchronize();
  double took_s = 0;
  for (int i = 0; i < kTries && (i == 0 || took_s > kCloseEnoughS); ++i) {
    ReleaseBegin();
    const double before_s = SteadySeconds();
    begin_ = lanes_.driver().RecordTime(lanes_.driver().QueueOf(stream));
    stream.Synchronize();
    took_s = SteadySeconds() - before_s;
    begin_host_s_ = before_s + took_s / 2;
  }
  lanes_.StepOften(true);
  for (const Group& group : groups_) group.lane->BeginTimes();
}

void LaneTimes::End() {
  for (const Group& group : groups_) group.lane->EndTimes();
  lanes_.StepOften(false);
}

std::vector<TimeSpan> LaneTimes::Spans(double origin_s, double late_s) {
  if (!begin_) throw std::logic_error("no times of collectives were recorded");
  std::vector<TimeSpan> spans;
  for (const Group& group : groups_) AddSpans(group, begin_host_s_ - origin_s, late_s, spans);
  ReleaseBegin();
  return spans;
}

// `begin_s`: of the record, since the step began.
void LaneTimes::AddSpans(const Group& group, double begin_s, double late_s, std::vector<TimeSpan>& spans) {
  const std::vector<std::shared_ptr<LaneTime>> times = group.lane->TakeTimes();
  if (times.empty()) return;
  for (Idle idle;; idle()) {
    lanes_.Step();  // throws if a lane has failed
    if (times.back()->end()) break;
  }
  std::vector<double> ends_s;
  starts_s_.clear();
  for (const auto& time : times) {
    starts_s_.push_back(begin_s + lanes_.driver().SecondsBetween(*begin_, time->begin()) + late_s);
    ends_s.push_back(begin_s + lanes_.driver().SecondsBetween(*begin_, *time->end()));
  }
  const Tensor starts{.data = starts_s_.data(),
                      .dtype = DType::kF64,
                      .rank = 1,
                      .shape = {static_cast<std::int64_t>(starts_s_.size())}};
  HostStream ready;
  const auto work = group.host->AllReduce(starts, ReduceOp::kMax, ready);
  for (Idle idle; !work->Test(); idle()) lanes_.Step();
  for (std::size_t i = 0; i < ends_s.size(); ++i)
    spans.push_back({std::min(starts_s_[i] - late_s, ends_s[i]), ends_s[i]});
}

void LaneTimes::ReleaseBegin() noexcept {
  if (begin_) lanes_.driver().Release(*begin_);
  begin_.reset();
}

}  // namespace autocfg::trainer
