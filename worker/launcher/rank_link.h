// The launcher's side of a running rank: non-blocking messages in both directions, the end of its log, its
// exit status. Not thread-safe. Holds little memory, whatever the rank sends: one incomplete message
// (proto/rank_messages.h) and what one call of Receive read.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "proto/framing.h"
#include "proto/rank_messages.h"
#include "worker/launcher/spawn_rank.h"

namespace autocfg::worker {

// Bytes kept of the end of each rank's standard error.
inline constexpr std::size_t kLogTailBytes = 32 << 10;

class RankLink {
 public:
  explicit RankLink(SpawnedRank rank) : rank_(std::move(rank)) {}

  pid_t pid() const { return rank_.pid; }

  // For poll; -1 after the end of input.
  int socket_fd() const { return input_ended_ ? -1 : rank_.socket.get(); }
  int log_fd() const { return rank_.log.get(); }
  bool wants_to_write() const { return !out_.empty(); }

  // A message as the ranks read it. Several links share one, because a reply to all ranks grows with their
  // number.
  using Frame = std::shared_ptr<const std::string>;
  static absl::StatusOr<Frame> MakeFrame(const v1::LauncherMessage& message);
  // Sends what fits and keeps the rest for Flush. Drops messages to a rank that is gone; its end is detected
  // elsewhere.
  void Queue(Frame frame);
  void Flush();

  // Reads some bytes that have arrived, at most `most`. Returns their number; 0: there are none. The socket
  // stays open until the end, because closing it would end the rank.
  std::size_t Receive(std::size_t most);
  // Returns the number of bytes that have arrived and are not read.
  std::size_t UnreadBytes() const;
  // Returns false if no whole message has been read. DataLoss: the rank sent invalid data; nothing more can
  // be read.
  absl::StatusOr<bool> Next(v1::RankMessage& message) { return in_.Next(message); }
  // Reads nothing more, and drops what was read. The rank blocks once the socket is full.
  void StopReceiving();

  // Reads the available standard error output. Closes it at its end.
  void DrainLog();
  const std::string& log_tail() const { return log_tail_; }
  // Returns the last line that may explain why the rank ended: it contains a word and is not an informational
  // log line. Empty if there is none.
  std::string LastLogLine() const;

  // The process has ended. nullopt: with an unknown status.
  void SetEnded(std::optional<int> wait_status) {
    ended_ = true;
    exit_status_ = wait_status;
  }
  bool ended() const { return ended_; }
  std::optional<int> exit_status() const { return exit_status_; }  // as from waitpid

 private:
  SpawnedRank rank_;
  FrameBuffer in_{kMaxRankMessageBytes};
  std::deque<Frame> out_;
  std::size_t sent_ = 0;  // bytes of the first frame
  bool input_ended_ = false;
  std::string log_tail_;
  bool ended_ = false;
  std::optional<int> exit_status_;
};

}  // namespace autocfg::worker
