#include "server/listen/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/process_limits.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Connections accepted from one socket in a row, before the other sockets and the end have their turn.
constexpr int kInARow = 64;
// Pause after a failure of accept that more attempts would only repeat.
constexpr milliseconds kPause{50};

// A file of its own, so that closing it frees one in the tables of the process and of the system.
base::UniqueFd MakeSpare() { return base::UniqueFd(::eventfd(0, EFD_CLOEXEC)); }

base::UniqueFd MakeWake() {
  base::UniqueFd fd(::eventfd(0, EFD_CLOEXEC));
  if (!fd.ok()) throw std::system_error(errno, std::generic_category(), "cannot create an event descriptor");
  return fd;
}

int Accept(int socket) { return ::accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); }

ListenerOptions Complete(ListenerOptions options) {
  if (!options.accept) options.accept = Accept;
  return options;
}

// Returns the process's limit on descriptors.
std::int64_t Limit() {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  return static_cast<std::int64_t>(std::min(base::DescriptorLimit(), kMost));
}

// Returns the number that is above every descriptor of a connection.
std::int64_t Bound(const ListenerOptions& options, std::int64_t limit) {
  return std::min(options.most_connections, limit - std::min(options.reserve, limit / 4));
}

}  // namespace

Listener::Listener(ListenSockets sockets, Handler handler, ListenerOptions options)
    : sockets_(std::move(sockets)),
      handler_(std::move(handler)),
      options_(Complete(std::move(options))),
      wake_(MakeWake()),
      spare_(MakeSpare()),
      thread_([this] { Loop(); }) {}

Listener::~Listener() {
  const std::uint64_t one = 1;
  // Cannot fail: the counter of the descriptor is 0.
  const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  (void)written;
  thread_.join();
}

void Listener::Loop() {
  std::vector<pollfd> polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (const base::UniqueFd& socket : sockets_.sockets())
    polled.push_back({.fd = socket.get(), .events = POLLIN, .revents = 0});
  bool pause = false;
  while (true) {
    const milliseconds timeout = pause ? kPause : shortage_.empty() ? milliseconds(-1) : options_.quiet;
    // While it pauses, waiting connections must not wake it.
    const int ready = ::poll(polled.data(), pause ? 1 : polled.size(), static_cast<int>(timeout.count()));
    if (ready < 0) {
      if (errno != EINTR) std::this_thread::sleep_for(kPause);  // no memory
      continue;
    }
    if (ready > 0 && polled[0].revents != 0) return;
    const bool look = std::exchange(pause, false);
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (look || polled[i].revents != 0) pause = !AcceptSome(polled[i].fd) || pause;
    }
    if (!shortage_.empty() && steady_clock::now() - last_refusal_ >= options_.quiet) EndShortage();
  }
}

// Returns false if the socket has connections that cannot be accepted now.
bool Listener::AcceptSome(int socket) {
  for (int i = 0; i < kInARow; ++i) {
    base::UniqueFd connection(options_.accept(socket));
    const int error = connection.ok() ? 0 : errno;
    switch (error) {
      case 0: Take(std::move(connection)); break;
      case EAGAIN: return true;
      case EMFILE:
      case ENFILE:
        NoteShortage(error);
        if (!RefuseWithSpare(socket)) return false;
        break;
      // Errors of the connection, which has ended already (accept(2)).
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case EPERM:
      case ENETDOWN:
      case ENETUNREACH:
      case ENONET:
      case EHOSTDOWN:
      case EHOSTUNREACH:
      case ENOPROTOOPT:
      case EOPNOTSUPP: break;
      default: NoteShortage(error); return false;
    }
  }
  return true;
}

void Listener::Take(base::UniqueFd connection) {
  if (connection.get() >= Bound(options_, Limit())) {
    NoteShortage(0);
    ++refused_;
    return;
  }
  // Fails for Unix sockets, which do not delay.
  const int on = 1;
  (void)::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  handler_(std::move(connection));
}

// Closes a waiting connection, so that its client learns at once that there is no place. Returns false if
// that is not possible.
bool Listener::RefuseWithSpare(int socket) {
  spare_.Reset();
  const bool refused = base::UniqueFd(options_.accept(socket)).ok();
  spare_ = MakeSpare();
  if (refused) ++refused_;
  return refused && spare_.ok();
}

// `error`: of accept; 0: a connection above the bound.
void Listener::NoteShortage(int error) {
  last_refusal_ = steady_clock::now();
  if (shortage_.empty()) refused_before_ = refused_;
  if (!shortage_.insert(error).second) return;
  const std::int64_t limit = Limit();
  const std::int64_t bound = Bound(options_, limit);
  if (error != 0) {
    spdlog::error("cannot accept connections ({}); retrying", std::generic_category().message(error));
  } else if (bound == options_.most_connections) {
    spdlog::error("no place for more connections: {} is the most; new ones are closed at once", bound);
  } else {
    spdlog::error(
        "no place for more connections: of {} descriptors, the limit of this process, {} are for "
        "connections; "
        "new ones are closed at once; raise the limit (ulimit -n, LimitNOFILE)",
        limit, bound);
  }
}

void Listener::EndShortage() {
  shortage_.clear();
  spdlog::info("accepts all connections again; closed at once: {}", refused_ - refused_before_);
}

}  // namespace autocfg::server
