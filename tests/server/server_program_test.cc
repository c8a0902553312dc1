// autocfg-server as a process: its output, its exit status, and the ownership of its files.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "autocfg/v1/study_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/build_paths.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

// Runs the program with its standard error on a pipe. The destructor ends it.
class ProgramProcess {
 public:
  explicit ProgramProcess(const std::vector<std::string>& args) {
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

  // Returns the next line of standard error; empty at its end.
  std::string Line() {
    std::string line;
    char c = 0;
    while (::read(errors_, &c, 1) == 1 && c != '\n') line += c;
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
  void Signal(int number) const { ::kill(pid_, number); }
  // Returns the exit status; 128 + the signal if one ended it.
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int errors_ = -1;
};

class ServerProgram : public testing::Test {
 protected:
  std::vector<std::string> With(const std::string& listen, const std::string& database = "autocfg.db") const {
    return {"--listen", listen, "--db", dir_.File(database)};
  }
  // Expects that the program exits immediately with this status and one line that contains `words`.
  void ExpectRefused(const std::vector<std::string>& args, const std::string& words) const {
    ProgramProcess program(args);
    const std::string line = program.Line();
    EXPECT_THAT(line, HasSubstr(words));
    EXPECT_EQ(program.Line(), "") << "after: " << line;
    EXPECT_EQ(program.Wait(), 2) << line;
  }
  static grpc::Status List(const std::string& address) {
    const auto stub =
        v1::StudyService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ListStudiesResponse response;
    return stub->ListStudies(&context, v1::ListStudiesRequest(), &response);
  }

  TempDir dir_;
};

TEST_F(ServerProgram, ReportsItsPortAndStopsCleanly) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ProgramProcess program(With("127.0.0.1:0"));
    const std::string address = program.Address();
    EXPECT_THAT(address, testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
    const grpc::Status status = List(address);
    EXPECT_TRUE(status.ok()) << status.error_message();
    program.Signal(signal);
    EXPECT_EQ(program.Wait(), 0);
  }
}

TEST_F(ServerProgram, SocketAndDatabaseArePrivateToTheUser) {
  ProgramProcess program(With("unix:" + dir_.File("s")));
  EXPECT_TRUE(List(program.Address()).ok());
  for (const char* name : {"s", "autocfg.db"}) {
    struct stat info {};
    ASSERT_EQ(::stat(dir_.File(name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0077, 0u) << name;
  }
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST_F(ServerProgram, StartFailureIsOneLineAndExit2) {
  ExpectRefused({}, "--listen");
  ExpectRefused({"--listen", "127.0.0.1:0", "--no-such-option"}, "no-such-option");
  ExpectRefused({"--listen", "127.0.0.1:0", "--db", ""}, "--db");
  ExpectRefused({"--listen", "127.0.0.1:0", "--lease-duration", "soon"}, "--lease-duration");
  ExpectRefused({"--listen", "127.0.0.1:0", "--lease-duration", "0s"}, "--lease-duration");
  ExpectRefused(With("nowhere"), "the port is missing");
  ExpectRefused(With("0.0.0.0:0"), "--insecure");
  std::ofstream(dir_.File("damaged.db")) << std::string(5000, 'x');
  ExpectRefused(With("127.0.0.1:0", "damaged.db"), "damaged.db");
}

TEST_F(ServerProgram, ReportsAddressAndDatabaseInUse) {
  ProgramProcess first(With("127.0.0.1:0"));
  const std::string address = first.Address();
  ExpectRefused(With("127.0.0.1:0"), "autocfg.db");  // the database is in use
  ExpectRefused(With(address, "other.db"), "Address already in use");
  ProgramProcess second(With("unix:" + dir_.File("s"), "second.db"));
  const std::string socket = second.Address();
  ExpectRefused(With(socket, "third.db"), "another coordinator listens there");
  EXPECT_TRUE(List(address).ok());
  EXPECT_TRUE(List(socket).ok());
}

TEST_F(ServerProgram, InsecureAllowsNonLocalAddresses) {
  std::vector<std::string> args = With("0.0.0.0:0");
  args.push_back("--insecure");
  ProgramProcess program(args);
  const std::string address = program.Address();
  EXPECT_TRUE(List("127.0.0.1" + address.substr(address.rfind(':'))).ok());
}

}  // namespace
}  // namespace autocfg::server
