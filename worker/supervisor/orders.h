// What a launcher and the supervisor of a job say to each other, over a socket pair of type SOCK_SEQPACKET:
// one order or report a packet. Both programs are of the same build and run on the same machine.
//
// A job's supervisor is the process autocfg-supervisor, the parent of the job's ranks. It is a subreaper
// (prctl PR_SET_CHILD_SUBREAPER), so every process that a rank leaves behind becomes its child, in whatever
// session or process group that process is. It ends them all at the end of the job, and when the launcher
// dies. A process of its own does so for each job, because a launcher that were a subreaper itself could not
// tell the jobs' orphans apart, and would get those of the program that it is part of.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg::worker {

// The supervisor's end of the socket, inherited.
inline constexpr int kSupervisorSocket = 3;
// The trainer's end of its socket to the launcher (trainer/program/launcher_channel.h).
inline constexpr int kRankSocket = 3;

// The first byte of an order.
enum class Order : char {
  // Start a rank: EncodeRankCommand follows, and with it come two descriptors (SCM_RIGHTS): the rank's end of
  // its socket, its standard error. Answered by kStarted or kNotStarted.
  kStart = 'S',
  kLimit = 'L',      // JobLimits follow, as they are in memory; before the first kStart, not answered
  kTerminate = 'T',  // SIGTERM to the ranks' process group and to what they left behind
  kKill = 'K',       // SIGKILL to the same
  // The ranks have ended: end what they left behind. Answered by kFinished; then the supervisor exits.
  kFinish = 'F',
};

// Of what the ranks left behind: time between SIGTERM and SIGKILL, and from there until it is given up,
// because the kernel does not end it.
inline constexpr std::chrono::milliseconds kOrphanTerminateLimit{500};
inline constexpr std::chrono::seconds kOrphanKillLimit{5};

// What all processes of a job may take together; 0: no limit.
struct JobLimits {
  std::int64_t processes = 0;
  std::int64_t memory_bytes = 0;  // private to its processes: not shared, not of files
};

struct Report {
  // kOverLimit, unasked: the job took more than its limits, and its processes got SIGKILL. At most one.
  enum class Kind : std::int32_t { kStarted, kNotStarted, kEnded, kFinished, kOverLimit };

  Kind kind = Kind::kStarted;
  std::int32_t place = 0;  // of the rank, in the order of starting
  // kStarted: its pid. kNotStarted: errno. kEnded: its status, as from waitpid. kFinished: how many processes
  // were left behind and had to be ended.
  std::int32_t value = 0;
  std::int32_t remaining = 0;          // kFinished: how many of them have not ended
  std::array<pid_t, 8> examples = {};  // kFinished: some of those; 0: none
  // kOverLimit: what the job had; the second is 0 if there were too many processes to look at it.
  std::int64_t processes = 0;
  std::int64_t memory_bytes = 0;
};

// A rank's program.
struct RankCommand {
  std::vector<std::string> arguments;  // the first is the path of the program
  std::vector<std::string>
      environment;  // NAME=value; added to what ranks inherit (rank_environment.h), and overrides equal names
  // A program that is not ours: its standard output goes to the log too, and it does not get the socket.
  bool foreign = false;
  std::string directory = {};  // that it starts in; empty: the supervisor's own
};

// Requires strings without NUL. Decode returns nullopt if the text is not of this form.
std::string EncodeRankCommand(const RankCommand& command);
std::optional<RankCommand> DecodeRankCommand(std::string_view text);

}  // namespace autocfg::worker
