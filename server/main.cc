// The program autocfg-server: the coordinator as its own process.
//
// Exit status: 0 if ended by SIGTERM or SIGINT; 2 if it could not start, with one line on standard error.
#include <grpc/support/log.h>
#include <pthread.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "base/os/process.h"
#include "fmt/format.h"
#include "proto/rpc/duration.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/database_path.h"
#include "server/listen/listen_address.h"
#include "server/store/sqlite/sqlite_store.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

constexpr int kExitDone = 0;
constexpr int kExitUsage = 2;
constexpr double kShortestLeaseSeconds = 0.1;
constexpr double kLongestLeaseSeconds = 3600;

struct Args {
  std::string listen, database, lease_duration = "10s";
  bool insecure = false;
};

int Fail(const std::string& message) {
  fmt::print(stderr, "autocfg-server: {}\n", message);
  return kExitUsage;
}
int Fail(const absl::Status& status) { return Fail(std::string(status.message())); }

// gRPC's own log is only for debugging gRPC.
void LogGrpc(gpr_log_func_args* args) { spdlog::debug("grpc: {}", args->message); }

int Serve(const Args& args, const sigset_t& ends) {
  const auto lease =
      ParseDuration("--lease-duration", args.lease_duration, kShortestLeaseSeconds, kLongestLeaseSeconds);
  if (!lease.ok()) return Fail(lease.status());
  const auto database = DatabasePath(args.database);
  if (!database.ok()) return Fail(database.status());
  auto store = OpenSqliteStore(*database);
  if (!store.ok()) return Fail(store.status());
  CoordinatorOptions options;
  options.address = args.listen;
  options.insecure = args.insecure;
  options.lease_duration_s = *lease;
  auto coordinator = Coordinator::Start(*std::move(store), options);
  if (!coordinator.ok()) return Fail(coordinator.status());
  fmt::print(stderr, "autocfg-server: listening on {}\n", (*coordinator)->address());
  if (const auto listen = ParseListenAddress(args.listen); listen.ok()) {
    if (const std::string why = WhyOutOfReach(*listen); !why.empty()) spdlog::warn("{}", why);
  }

  int signal = 0;
  sigwait(&ends, &signal);
  spdlog::info("{}: ending", signal == SIGTERM ? "SIGTERM" : "SIGINT");
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);  // a second signal ends the process immediately
  (*coordinator)->Shutdown();
  return kExitDone;
}

int Main(int argc, char** argv) {
  // Whoever can write to the socket can run programs as this user, so keep it and the database private.
  umask(0077);
  std::signal(SIGPIPE, SIG_IGN);
  // Blocked before threads start, which inherit the mask; only the main thread waits for signals.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  base::SetUpLog("autocfg-server", base::LogLevel::kInfo);
  gpr_set_log_function(LogGrpc);

  CLI::App app("autocfg-server: assigns the jobs of searches to workers and stores their results",
               "autocfg-server");
  app.set_version_flag("--version",
                       fmt::format("autocfg-server {} (build {})", base::Version(), base::BuildId()));
  Args args;
  app.add_option("--listen", args.listen,
                 "listen address: unix:PATH, HOST:PORT or [IPV6]:PORT (port 0: any free port)")
      ->required();
  app.add_option("--db", args.database,
                 "the database file, created if missing (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  app.add_option("--lease-duration", args.lease_duration,
                 "how long a worker may be silent before its jobs go to others (default: 10s)");
  app.add_flag("--insecure", args.insecure,
               "accept calls from other machines, although calls are plain text without a password");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return Fail(fmt::format("{}; see autocfg-server --help", error.what()));
  }
  for (const auto& [name, option] :
       {std::pair("--listen", app.get_option("--listen")), std::pair("--db", app.get_option("--db"))}) {
    if (option->count() > 0 && option->results().front().empty())
      return Fail(fmt::format("{}: its value is empty; give one, or omit the option", name));
  }
  return Serve(args, ends);
}

}  // namespace
}  // namespace autocfg::server

int main(int argc, char** argv) {
  try {
    return autocfg::server::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "autocfg-server: internal error: {}; please report it\n", error.what());
    return 1;
  }
}
