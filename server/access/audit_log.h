// The audit log: who changed what. A file of JSON lines, which is rotated. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/server_interceptor.h"

namespace spdlog {
class logger;
}

namespace autocfg::server {

class AccessControl;

struct AuditEntry {
  std::string principal;  // empty: the caller could not be identified
  std::string token;      // its name; empty: none
  std::string role;
  std::string peer;
  std::string method;   // "/package.Service/Method"
  std::string subject;  // resource name of what the call changed; empty: it names none
  absl::Status status;
};

class AuditLog {
 public:
  // Appends to the file; FILE.1, FILE.2, ... hold earlier entries. Unavailable: it cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);

  // Writes the entry with the time. An entry that cannot be written is reported on the program's log.
  void Write(const AuditEntry& entry);

 private:
  explicit AuditLog(std::shared_ptr<spdlog::logger> lines);
  const std::shared_ptr<spdlog::logger> lines_;
};

// Returns what makes a server write each audited call (rights.h) with its outcome. Both must outlive the
// server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AuditCalls(const AccessControl& access,
                                                                                  AuditLog& log);

}  // namespace autocfg::server
