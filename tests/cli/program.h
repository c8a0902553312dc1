// Runs a program and captures its output. For tests of the command line as a user sees it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/build_paths.h"

namespace autocfg {

inline std::string ReadWhole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the text with one blank for each run of blanks and line breaks, since lines are wrapped, and
// without the backslashes that continue a command.
inline std::string Unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) {
    if (word != "\\") line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

// A directory of the test, removed at its end. Its path is short enough for sockets.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = "/tmp/autocfg_test_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

struct Finished {
  int exit_code = -1;  // 128 + the signal if a signal ended it
  std::string out;
  std::string err;
};

class ProgramProcess {
 public:
  // Starts `autocfg`, or another program of this build, with these arguments. XDG_STATE_HOME is `home`, so
  // that no test touches a real database; the locale is C. Standard input is the file `input`.
  ProgramProcess(const ScratchDirectory& home, const std::vector<std::string>& args,
                 const std::string& input = "/dev/null", const std::string& program = "autocfg") {
    static int count = 0;
    const std::string stem = home / ("run" + std::to_string(++count));
    out_path_ = stem + ".out";
    err_path_ = stem + ".err";
    std::vector<std::string> words = {BuildPath("bin/" + program)};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      setenv("XDG_STATE_HOME", home.path().c_str(), 1);
      setenv("LC_ALL", "C", 1);
      // Hides this machine's GPUs, unless the test provides its own (tests/support/fake_nvml).
      setenv("AUTOCFG_NVML_LIBRARY", "libautocfg-no-nvml.so.1", 0);
      const int in = open(input.c_str(), O_RDONLY);
      const int out = open(out_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int err = open(err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(in, 0);
      dup2(out, 1);
      dup2(err, 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~ProgramProcess() {
    if (pid_ > 0) {
      Signal(SIGKILL);
      Wait();
    }
  }
  ProgramProcess(const ProgramProcess&) = delete;
  ProgramProcess& operator=(const ProgramProcess&) = delete;

  void Signal(int signal) const { kill(pid_, signal); }
  pid_t pid() const { return pid_; }
  std::string err_so_far() const { return ReadWhole(err_path_); }

  bool running() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
  }

  // Waits for the end. After `limit` the program is killed and the test fails.
  Finished Wait(std::chrono::seconds limit = std::chrono::seconds(170)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (running()) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "still running after " << limit.count() << " s: " << err_so_far();
        Signal(SIGKILL);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    Finished finished;
    finished.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    finished.out = ReadWhole(out_path_);
    finished.err = ReadWhole(err_path_);
    return finished;
  }

 private:
  pid_t pid_ = -1;
  std::string out_path_;
  std::string err_path_;
};

// Returns all processes that `parent` has started, directly or indirectly.
inline std::vector<pid_t> Descendants(pid_t parent) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = ReadWhole(entry.path() / "stat");
    const auto after_name = stat.rfind(')');
    if (after_name == std::string::npos) continue;  // the process has ended
    std::istringstream fields(stat.substr(after_name + 1));
    char state = 0;
    pid_t ppid = 0;
    if (fields >> state >> ppid && ppid == parent) {
      const pid_t child = std::stoi(name);
      found.push_back(child);
      const auto more = Descendants(child);
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  return found;
}

// Returns the descendants of `launcher` without the supervisors of its jobs: the ranks, and what they
// started.
inline std::vector<pid_t> RanksOf(pid_t launcher) {
  std::vector<pid_t> found = Descendants(launcher);
  std::erase_if(found, [](pid_t pid) {
    return ReadWhole("/proc/" + std::to_string(pid) + "/comm").starts_with("autocfg-supervi");
  });
  return found;
}

// Returns true if none of these processes exists any more within `limit`.
inline bool AllEnd(const std::vector<pid_t>& processes, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (const pid_t process : processes) {
    while (std::filesystem::exists("/proc/" + std::to_string(process))) {
      // A zombie counts as ended; nothing reaps it if its parent was killed and there is no init.
      const std::string stat = ReadWhole("/proc/" + std::to_string(process) + "/stat");
      const auto after_name = stat.rfind(')');
      if (after_name != std::string::npos && stat.substr(after_name, 3) == ") Z") break;
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return true;
}

inline Finished RunAutocfg(const ScratchDirectory& home, const std::vector<std::string>& args) {
  return ProgramProcess(home, args).Wait();
}

}  // namespace autocfg
