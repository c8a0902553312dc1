// autocfg-server as a process, and a client of it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "autocfg/v1/study_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/build_paths.h"

namespace autocfg::server {

// Runs the program with its standard error on a pipe. The destructor ends it, and so does the end of the
// test.
class ProgramProcess {
 public:
  // `prepare` changes the new process before it becomes the program; it may only call what is safe after a
  // fork.
  explicit ProgramProcess(const std::vector<std::string>& args, const std::function<void()>& prepare = {}) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    std::vector<std::string> words = args;
    words.insert(words.begin(), BuildPath("bin/autocfg-server"));
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(pipe[1], STDERR_FILENO);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (prepare) prepare();
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(pipe[1]);
    errors_ = pipe[0];
  }
  ~ProgramProcess() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      Wait();
    }
    ::close(errors_);
  }
  ProgramProcess(const ProgramProcess&) = delete;
  ProgramProcess& operator=(const ProgramProcess&) = delete;

  // Returns the next line of standard error; empty at its end, or if there is none within kLimitMs.
  std::string Line() {
    std::string line;
    pollfd polled{.fd = errors_, .events = POLLIN, .revents = 0};
    char c = 0;
    while (::poll(&polled, 1, kLimitMs) > 0 && ::read(errors_, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  // Returns the listen address from the first line.
  std::string Address() {
    const std::string line = Line();
    const std::string words = "listening on ";
    const auto at = line.find(words);
    EXPECT_NE(at, std::string::npos) << line;
    return at == std::string::npos ? "" : line.substr(at + words.size());
  }
  pid_t pid() const { return pid_; }
  void Signal(int number) const { ::kill(pid_, number); }
  // Returns the exit status; 128 + the signal if one ended it. Kills it if it does not end within kLimitMs.
  int Wait() {
    int status = 0;
    for (int waited = 0; ::waitpid(pid_, &status, WNOHANG) == 0; waited += kStepMs) {
      if (waited >= kLimitMs) ::kill(pid_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(kStepMs));
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static constexpr int kLimitMs = 60'000;  // a server with stuck threads takes 10 s to end
  static constexpr int kStepMs = 5;

  pid_t pid_ = -1;
  int errors_ = -1;
};

// A client of a server, with a connection of its own.
class Client {
 public:
  explicit Client(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // shares no connection with other channels
    studies_ = v1::StudyService::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  grpc::Status ListStudies(std::chrono::milliseconds limit = std::chrono::seconds(20)) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    v1::ListStudiesResponse response;
    return studies_->ListStudies(&context, v1::ListStudiesRequest(), &response);
  }
  grpc::Status CreateStudy(const v1::SearchSpec& spec) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::CreateStudyRequest request;
    *request.mutable_spec() = spec;
    v1::Study study;
    return studies_->CreateStudy(&context, request, &study);
  }

 private:
  std::unique_ptr<v1::StudyService::Stub> studies_;
};

// Calls the server over a new connection.
inline grpc::Status ListStudies(const std::string& address,
                                std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  return Client(address).ListStudies(limit);
}

}  // namespace autocfg::server
