// The launcher's side of one running rank: messages out and in without blocking, the end of its log, how it
// ended. Use from one thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "autocfg/v1/trainer.pb.h"
#include "proto/frame_buffer.h"
#include "worker/spawn_rank.h"

namespace autocfg {

// Of each rank's standard error, so much is kept.
inline constexpr std::size_t kLogTailBytes = 8 << 10;

class RankLink {
 public:
  explicit RankLink(SpawnedRank rank) : rank_(std::move(rank)) {}

  pid_t pid() const { return rank_.pid; }

  // For poll; -1 once nothing more comes.
  int socket_fd() const { return input_ended_ ? -1 : rank_.socket.get(); }
  int log_fd() const { return rank_.log.get(); }
  bool wants_to_write() const { return !out_.empty(); }

  // Sends what fits and keeps the rest for Flush. To a rank that is gone nothing is sent: its end is seen
  // elsewhere.
  absl::Status Queue(const v1::LauncherMessage& message);
  void Flush();

  // Takes in what has arrived. The socket stays open to the end, as its closing would end the rank.
  void Receive();
  // The next whole message, or none. DataLoss when the rank sent something else; nothing more comes then.
  absl::StatusOr<bool> Next(v1::RankMessage& message) { return in_.Next(message); }

  // Reads standard error until nothing is there; closes it at its end.
  void DrainLog();
  const std::string& log_tail() const { return log_tail_; }
  // The last line that may say why the rank ended: one with a word in it that is not mere information of its
  // log; empty without one.
  std::string LastLogLine() const;

  // Sees whether the process has ended, without reaping it: its number stays taken until Reap. True once
  // ended.
  bool PollEnded();
  bool ended() const { return exit_status_.has_value(); }
  int exit_status() const { return exit_status_.value_or(0); }  // as waitpid gives it
  // Somebody else has reaped it (or children are reaped by themselves in this program), and how it ended is
  // not known.
  bool reaped_elsewhere() const { return reaped_elsewhere_; }
  void Reap();

 private:
  SpawnedRank rank_;
  FrameBuffer in_;
  std::string out_;
  bool input_ended_ = false;
  std::string log_tail_;
  std::optional<int> exit_status_;
  bool reaped_elsewhere_ = false;
};

}  // namespace autocfg
