// Which coordinator a verb talks to: a named one, or the one beside a database, and its address there. Reads
// the environment; thread-safe while the environment does not change.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/input/files.h"
#include "proto/rpc/endpoint_options.h"
#include "server/coordinator/database_path.h"  // DatabasePath, shared with the server

namespace CLI {
class App;
}

namespace autocfg::cli {

struct ServiceOptions {
  std::string coordinator;  // --coordinator; empty: not given
  std::string database;     // --db; empty: not given
  EndpointOptions access;   // --insecure, --tls*, --token-file
  bool remote() const { return !coordinator.empty(); }
};

// Adds --coordinator, --db and the options of EndpointOptions. `options` must outlive the parsing.
void AddServiceOptions(CLI::App* verb, ServiceOptions& options);

// InvalidArgument if the options exclude each other.
absl::Status CheckServiceOptions(const ServiceOptions& options);

// InvalidArgument if --db is in a directory that does not exist. `option`: as given, or empty.
absl::Status CheckDatabaseOption(const std::string& option);

// Returns OK if the database exists. NotFound, PermissionDenied. `path`: of DatabasePath.
absl::Status CheckDatabaseExists(const std::string& path);

// Returns the path of --db, or of the default database, which must exist. Errors: those of the two above and
// of DatabasePath.
absl::StatusOr<std::string> ExistingDatabase(const std::string& option);

// Returns where --coordinator is and how it is reached. Requires: remote(). Errors: as CheckServiceOptions.
absl::StatusOr<Endpoint> EndpointOf(const ServiceOptions& options);

// Returns the files that the options name: the database, certificates, the token.
std::vector<FileOfOption> FilesOf(const ServiceOptions& options);

// Returns " --coordinator ADDR", " --db FILE" or "": the options that another command needs for the same
// place.
std::string AsWritten(const ServiceOptions& options);

// Returns the Unix socket of the server that has this database open: the database's path plus ".sock". If
// that exceeds a socket's limit (107 bytes) or has characters that a gRPC address does not accept, returns a
// name hashed from the path. That name is in $XDG_RUNTIME_DIR, or else in a private directory of this user
// under /tmp, which is created. All spellings of the database's path give the same result.
// Returns the path of a socket of this process alone, for a coordinator without a database file. Errors: as
// SocketPath.
absl::StatusOr<std::string> PrivateSocketPath();

absl::StatusOr<std::string> SocketPath(const std::string& database);

// Returns true if a process listens on the socket.
bool IsListening(const std::string& socket_path);

}  // namespace autocfg::cli
