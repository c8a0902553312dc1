// The coordinator as an object: store, services, lease expiry and one study runner a running study, behind
// one gRPC server on a Unix socket or a TCP port. `autocfg search` holds one in its own process;
// autocfg-server is a main around it. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/store/store.h"

namespace autocfg {

struct CoordinatorOptions {
  std::string address;    // server/listen_address.h
  bool insecure = false;  // plain text may leave the machine
  double lease_duration_s = 10;
  std::string owner = "local";  // the principal of callers who reach the server (server/services/caller.h)
  Clock clock = SystemClock();
};

class Coordinator {
 public:
  // Studies that were running when the last coordinator ended go on at once. A socket file that a coordinator
  // left behind is replaced. InvalidArgument: an address of another form, too long, or one that plain text
  // may not be sent to; FailedPrecondition: something else is or listens there; PermissionDenied,
  // Unavailable.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(std::unique_ptr<Store> store,
                                                            const CoordinatorOptions& options);
  ~Coordinator();  // Shutdown()

  const std::string& address() const;  // with the real port

  // Ends calls and study runners; studies keep their state in the store. Idempotent.
  void Shutdown();

 private:
  struct Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autocfg
