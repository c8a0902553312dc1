// autocfg-server under scarce resources: descriptors, file sizes, threads, and a database that another
// server has under another name.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/process_limits.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/server/client_socket.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/server/program_process.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

class ServerLimits : public testing::Test {
 protected:
  std::vector<std::string> With(const std::string& listen, const std::string& database = "autocfg.db") const {
    return {"--listen", listen, "--db", dir_.File(database)};
  }
  // Expects that a second server on the database exits and names the process of the first.
  void ExpectInUse(const std::string& database, pid_t owner) const {
    ProgramProcess second(With("127.0.0.1:0", database));
    ASSERT_THAT(second.Line(), HasSubstr(fmt::format("is in use by process {}", owner)));
    EXPECT_EQ(second.Wait(), 2);
  }

  TempDir dir_;
};

void SetLimit(int resource, rlim_t limit) {
  const rlimit both{.rlim_cur = limit, .rlim_max = limit};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

void SetSoftLimit(pid_t process, int resource, rlim_t limit) {
  rlimit both{};
  ASSERT_EQ(prlimit(process, static_cast<__rlimit_resource>(resource), nullptr, &both), 0);
  both.rlim_cur = limit;
  ASSERT_EQ(prlimit(process, static_cast<__rlimit_resource>(resource), &both, nullptr), 0);
}

class ServerUnderAFlood : public ServerLimits, public testing::WithParamInterface<bool> {};

// More clients than descriptors: those above the bound learn it at once, and clients that come later are
// served. gRPC's own listener is deaf from the first accept on that fails.
TEST_P(ServerUnderAFlood, ServesNewClientsWhenConnectionsHaveLeft) {
  constexpr int kDescriptors = 1024;
  constexpr std::size_t kConnections = 2000;
  if (base::RaiseDescriptorLimit() < kConnections + 200) GTEST_SKIP() << "this test needs more descriptors";
  const bool unix_socket = GetParam();
  ProgramProcess program(With(unix_socket ? "unix:" + dir_.File("s") : "127.0.0.1:0"),
                         [] { SetLimit(RLIMIT_NOFILE, kDescriptors); });
  const std::string address = program.Address();
  const Client early(address);
  ASSERT_TRUE(early.ListStudies().ok());

  std::vector<base::UniqueFd> connections;
  for (std::size_t i = 0; i < kConnections; ++i) {
    connections.push_back(unix_socket
                              ? ConnectTo(dir_.File("s"))
                              : ConnectTo("127.0.0.1", std::stoi(address.substr(address.rfind(':') + 1))));
    ASSERT_TRUE(connections.back().ok()) << i;
  }
  ASSERT_EQ(WaitForPeer(connections.back()), Peer::kClosed);
  EXPECT_THAT(program.Line(),
              HasSubstr("of 1024 descriptors, the limit of this process, 960 are for connections"));
  // The service works for those who are connected; others fail at once rather than at their deadline.
  EXPECT_TRUE(early.ListStudies().ok());
  const auto began = steady_clock::now();
  EXPECT_EQ(ListStudies(address).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_LT(steady_clock::now() - began, seconds(10));

  connections.clear();
  grpc::Status after;
  const auto left = steady_clock::now();
  do {
    after = ListStudies(address, seconds(5));
  } while (!after.ok() && steady_clock::now() - left < seconds(30));
  EXPECT_TRUE(after.ok()) << after.error_message();
  EXPECT_TRUE(early.ListStudies().ok());
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Addresses, ServerUnderAFlood, testing::Bool(),
                         [](const auto& info) { return info.param ? "Unix" : "Tcp"; });

// By default, the first write beyond the limit ends the process (SIGXFSZ).
TEST_F(ServerLimits, FileSizeLimitIsAnErrorOfTheWrite) {
  ProgramProcess program(With("127.0.0.1:0"));
  const std::string address = program.Address();
  const Client client(address);
  ASSERT_TRUE(client.CreateStudy(SmallSpec()).ok());
  SetSoftLimit(program.pid(), RLIMIT_FSIZE, std::filesystem::file_size(dir_.File("autocfg.db-wal")) + 20'000);
  grpc::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = client.CreateStudy(SmallSpec());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("raise the limit (ulimit -f, LimitFSIZE)"));
  EXPECT_TRUE(ListStudies(address).ok());
  SetSoftLimit(program.pid(), RLIMIT_FSIZE, RLIM_INFINITY);
  const grpc::Status again = client.CreateStudy(SmallSpec());
  EXPECT_TRUE(again.ok()) << again.error_message();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST_F(ServerLimits, HardLinkOrDeletedLockFileLetsNoSecondServerIn) {
  ProgramProcess first(With("127.0.0.1:0"));
  const std::string address = first.Address();
  std::filesystem::create_hard_link(dir_.File("autocfg.db"), dir_.File("link.db"));
  ExpectInUse("link.db", first.pid());
  std::filesystem::remove(dir_.File("autocfg.db.lock"));
  ExpectInUse("autocfg.db", first.pid());
  EXPECT_TRUE(ListStudies(address).ok());
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0);
  ProgramProcess next(With("127.0.0.1:0", "link.db"));
  EXPECT_TRUE(ListStudies(next.Address()).ok());
}

// Stops every thread of a process but the main one, as if each waited for something that never comes.
class StoppedThreads {
 public:
  explicit StoppedThreads(pid_t process) : process_(process) {
    for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process))) {
      const pid_t thread = std::stoi(task.path().filename());
      if (thread == process || ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) continue;
      threads_.push_back(thread);
      int status = 0;
      ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
      ::waitpid(thread, &status, __WALL);
    }
  }
  ~StoppedThreads() {
    ::kill(process_, SIGKILL);
    AwaitEnd();
  }
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  bool none() const { return threads_.empty(); }  // this system forbids it
  // A process stays until those who trace its threads have seen them end.
  void AwaitEnd() {
    int status = 0;
    for (const pid_t thread : std::exchange(threads_, {})) ::waitpid(thread, &status, __WALL);
  }

 private:
  const pid_t process_;
  std::vector<pid_t> threads_;
};

