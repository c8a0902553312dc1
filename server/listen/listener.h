// Accepts the connections of a server, in a thread of its own, and passes them on. gRPC could do that, but
// the one of Debian 12 and Ubuntu 24.04 (1.51) stops listening for good when accept fails once, which it does
// as soon as the process has no free descriptor. Nothing that accept reports ends a Listener.
//
// Connections get descriptors below a bound only; a connection above it is closed at once. gRPC has no such
// bound. So the rest of the process always finds free descriptors, and clients that are turned away learn it
// at once. Descriptors are numbered from the lowest free number, so the number of a descriptor bounds how
// many connections there are.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <thread>

#include "base/os/unique_fd.h"
#include "server/listen/listen_sockets.h"

namespace autocfg::server {

struct ListenerOptions {
  std::int64_t most_connections = 8192;
  // Descriptors kept free of connections, for the store, files and pipes; a quarter of the process's limit
  // if that is less.
  std::int64_t reserve = 64;
  // Refusals that are closer together than this are logged as one.
  std::chrono::milliseconds quiet{10'000};
  // As accept4(2), without the peer's address: returns a descriptor, or -1 with errno.
  std::function<int(int socket)> accept = {};  // empty: the system's
};

class Listener {
 public:
  // Takes over a non-blocking connection. Called by the listener's thread.
  using Handler = std::function<void(base::UniqueFd connection)>;

  // Throws std::system_error if the system has no thread or descriptor left.
  Listener(ListenSockets sockets, Handler handler, ListenerOptions options = {});
  ~Listener();  // Stops accepting and closes the sockets. Accepted connections stay.
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Number of connections that were closed at once. Thread-safe.
  std::int64_t refused() const { return refused_; }

 private:
  void Loop();
  bool AcceptSome(int socket);
  void Take(base::UniqueFd connection);
  bool RefuseWithSpare(int socket);
  void NoteShortage(int error);
  void EndShortage();

  ListenSockets sockets_;
  const Handler handler_;
  const ListenerOptions options_;
  const base::UniqueFd wake_;  // readable: stop
  base::UniqueFd spare_;       // closed to accept, and then close, a connection when no descriptor is free
  std::atomic<std::int64_t> refused_ = 0;

  // The current shortage: since the first refusal or failure, until it is quiet.
  std::set<int> shortage_;  // what was logged: errors of accept; 0: the bound
  std::int64_t refused_before_ = 0;
  std::chrono::steady_clock::time_point last_refusal_;

  std::thread thread_;
};

}  // namespace autocfg::server
