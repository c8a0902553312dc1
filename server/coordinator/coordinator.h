// The coordinator: store, services, lease expiry and one study runner per running study, behind one gRPC
// server on a Unix socket or a TCP port. `autocfg search` embeds one; autocfg-server is a main around it.
// Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/os/host.h"
#include "base/service/loop_watch.h"
#include "proto/rpc/endpoint.h"
#include "server/access/access_control.h"
#include "server/report/study_reports.h"
#include "server/store/retention.h"
#include "server/store/store.h"

namespace autocfg::server {

struct CoordinatorOptions {
  std::string address;  // server/listen/listen_address.h
  std::vector<std::string> more_addresses = {};
  TlsFiles tls = {};      // with them, calls are encrypted, except on Unix sockets
  bool insecure = false;  // allow plain text to leave the machine
  // Calls need a token, except over a Unix socket. Where other machines reach the coordinator, they need
  // encryption too.
  bool tokens = false;
  std::string audit_log = {};  // file of the audit log; empty: none
  double lease_duration_s = 10;
  std::string owner = "local";  // principal of callers who reach the server (server/access/access_control.h)
  base::Clock clock = base::SteadyClock();
  double most_planning_s = 300;  // maximum CPU seconds of the thread that plans a study
  RetentionLimits retention = {};
  std::chrono::duration<double> first_pruning{60};  // from the start; then hourly
};

class Coordinator {
 public:
  // Resumes studies that were running when the last coordinator ended. Replaces a socket file left behind by
  // a coordinator. InvalidArgument: malformed or too long address, or plain text not allowed there.
  // FailedPrecondition: the Unix socket is in use. PermissionDenied, Unavailable: listening failed.
  // ResourceExhausted: the system gives too few threads.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(std::unique_ptr<Store> store,
                                                            const CoordinatorOptions& options);
  ~Coordinator();  // calls Shutdown()

  const std::vector<std::string>& addresses() const;  // where it listens, with the actual ports
  const std::string& address() const { return addresses().front(); }

  // What pages about the studies are made from; valid as long as the coordinator is.
  Store& store();
  StudyReports& reports();
  const AccessControl& access() const;

  // Returns the coordinator's metrics as Prometheus reads them (server/metrics/metrics_text.h).
  absl::StatusOr<std::string> MetricsText();

  // The loops that give out jobs and end leases. Each makes a round in a second unless it is stuck.
  std::vector<base::LoopRounds> rounds() const;

  // Ends calls and study runners. Studies keep their state in the store. Idempotent.
  void Shutdown();

 private:
  struct Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autocfg::server
