// The audit log: who changed what. JSON lines in two files, each rotated: calls that reached their service,
// and calls that were refused for their token. So nobody without a token can make the first file lose lines.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/access/rotated_lines.h"

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
  // Most lines of refused calls in a second; further ones are counted.
  static constexpr int kMostRefusedLines = 10;

  // Appends to the file, and to RefusedPath of it. Unavailable: one of them cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);
  // Returns "audit.refused.jsonl" of "audit.jsonl".
  static std::string RefusedPath(const std::string& path);

  ~AuditLog();  // writes the count of refused calls that has not been written
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Writes the entry with the time. An entry that cannot be written is reported on the program's log.
  void Write(const AuditEntry& entry);
  // Writes a call that was refused for its token at `now`. Of those beyond kMostRefusedLines, writes only the
  // count, before the next line.
  void WriteRefused(const AuditEntry& entry, absl::Time now);

 private:
  AuditLog(std::unique_ptr<RotatedLines> changes, std::unique_ptr<RotatedLines> refused);
  void WriteCount(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<RotatedLines> changes_;
  const std::unique_ptr<RotatedLines> refused_;
  absl::Mutex mutex_;
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // the start of the one being counted
  int lines_in_second_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t not_written_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns what makes a server write each audited call (rights.h) with its outcome. Both must outlive the
// server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AuditCalls(const AccessControl& access,
                                                                                  AuditLog& log);

}  // namespace autocfg::server
