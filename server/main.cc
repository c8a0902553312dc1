// The program autocfg-server: the coordinator as its own process.
//
// Exit status: 0 if ended by SIGTERM or SIGINT; 2 if it could not start; 70 if a part of it did not end in
// time. In the last two cases with one line on standard error.
#include <grpc/support/log.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/os/end_signals.h"
#include "base/os/process.h"
#include "base/os/process_limits.h"
#include "base/os/streams/standard_streams.h"
#include "base/service/log_output.h"
#include "base/service/service_manager.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/units.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"
#include "proto/rpc/duration.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/database_path.h"
#include "server/listen/listen_address.h"
#include "server/pages/http_server.h"
#include "server/pages/page_certificate.h"
#include "server/pages/study_pages.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/planning_gate.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

constexpr int kExitDone = 0;
constexpr int kExitUsage = 2;
constexpr int kExitForced = 70;
// More than an orderly end takes, less than systemd and Kubernetes wait before they kill.
constexpr double kShortestLeaseSeconds = 0.1;
constexpr double kLongestLeaseSeconds = 3600;

struct Args {
  std::vector<std::string> listen;
  std::string database, http, lease_duration = "10s", max_planning = "5m", keep_days, keep_studies,
                              max_db_bytes;
  std::string open_studies, devices, owner_bytes;  // limits of each owner
  TlsFiles tls;
  bool insecure = false;
  bool tokens = false;
  std::string audit_log;
  base::LogOptions log;
};

constexpr const char* kProgram = "autocfg-server";

int Fail(const std::string& message) {
  base::AlwaysLog(kProgram, /*error=*/true, message);
  return kExitUsage;
}
int Fail(const absl::Status& status) { return Fail(std::string(status.message())); }

// gRPC's own log is only for debugging gRPC.
void LogGrpc(gpr_log_func_args* args) { spdlog::debug("grpc: {}", args->message); }

// The pages of --http, until it is destroyed.
struct ServedPages {
  ServedPages(Coordinator& coordinator, const ListenAddress& address)
      : pages(
            coordinator.store(), coordinator.reports(), coordinator.access(),
            [&coordinator] { return coordinator.MetricsText(); }, address) {}
  ~ServedPages() { pages.Stop(); }  // then the server, whose handlers end soon

  StudyPages pages;
  std::unique_ptr<HttpServer> server;
};

// Returns the address of --http, if pages may be served there.
absl::StatusOr<ListenAddress> PagesAddress(const Args& args) {
  auto address = ParseListenAddress(args.http);
  if (!address.ok()) return address.status();
  const bool encrypted = !args.tls.certificate.empty() && !address->unix_socket;
  if (encrypted && !address->local && !args.tokens && !args.insecure) {
    return absl::InvalidArgumentError(fmt::format(
        "address {}: whoever reaches it could read all studies; give --tokens, or --insecure on a "
        "network that you trust",
        ListenText(*address, address->port)));
  }
  if (!encrypted) {
    AUTOCFG_RETURN_IF_ERROR(CheckPlainText(*address, args.insecure, args.tokens));
  }
  return address;
}

// Returns null without an address.
absl::StatusOr<std::unique_ptr<ServedPages>> ServePages(const Args& args,
                                                        const std::optional<ListenAddress>& address,
                                                        Coordinator& coordinator) {
  if (!address) return nullptr;
  const bool encrypted = !args.tls.certificate.empty() && !address->unix_socket;
  auto served = std::make_unique<ServedPages>(coordinator, *address);
  AUTOCFG_ASSIGN_OR_RETURN(
      served->server,
      HttpServer::Start(
          *address, [pages = &served->pages](const HttpRequest& request) { return pages->Answer(request); },
          args.tls));
  base::AlwaysLog(
      kProgram, /*error=*/false,
      "pages at " + (address->unix_socket ? args.http
                                          : fmt::format("{}://{}", encrypted ? "https" : "http",
                                                        ListenText(*address, served->server->port()))));
  return served;
}

// Returns the number that an option has, 0 if it is not given.
absl::StatusOr<double> Limit(const char* option, const std::string& text, base::Quantity quantity,
                             double least, double most) {
  if (text.empty()) return 0;
  const auto value = base::ParseQuantity(quantity, text);
  if (value.ok() && *value >= least && *value <= most && *value == std::floor(*value)) return *value;
  return absl::InvalidArgumentError(
      quantity == base::Quantity::kBytes
          ? fmt::format("{}: '{}' is not a number of bytes from {} to {}; give one such as 500MB or 10GB",
                        option, text, least, most)
          : fmt::format("{}: '{}' is not a whole number from {} to {}", option, text, least, most));
}

