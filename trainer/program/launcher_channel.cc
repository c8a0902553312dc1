#include "trainer/program/launcher_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "fmt/format.h"
#include "proto/framing.h"
#include "proto/rank_messages.h"
#include "trainer/comm/communicator.h"

namespace autocfg::trainer {
namespace {

[[noreturn]] void ThrowStatus(const char* what, const absl::Status& status) {
  const std::string message(status.message().data(), status.message().size());
  throw CommError(fmt::format("{}: {}", what, message));
}

}  // namespace

// Checks only whether the other end of the socket is closed, and never reads: unread replies do not mean that
// it is closed, and belong to the channel's own thread.
struct LauncherChannel::Watcher {
  explicit Watcher(int fd) : stop_fd(::eventfd(0, EFD_CLOEXEC)) {
    if (stop_fd < 0) throw CommError(fmt::format("cannot watch the launcher: {}", std::strerror(errno)));
    thread = std::thread([fd, stop = stop_fd] { Watch(fd, stop); });
  }
  ~Watcher() {
    const std::uint64_t one = 1;
    while (::write(stop_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread.join();
    ::close(stop_fd);
  }

  static void Watch(int fd, int stop) {
    pollfd fds[] = {{fd, POLLRDHUP, 0}, {stop, POLLIN, 0}};
    for (;;) {
      if (::poll(fds, 2, -1) < 0) {
        if (errno == EINTR) continue;
        _exit(kLauncherGone);  // unwatched, this rank could outlive its launcher
      }
      if (fds[1].revents != 0) return;
      if (fds[0].revents != 0) _exit(kLauncherGone);
    }
  }

  const int stop_fd;
  std::thread thread;
};

LauncherChannel::LauncherChannel(int fd) : fd_(fd) {
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    throw CommError(fmt::format("no launcher at file descriptor {} ({}): this program is started by autocfg",
                                fd, std::strerror(errno)));
  }
  v1::LauncherMessage message;
  if (absl::Status status = ReadFrame(fd_, message); !status.ok()) {
    ThrowStatus("no run spec from the launcher", status);
  }
  if (!message.has_run_spec()) throw CommError("the launcher's first message is not a run spec");
  run_spec_ = std::move(*message.mutable_run_spec());
  if (size() < 1 || rank() < 0 || rank() >= size()) {
    throw CommError(fmt::format("the run spec is for rank {} of {}", rank(), size()));
  }
  watcher_ = std::make_unique<Watcher>(fd_);
}

LauncherChannel::~LauncherChannel() {
  watcher_.reset();
  ::close(fd_);
}

std::vector<std::string> LauncherChannel::AllGather(std::string_view name, std::string_view bytes) {
  v1::RankMessage message;
  message.mutable_gather_request()->set_name(std::string(name));
  message.mutable_gather_request()->set_value(std::string(bytes));
  Send(message);
  v1::LauncherMessage reply;
  do {  // a request to stop may come before the reply
    if (absl::Status status = ReadFrame(fd_, reply); !status.ok()) {
      ThrowStatus("lost the launcher while gathering", status);
    }
    stop_requested_ = stop_requested_ || reply.has_stop();
  } while (reply.has_stop());
  const v1::GatherReply& gathered = reply.gather_reply();
  if (!reply.has_gather_reply() || gathered.name() != name || gathered.values_size() != size()) {
    throw CommError(
        fmt::format("the launcher's reply does not match the gathering of '{}' from {} ranks", name, size()));
  }
  return {gathered.values().begin(), gathered.values().end()};
}

bool LauncherChannel::StopRequested() {
  pollfd socket{fd_, POLLIN, 0};
  while (!stop_requested_ && ::poll(&socket, 1, 0) > 0) {
    v1::LauncherMessage message;
    if (absl::Status status = ReadFrame(fd_, message); !status.ok()) {
      ThrowStatus("lost the launcher", status);
    }
    if (!message.has_stop()) throw CommError("the launcher sent a message that nothing asked for");
    stop_requested_ = true;
  }
  return stop_requested_;
}

void LauncherChannel::Send(const v1::RankMessage& message) {
  ForEachPart(message, [this](const v1::RankMessage& part) {
    const absl::Status status = WriteFrame(fd_, part, kMaxRankMessageBytes);
    // An error of this rank, not of the launcher.
    if (absl::IsInvalidArgument(status)) throw std::length_error(std::string(status.message()));
    if (!status.ok()) ThrowStatus("cannot report to the launcher", status);
  });
}

}  // namespace autocfg::trainer