TEST_F(ServerLimits, EndsInTimeWhateverItsThreadsDo) {
  ProgramProcess program(With("127.0.0.1:0"));
  const std::string address = program.Address();
  ASSERT_TRUE(ListStudies(address).ok());
  StoppedThreads stopped(program.pid());
  if (stopped.none()) GTEST_SKIP() << "this system forbids tracing a child";
  const auto began = steady_clock::now();
  program.Signal(SIGTERM);
  EXPECT_THAT(program.Line(), HasSubstr("SIGTERM: ending"));
  ASSERT_EQ(program.Line(), "autocfg-server: a part of it did not end within 10 s; exiting without it");
  stopped.AwaitEnd();
  EXPECT_EQ(program.Wait(), 70);
  EXPECT_LT(steady_clock::now() - began, seconds(40));
}

// Limits threads as RLIMIT_NPROC does, which does not hold for root: it runs the program as a user of its
// own.
class UserWithLimitedThreads {
 public:
  // For a new process, before it becomes the program.
  void Become() const {
    if (uid_ != 0 && (::setgid(uid_) != 0 || ::setuid(uid_) != 0)) ::_exit(kCannotRun);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // that check needs a thread at the end
  }
  // Returns true if a process with that exit status did not become the program: this system does not allow
  // the user, or the user cannot read the program.
  static bool CouldNotRun(int exit_status) { return exit_status == kCannotRun || exit_status == 127; }
  // Lets the process have no more threads. Only processes of the same user may do that.
  bool LimitThreads(pid_t process) const {
    const pid_t helper = ::fork();
    if (helper == 0) {
      Become();
      const rlimit none{.rlim_cur = 0, .rlim_max = 0};
      ::_exit(prlimit(process, RLIMIT_NPROC, &none, nullptr) == 0 ? 0 : 1);
    }
    int status = 0;
    return ::waitpid(helper, &status, 0) == helper && status == 0;
  }

 private:
  static constexpr int kCannotRun = 126;
  static constexpr uid_t kFirst = 100'000;
  const uid_t uid_ = ::geteuid() == 0 ? kFirst + static_cast<uid_t>(::getpid() % 10'000) : 0;
};

TEST_F(ServerLimits, EndsInTimeWithoutAFreeThread) {
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0777), 0);
  const UserWithLimitedThreads user;
  ProgramProcess program(With("127.0.0.1:0"), [&user] { user.Become(); });
  const std::string first = program.Line();
  if (first.empty() && UserWithLimitedThreads::CouldNotRun(program.Wait()))
    GTEST_SKIP() << "another user cannot run the program here";
  ASSERT_THAT(first, HasSubstr("listening on "));
  const std::string address = first.substr(first.rfind(' ') + 1);
  ASSERT_TRUE(user.LimitThreads(program.pid()));
  // Calls and gRPC's timers need threads.
  std::vector<std::thread> clients;
  const auto enough = steady_clock::now() + milliseconds(1500);
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&address, enough] {
      const Client client(address);
      while (steady_clock::now() < enough) (void)client.ListStudies();
    });
  }
  for (std::thread& client : clients) client.join();
  const auto began = steady_clock::now();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_LT(steady_clock::now() - began, seconds(8));
}

TEST_F(ServerLimits, StartWithoutThreadsIsOneLine) {
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0777), 0);
  const UserWithLimitedThreads user;
  ProgramProcess program(With("127.0.0.1:0"), [&user] {
    user.Become();
    SetLimit(RLIMIT_NPROC, 1);
  });
  const std::string line = program.Line();
  const int status = program.Wait();
  if (UserWithLimitedThreads::CouldNotRun(status)) GTEST_SKIP() << "another user cannot run the program here";
  EXPECT_THAT(line, HasSubstr("cannot create 40 threads (Resource temporarily unavailable)"));
  EXPECT_EQ(status, 2);
}

}  // namespace
}  // namespace autocfg::server