absl::StatusOr<RetentionLimits> LimitsOf(const Args& args) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto days,
                           Limit("--keep-days", args.keep_days, base::Quantity::kTokens, 1, 36'500));
  AUTOCFG_ASSIGN_OR_RETURN(const auto studies,
                           Limit("--keep-studies", args.keep_studies, base::Quantity::kTokens, 1, 1e9));
  AUTOCFG_ASSIGN_OR_RETURN(const auto bytes,
                           Limit("--max-db-bytes", args.max_db_bytes, base::Quantity::kBytes, 1 << 20, 1e15));
  RetentionLimits limits;
  limits.studies_s = days * 86400;
  limits.studies = static_cast<std::int64_t>(studies);
  limits.bytes = static_cast<std::int64_t>(bytes);
  return limits;
}

absl::StatusOr<OwnerLimits> OwnerLimitsOf(const Args& args) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto studies, Limit("--max-open-studies-per-owner", args.open_studies,
                                                     base::Quantity::kTokens, 1, 1e9));
  AUTOCFG_ASSIGN_OR_RETURN(const auto devices,
                           Limit("--max-devices-per-owner", args.devices, base::Quantity::kTokens, 1, 1e9));
  AUTOCFG_ASSIGN_OR_RETURN(const auto bytes,
                           Limit("--max-bytes-per-owner", args.owner_bytes, base::Quantity::kBytes, 1, 1e15));
  return OwnerLimits{.open_studies = static_cast<std::int64_t>(studies),
                     .devices = static_cast<std::int64_t>(devices),
                     .bytes = static_cast<std::int64_t>(bytes)};
}

int Serve(const Args& args, const base::EndSignals& end) {
  const auto lease =
      ParseDuration("--lease-duration", args.lease_duration, kShortestLeaseSeconds, kLongestLeaseSeconds);
  if (!lease.ok()) return Fail(lease.status());
  const auto planning = ParseDuration("--max-planning", args.max_planning, 1, kYearSeconds);
  if (!planning.ok()) return Fail(planning.status());
  const auto limits = LimitsOf(args);
  if (!limits.ok()) return Fail(limits.status());
  const auto owners = OwnerLimitsOf(args);
  if (!owners.ok()) return Fail(owners.status());
  std::optional<ListenAddress> http;
  if (!args.http.empty()) {
    auto address = PagesAddress(args);
    if (!address.ok()) return Fail(base::WithSubject("--http", address.status()));
    http = *std::move(address);
  }
  GiveBackLargeBlocksAtOnce();
  const auto database = DatabasePath(args.database);
  if (!database.ok()) return Fail(database.status());
  auto store = OpenSqliteStore(*database, {.owners = *owners});
  if (!store.ok()) return Fail(store.status());
  CoordinatorOptions options;
  options.address = args.listen.front();
  options.more_addresses.assign(args.listen.begin() + 1, args.listen.end());
  options.tls = args.tls;
  options.tokens = args.tokens;
  options.audit_log = args.audit_log;
  options.insecure = args.insecure;
  options.lease_duration_s = *lease;
  options.most_planning_s = *planning;
  options.retention = *limits;
  auto coordinator = Coordinator::Start(*std::move(store), options);
  if (!coordinator.ok()) return Fail(coordinator.status());
  for (const std::string& address : (*coordinator)->addresses()) {
    base::AlwaysLog(kProgram, /*error=*/false, "listening on " + address);
    if (args.tls.given() && !address.starts_with("unix:"))
      spdlog::info("{}: calls are encrypted{}", address,
                   args.tls.authorities.empty() ? "" : "; clients need a certificate");
    if (const auto listen = ParseListenAddress(address); listen.ok()) {
      if (const std::string why = WhyOutOfReach(*listen); !why.empty()) spdlog::warn("{}", why);
    }
  }

  auto pages = ServePages(args, http, **coordinator);
  if (!pages.ok()) return Fail(base::WithSubject("--http", pages.status()));

  // gRPC reads the files again by itself, and does not say what is wrong with them.
  std::optional<CertificateWatch> certificate;
  if (!args.tls.certificate.empty()) {
    certificate.emplace(args.tls, "calls",
                        [](const PageCertificate&) { spdlog::info("calls have a new certificate"); });
  }

  base::ServiceManager manager;  // before the coordinator ends, whose loops it watches
  manager.Ready("listening on " + (*coordinator)->address());
  manager.WatchLoops([&] { return (*coordinator)->rounds(); });
  spdlog::info("{}: ending", base::EndSignals::Name(end.Wait()));
  manager.Stopping("ending; studies go on with the next start");
  pages->reset();
  (*coordinator)->Shutdown();
  return kExitDone;
}

