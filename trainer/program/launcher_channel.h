// A rank's end of the socket to its launcher. Reads the run spec, then relays rendezvous calls and sends
// progress and the result. Use from one thread. A separate watcher thread ends the process at once (exit code
// kLauncherGone) when the launcher's end closes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "autocfg/v1/trainer.pb.h"
#include "trainer/comm/rendezvous.h"

namespace autocfg::trainer {

// Number of the inherited socket in every trainer process.
inline constexpr int kLauncherFd = 3;
inline constexpr int kLauncherGone = 86;

class LauncherChannel final : public Rendezvous {
 public:
  // Reads the run spec. Throws CommError if there is no launcher at `fd` or if its message is not a run spec.
  explicit LauncherChannel(int fd);
  ~LauncherChannel() override;

  const v1::RunSpec& run_spec() const { return run_spec_; }

  int rank() const override { return run_spec_.rank(); }
  int size() const override { return run_spec_.world_size(); }
  std::vector<std::string> AllGather(std::string_view name, std::string_view bytes) override;

  // Returns whether the launcher has asked the run to stop. Does not wait. Throws CommError if the launcher
  // sent anything else, or is gone.
  bool StopRequested();

  // Sends a message, a result in parts. Throws CommError if the launcher is gone, std::length_error if the
  // message exceeds the limits of proto/rank_messages.h. AllGather throws the same.
  void Send(const v1::RankMessage& message);

 private:
  struct Watcher;
  int fd_;
  v1::RunSpec run_spec_;
  bool stop_requested_ = false;
  std::unique_ptr<Watcher> watcher_;
};

}  // namespace autocfg::trainer
