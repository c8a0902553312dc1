// autocfg-supervisor: the parent of the ranks of one job. A launcher starts it.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/os/process.h"
#include "base/os/streams/standard_streams.h"
#include "base/os/unique_fd.h"
#include "fmt/format.h"
#include "worker/supervisor/supervisor.h"

namespace {

constexpr char kUsage[] =
    "usage: autocfg-supervisor [--version | --help]\n"
    "Starts the ranks of one job and ends what they leave behind. It is started by `autocfg` and\n"
    "`autocfg-worker`, not by hand.\n";

bool IsSupervisorSocket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

}  // namespace

AUTOCFG_FILL_STANDARD_DESCRIPTORS_AT_START;

int main(int argc, char** argv) {
  using autocfg::worker::kSupervisorSocket;
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    fmt::print("autocfg-supervisor {}\n", autocfg::base::BuildId());
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (argc != 1 || !IsSupervisorSocket(kSupervisorSocket)) {
    fmt::print(stderr, "autocfg-supervisor: it is started by autocfg and autocfg-worker; see --help\n");
    return 2;
  }
  ::fcntl(kSupervisorSocket, F_SETFD, FD_CLOEXEC);
  const int error = autocfg::worker::Supervisor(autocfg::base::UniqueFd(kSupervisorSocket)).Run();
  if (error == 0) return 0;
  fmt::print(stderr, "autocfg-supervisor: cannot supervise the ranks: {}\n", std::strerror(error));
  return 1;
}
