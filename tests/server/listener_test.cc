// The loop that accepts connections goes on whatever happens, and bounds the connections.
#include "server/listen/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/server/client_socket.h"
#include "tests/server/log_lines.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using std::chrono::milliseconds;

// Holds what a listener passes on.
class Taken {
 public:
  Listener::Handler Handler() {
    return [this](base::UniqueFd connection) {
      absl::MutexLock lock(&mutex_);
      connections_.push_back(std::move(connection));
    };
  }
  // Waits until there are at least `count`; returns how many there are.
  std::size_t Await(std::size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return connections_.size() >= count; };
    mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
    return connections_.size();
  }
  int Last() {
    absl::MutexLock lock(&mutex_);
    return connections_.back().get();
  }
  std::size_t count() {
    absl::MutexLock lock(&mutex_);
    return connections_.size();
  }

 private:
  absl::Mutex mutex_;
  std::vector<base::UniqueFd> connections_ ABSL_GUARDED_BY(mutex_);
};

// Returns the number of the next descriptor of this process.
int NextDescriptor() { return base::UniqueFd(::dup(STDERR_FILENO)).get(); }

class ListenerTest : public testing::Test {
 protected:
  // Takes the free numbers between descriptors of the process, so that new descriptors are numbered in a row.
  ListenerTest() {
    int highest = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
      highest = std::max(highest, std::stoi(each.path().filename()));
    while (NextDescriptor() < highest) between_.emplace_back(::dup(STDERR_FILENO));
  }

