// The coordinator: store, services, lease expiry and one study runner per running study, behind one gRPC
// server on a Unix socket or a TCP port. `autocfg search` embeds one; autocfg-server is a main around it.
// Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/os/host.h"
#include "server/report/study_reports.h"
#include "server/store/retention.h"
#include "server/store/store.h"

namespace autocfg::server {

struct CoordinatorOptions {
  std::string address;    // server/listen/listen_address.h
  bool insecure = false;  // allow plain text to leave the machine
  double lease_duration_s = 10;
  std::string owner = "local";  // principal of callers who reach the server (server/services/grpc_call.h)
  base::Clock clock = base::SteadyClock();
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

  const std::string& address() const;  // with the actual port

  // What pages about the studies are made from; valid as long as the coordinator is.
  Store& store();
  StudyReports& reports();

  // Ends calls and study runners. Studies keep their state in the store. Idempotent.
  void Shutdown();

 private:
  struct Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autocfg::server
