// When the collectives of a rank's lanes ran. One rank, one thread.
#pragma once

#include <optional>
#include <vector>

#include "trainer/comm/collective_times.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/streamed/lane.h"
#include "trainer/comm/streamed/lanes.h"

namespace autocfg::trainer {

class LaneTimes final : public CollectiveTimes {
 public:
  // `lanes` must outlive the object.
  explicit LaneTimes(Lanes& lanes) : lanes_(lanes) {}
  ~LaneTimes() override { ReleaseBegin(); }
  LaneTimes(const LaneTimes&) = delete;
  LaneTimes& operator=(const LaneTimes&) = delete;

  // Adds the lane of a group's collectives. `host`: the same group on the host. All ranks of groups add those
  // that they share in the same order. Remove it before either ends.
  void Add(Lane& lane, Communicator& host) { groups_.push_back({&lane, &host}); }
  void Remove(Lane& lane);

  void Begin(Stream& stream) override;
  void End() override;
  std::vector<TimeSpan> Spans(double origin_s, double late_s) override;

 private:
  struct Group {
    Lane* lane;
    Communicator* host;
  };

  void AddSpans(const Group& group, double begin_s, double late_s, std::vector<TimeSpan>& spans);
  void ReleaseBegin() noexcept;

  Lanes& lanes_;
  std::vector<Group> groups_;
  std::optional<TimeId> begin_;   // empty: nothing was recorded
  double begin_host_s_ = 0;       // the same moment on the steady clock
  std::vector<double> starts_s_;  // of a group; a member because an exchange may use it until the world ends
};

}  // namespace autocfg::trainer
