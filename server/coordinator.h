// The coordinator as an object: store, services, lease expiry and one study runner a running study, behind
// one gRPC server on a Unix socket (or a loopback address). `autocfg search` holds one in its own process;
// autocfg-server is a main around it. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/store/store.h"

namespace autocfg {

struct CoordinatorOptions {
  std::string address;  // "unix:/path"
  double lease_duration_s = 10;
  std::string owner = "local";  // owner of the studies made here; later the caller's identity
  Clock clock = SystemClock();
};

class Coordinator {
 public:
  // Studies that were running when the last coordinator ended go on at once. A socket file that a coordinator
  // left behind is replaced. InvalidArgument: an address of another form, or too long; FailedPrecondition:
  // something else is or listens there; PermissionDenied, Unavailable.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(std::unique_ptr<Store> store,
                                                            const CoordinatorOptions& options);
  ~Coordinator();  // Shutdown()

  const std::string& address() const;

  // Ends calls and study runners; studies keep their state in the store. Idempotent.
  void Shutdown();

 private:
  struct Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autocfg
