// Locates the database and the socket of its server. Reads the environment; thread-safe while the environment
// does not change.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/database_path.h"  // DatabasePath, shared with the server

namespace autocfg::cli {

// Returns the Unix socket of the server that has this database open: the database's path plus ".sock". If
// that exceeds a socket's limit (107 bytes) or has characters that a gRPC address does not accept, returns a
// name hashed from the path. That name is in $XDG_RUNTIME_DIR, or else in a private directory of this user
// under /tmp, which is created. All spellings of the database's path give the same result.
absl::StatusOr<std::string> SocketPath(const std::string& database);

// Returns how to start this program again from the same directory: "autocfg" if PATH leads to it, otherwise
// `argv0` (which then has a slash), quoted for a shell if needed.
std::string ProgramName(const std::string& argv0);

// Quotes `word` as one word of a POSIX shell's command line.
std::string ShellWord(const std::string& word);

// Returns true if a process listens on the socket.
bool IsListening(const std::string& socket_path);

}  // namespace autocfg::cli
