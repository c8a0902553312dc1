// Turns the signals that ask a program to end into a flag, and limits how long it takes to end after the
// first one, whatever its threads do: a thread that computes, a call that does not return, threads that the
// system no longer gives. Signals belong to the process: at most one EndSignals exists at a time.
//
//   const base::EndSignals signals({.program = "autocfg-server"});
//   spdlog::info("{}: ending", base::EndSignals::Name(signals.Wait()));
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <string_view>

namespace autocfg::base {

class EndSignals {
 public:
  struct Options {
    std::string program;   // of the line on standard error when the limit is over
    int limit_s = 10;      // 0: takes as long as it takes
    int exit_status = 70;  // when the limit is over
    bool hangup = false;   // SIGHUP too, unless the process was started to ignore it (nohup)
  };

  // SIGINT and SIGTERM set the flag. A second signal of the same kind ends the process at once, as by
  // default; but not one within half a second of the first, since some programs signal a process and then its
  // group (timeout of coreutils).
  //
  // The limit starts with the first signal. When it is over, the process writes one line and exits, without
  // running destructors. The limit is a timer of the kernel, SIGALRM, which the program must not use
  // otherwise; it needs no thread and no memory when it starts, and nothing stops it.
  explicit EndSignals(const Options& options);
  ~EndSignals();  // restores the previous handlers
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // Makes the process ignore all end signals: another process says when it ends.
  static void Ignore();

  static std::string_view Name(int signal);  // "SIGTERM"

  const std::atomic<bool>& flag() const;
  bool requested() const { return flag(); }

  // Waits for the first signal and returns it; returns 0 after StopWaiting. One thread may wait.
  int Wait() const;
  void StopWaiting() const;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> previous_{};
};

}  // namespace autocfg::base
