// autocfg-server as a process: its output, its exit status, and the ownership of its files.
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/program_process.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

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

  TempDir dir_;
};

TEST_F(ServerProgram, ReportsItsPortAndStopsCleanly) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ProgramProcess program(With("127.0.0.1:0"));
    const std::string address = program.Address();
    EXPECT_THAT(address, testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
    const grpc::Status status = ListStudies(address);
    EXPECT_TRUE(status.ok()) << status.error_message();
    program.Signal(signal);
    EXPECT_EQ(program.Wait(), 0);
  }
}

TEST_F(ServerProgram, SocketAndDatabaseArePrivateToTheUser) {
  ProgramProcess program(With("unix:" + dir_.File("s")));
  EXPECT_TRUE(ListStudies(program.Address()).ok());
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
  ExpectRefused({"--listen", "127.0.0.1:0", "--max-planning", "0.5s"}, "--max-planning: '0.5s'");
  ExpectRefused({"--listen", "127.0.0.1:0", "--max-planning", "long"}, "--max-planning: 'long'");
  ExpectRefused({"--listen", "127.0.0.1:0", "--keep-days", "0"}, "--keep-days: '0'");
  ExpectRefused({"--listen", "127.0.0.1:0", "--keep-studies", "many"}, "--keep-studies: 'many'");
  ExpectRefused({"--listen", "127.0.0.1:0", "--max-db-bytes", "1kB"}, "--max-db-bytes: '1kB'");
  ExpectRefused({"--listen", "127.0.0.1:0", "--max-open-studies-per-owner", "few"},
                "--max-open-studies-per-owner: 'few'");
  ExpectRefused({"--listen", "127.0.0.1:0", "--max-devices-per-owner", "0"}, "--max-devices-per-owner: '0'");
  ExpectRefused({"--listen", "127.0.0.1:0", "--max-bytes-per-owner", ""}, "--max-bytes-per-owner");
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
  EXPECT_TRUE(ListStudies(address).ok());
  EXPECT_TRUE(ListStudies(socket).ok());
}

TEST_F(ServerProgram, InsecureAllowsNonLocalAddresses) {
  std::vector<std::string> args = With("0.0.0.0:0");
  args.push_back("--insecure");
  ProgramProcess program(args);
  const std::string address = program.Address();
  EXPECT_TRUE(ListStudies("127.0.0.1" + address.substr(address.rfind(':'))).ok());
}

}  // namespace
}  // namespace autocfg::server
