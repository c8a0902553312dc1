// What a test needs in the place of systemd: the socket that services of Type=notify tell how they are, and a
// way to make one thread of a service hang.
#pragma once

#include <poll.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace autocfg {

class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof address.sun_path);
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << path;
  }
  ~NotifySocket() { ::close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  // Returns the next message; empty if there is none within the limit.
  std::string Next(std::chrono::milliseconds limit = std::chrono::seconds(30)) const {
    pollfd polled{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&polled, 1, static_cast<int>(limit.count())) <= 0) return "";
    std::array<char, 4096> bytes{};
    const ssize_t size = ::recv(fd_, bytes.data(), bytes.size(), 0);
    return size > 0 ? std::string(bytes.data(), static_cast<std::size_t>(size)) : "";
  }
  // Returns how many messages have arrived, and forgets them.
  int Forget() const {
    int count = 0;
    while (!Next(std::chrono::milliseconds(0)).empty()) ++count;
    return count;
  }
  // Returns the next message that is not a ping of the watchdog.
  std::string NextWord() const {
    for (;;) {
      const std::string message = Next();
      if (message != "WATCHDOG=1") return message;
    }
  }

 private:
  const int fd_;
};

// Returns the thread of that name; 0 if the process has none within 30 s.
inline pid_t ThreadNamed(pid_t process, const std::string& name) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", error)) {
      std::string found;
      std::getline(std::ifstream(entry.path() / "comm"), found);
      if (found == name) return std::stoi(entry.path().filename());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return 0;
}

// Returns how often the thread has waited for something.
inline std::int64_t WaitsOf(pid_t thread) {
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  const std::string field = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoll(line.substr(field.size()));
  }
  return -1;
}

// Returns once the thread has waited `count` times more.
inline void AwaitWaits(pid_t thread, int count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const std::int64_t target = WaitsOf(thread) + count;
  while (WaitsOf(thread) < target) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Stops one thread of a child process, not the others, until it is destroyed on the same thread.
class HungThread {
 public:
  explicit HungThread(pid_t thread) : thread_(thread) {
    EXPECT_NE(thread, 0);
    if (::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) != 0 ||
        ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) {
      error_ = errno;
      return;
    }
    ::waitpid(thread_, nullptr, __WALL);
  }
  ~HungThread() {
    if (error_ == 0) ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  HungThread(const HungThread&) = delete;
  HungThread& operator=(const HungThread&) = delete;

  // Returns false if this system does not let a test stop a thread.
  bool allowed() const {
    EXPECT_TRUE(error_ == 0 || error_ == EPERM) << std::strerror(error_);
    return error_ != EPERM;
  }

 private:
  const pid_t thread_;
  int error_ = 0;
};

}  // namespace autocfg
