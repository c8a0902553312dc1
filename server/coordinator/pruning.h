// Prunes the store from time to time, in its own thread, and gives unused space back to the disk in short
// writes. The store must outlive this object.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/os/host.h"
#include "base/os/wakeup.h"
#include "server/store/retention.h"
#include "server/store/store.h"

namespace autocfg::server {

struct PruningOptions {
  RetentionLimits limits;
  base::Clock clock;
  std::chrono::duration<double> first{60};     // from the start to the first pruning
  std::chrono::duration<double> period{3600};  // between two
  std::chrono::duration<double> pause{0.1};    // between two writes that give space back
  // Called with the studies that a pruning deleted, on the thread of this object.
  std::function<void(const std::vector<std::int64_t>&)> on_deleted = [](const auto&) {};
};

class Pruning {
 public:
  Pruning(Store& store, PruningOptions options);
  ~Pruning();  // ends the thread
  Pruning(const Pruning&) = delete;
  Pruning& operator=(const Pruning&) = delete;

 private:
  void Loop();
  absl::Status Prune();

  Store& store_;
  const PruningOptions options_;
  base::Wakeup stopping_;
  std::thread thread_;
};

}  // namespace autocfg::server