  void Listen(ListenerOptions options = {}) {
    auto sockets = ListenSockets::Open(*ParseListenAddress("127.0.0.1:0"));
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    port_ = sockets->port();
    listener_ = std::make_unique<Listener>(*std::move(sockets), taken_.Handler(), std::move(options));
  }
  base::UniqueFd Connect() const { return ConnectTo("127.0.0.1", port_); }
  // Connects `count` clients, each when the last was passed on or closed.
  std::vector<base::UniqueFd> ConnectInTurn(int count) {
    std::vector<base::UniqueFd> clients;
    for (int i = 1; i <= count; ++i) {
      clients.push_back(Connect());
      EXPECT_TRUE(clients.back().ok()) << i;
      const auto handled = [&] { return static_cast<int>(taken_.count()) + listener_->refused(); };
      for (int wait = 0; wait < 20'000 && handled() < i; ++wait) std::this_thread::sleep_for(milliseconds(1));
      EXPECT_EQ(handled(), i);
    }
    return clients;
  }
  void AwaitLine(const std::string& words) const {
    for (int i = 0; i < 4000 && log_.Count(words) == 0; ++i) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(log_.Count(words), 1) << words << " in " << testing::PrintToString(log_.lines());
  }

  std::vector<base::UniqueFd> between_;
  LogLines log_;
  Taken taken_;
  int port_ = 0;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, PassesConnectionsOnReadyForUse) {
  Listen();
  const base::UniqueFd one = Connect();
  const base::UniqueFd two = Connect();
  ASSERT_EQ(taken_.Await(2), 2u);
  const int fd = taken_.Last();
  EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  int on = 0;
  socklen_t size = sizeof on;
  ASSERT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
  EXPECT_NE(on, 0);
  listener_.reset();
  EXPECT_FALSE(Connect().ok());
  EXPECT_EQ(WaitForPeer(one, 0), Peer::kOpen) << "accepted connections stay";
}

TEST_F(ListenerTest, TakesConnectionsOfAUnixSocket) {
  const TempDir dir;
  auto sockets = ListenSockets::Open(*ParseListenAddress("unix:" + dir.File("s")));
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  listener_ = std::make_unique<Listener>(*std::move(sockets), taken_.Handler());
  const base::UniqueFd client = ConnectTo(dir.File("s"));
  EXPECT_EQ(taken_.Await(1), 1u);
}

// gRPC's own listener ends at the first of these errors.
TEST_F(ListenerTest, GoesOnAfterEveryErrorOfAccept) {
  const std::vector<int> errors = {EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED,
                                   EPROTO, EINTR,  EPERM,   EINVAL};
  std::atomic<std::size_t> calls = 0;
  Listen({.quiet = milliseconds(100), .accept = [&](int socket) {
            if (const std::size_t call = calls++; call < 3 * errors.size()) {
              errno = errors[call % errors.size()];
              return -1;
            }
            return ::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
          }});
  const base::UniqueFd client = Connect();
  EXPECT_EQ(taken_.Await(1), 1u);
  AwaitLine("accepts all connections again");
  // Once for each error, not for each time.
  EXPECT_EQ(log_.Count("cannot accept connections (Too many open files); retrying"), 1);
  EXPECT_EQ(log_.Count("cannot accept connections (Cannot allocate memory); retrying"), 1);
  EXPECT_EQ(log_.Count("cannot accept connections (Software caused connection abort)"), 0);
}

TEST_F(ListenerTest, ClosesConnectionsAboveTheBoundAtOnce) {
  // The ends of clients and of the server are in one process here, and take turns.
  constexpr int kClients = 20;
  const int own_descriptors = 3;  // the listener's
  Listen({.most_connections = NextDescriptor() + own_descriptors + 4, .quiet = milliseconds(100)});
  const std::vector<base::UniqueFd> clients = ConnectInTurn(kClients);
  int closed = 0;
  for (const base::UniqueFd& client : clients) closed += WaitForPeer(client, 0) == Peer::kClosed ? 1 : 0;
  EXPECT_EQ(closed, kClients - 2);
  EXPECT_EQ(listener_->refused(), closed);
  AwaitLine("accepts all connections again; closed at once: 18");
  EXPECT_EQ(log_.Count("is the most; new ones are closed at once"), 1);
}

// Changes the process's limit on descriptors, for a test.
class ScopedDescriptorLimit {
 public:
  explicit ScopedDescriptorLimit(int limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit lower = before_;
    lower.rlim_cur = static_cast<rlim_t>(limit);
    setrlimit(RLIMIT_NOFILE, &lower);
  }
  ~ScopedDescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  ScopedDescriptorLimit(const ScopedDescriptorLimit&) = delete;
  ScopedDescriptorLimit& operator=(const ScopedDescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(ListenerTest, KeepsDescriptorsFreeForTheRestOfTheProcess) {
  Listen({.reserve = 8, .quiet = milliseconds(100)});
  const int limit = NextDescriptor() + 60;
  const ScopedDescriptorLimit scoped(limit);
  const std::vector<base::UniqueFd> clients = ConnectInTurn(27);
  EXPECT_EQ(listener_->refused(), 1);  // two descriptors a client: number 52 is the first of the reserve
  EXPECT_EQ(log_.Count(fmt::format("of {} descriptors, the limit of this process, {} are for connections",
                                   limit, limit - 8)),
            1);
  std::vector<base::UniqueFd> files;
  for (int i = 0; i < 7; ++i) {
    files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(files.back().ok()) << i;
  }
}

// The whole table is full: no descriptor at all is left for accept.
TEST_F(ListenerTest, RefusesAndRecoversWithoutAnyFreeDescriptor) {
  Listen({.reserve = 0, .quiet = milliseconds(100)});
  const base::UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port_));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  {
    const ScopedDescriptorLimit scoped(NextDescriptor() + 10);
    std::vector<base::UniqueFd> files;
    do {
      files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (files.back().ok());
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(WaitForPeer(client), Peer::kClosed);
    EXPECT_EQ(log_.Count("cannot accept connections (Too many open files); retrying"), 1);
  }
  const base::UniqueFd next = Connect();
  EXPECT_EQ(taken_.Await(1), 1u);
  AwaitLine("accepts all connections again; closed at once: 1");
}

}  // namespace
}  // namespace autocfg::server
