// Acts as a user who may write only what everybody may, also when the tests run as root.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <stdexcept>

namespace autocfg {

// True if this process is root's, whom no permission stops.
inline bool IsRoot() { return getuid() == 0; }

// Takes root's rights from this thread while it exists. Does nothing for other users. Threads that start
// meanwhile have none either.
class Unprivileged {
 public:
  Unprivileged() { Become(kNobody); }
  ~Unprivileged() { (void)TryToBecome(0); }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

  // Root again for one operation.
  template <typename Operation>
  static void AsRoot(const Operation& operation) {
    Become(0);
    operation();
    Become(kNobody);
  }

 private:
  static constexpr uid_t kNobody = 65534;

  // The system call alone concerns one thread; seteuid() interrupts all threads of the process and waits for
  // each.
  static bool TryToBecome(uid_t user) {
    constexpr auto kUnchanged = static_cast<uid_t>(-1);
    return !IsRoot() || syscall(SYS_setresuid, kUnchanged, user, kUnchanged) == 0;
  }
  static void Become(uid_t user) {
    if (!TryToBecome(user)) throw std::runtime_error("the user of this thread cannot be changed");
  }
};

}  // namespace autocfg