int Main(int argc, char** argv) {
  // Whoever can write to the socket can run programs as this user, so keep it and the database private.
  umask(0077);
  std::signal(SIGPIPE, SIG_IGN);
  base::FailWritesBeyondFileSizeLimit();
  base::RaiseDescriptorLimit();
  const base::EndSignals end({.program = kProgram, .exit_status = kExitForced});
  base::SetUpLog(kProgram, base::LogLevel::kInfo);
  KeepGrpc();
  gpr_set_log_function(LogGrpc);

  CLI::App app("autocfg-server: assigns the jobs of searches to workers and stores their results", kProgram);
  app.set_version_flag("--version",
                       fmt::format("autocfg-server {} (build {})", base::Version(), base::BuildId()));
  Args args;
  app.add_option("--listen", args.listen,
                 "listen address: unix:PATH, HOST:PORT or [IPV6]:PORT (port 0: any free port); repeatable")
      ->allow_extra_args(false)
      ->required();
  app.add_option("--db", args.database,
                 "the database file, created if missing (default: $XDG_STATE_HOME/autocfg/autocfg.db)");
  app.add_option("--http", args.http,
                 "also serve pages about the studies at this address, read only (127.0.0.1:PORT)");
  app.add_option("--lease-duration", args.lease_duration,
                 "how long a worker may be silent before its jobs go to others (default: 10s)");
  app.add_option("--max-planning", args.max_planning,
                 "a study whose planning takes a core for longer fails (default: 5m)");
  app.add_option("--keep-days", args.keep_days,
                 "ended studies lose the details of their trials after so many days (default: never)");
  app.add_option("--keep-studies", args.keep_studies,
                 "only so many ended studies keep the details of their trials (default: all)");
  app.add_option("--max-db-bytes", args.max_db_bytes,
                 "the oldest ended studies go while the database has more in use, such as 10GB (default: no "
                 "limit)");
  app.add_option("--max-open-studies-per-owner", args.open_studies,
                 "an owner has at most so many studies that have not ended (default: no limit)");
  app.add_option("--max-devices-per-owner", args.devices,
                 "the jobs of an owner use at most so many devices at once (default: no limit)");
  app.add_option("--max-bytes-per-owner", args.owner_bytes,
                 "an owner whose studies take more in the database, such as 1GB, creates no further ones "
                 "(default: no limit)");
  app.add_option("--tls-cert", args.tls.certificate,
                 "encrypt calls and pages, except on a Unix socket: this server's certificate, a PEM file "
                 "with its chain");
  app.add_option("--tls-key", args.tls.key, "the key of --tls-cert");
  app.add_option("--tls-client-ca", args.tls.authorities,
                 "take only clients that show a certificate of the authorities in this PEM file");
  app.add_flag("--tokens", args.tokens,
               "take only calls with a token of `autocfg token`, except on a Unix socket");
  app.add_option("--audit-log", args.audit_log, "write who changed what to this file, as JSON lines");
  base::AddLogOptions(app, args.log);
  app.add_flag("--insecure", args.insecure,
               "accept calls from other machines although they are plain text, or show neither a token nor a "
               "certificate");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    if (app.exit(success) == 0 && base::FlushStandardOutput()) return kExitDone;
    return Fail("standard output: cannot write to it; redirect it elsewhere");
  } catch (const CLI::ParseError& error) {
    return Fail(fmt::format("{}; see autocfg-server --help", error.what()));
  }
  for (const char* name :
       {"--listen", "--db", "--http", "--tls-cert", "--tls-key", "--tls-client-ca", "--audit-log",
        "--max-planning", "--log-format", "--log-file", "--log-max-bytes", "--log-keep", "--keep-days",
        "--keep-studies", "--max-db-bytes", "--max-open-studies-per-owner", "--max-devices-per-owner",
        "--max-bytes-per-owner"}) {
    const std::vector<std::string> given = app.get_option(name)->results();
    if (std::find(given.begin(), given.end(), "") != given.end())
      return Fail(fmt::format("{}: its value is empty; give one, or omit the option", name));
  }
  const auto log = base::LogOutputOf(kProgram, args.log);
  if (!log.ok()) return Fail(log.status());
  if (absl::Status status = base::SetLogOutput(*log); !status.ok()) return Fail(status);
  return Serve(args, end);
}

}  // namespace
}  // namespace autocfg::server

AUTOCFG_FILL_STANDARD_DESCRIPTORS_AT_START;

int main(int argc, char** argv) {
  try {
    return autocfg::server::Main(argc, argv);
  } catch (const std::exception& error) {
    autocfg::base::AlwaysLog(autocfg::server::kProgram, /*error=*/true,
                             fmt::format("internal error: {}; please report it", error.what()));
    return 1;
  }
}
