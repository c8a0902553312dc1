// Where the database and the socket of the server beside it are. Reads the environment; thread-safe as long
// as nobody changes that.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/database_path.h"  // DatabasePath, which the server shares

namespace autocfg {

// The Unix socket of the server that has this database open: the database's path with ".sock" behind it.
// Where that is too long for a socket (107 bytes) or has characters that a gRPC address does not take: a name
// hashed from the path, in $XDG_RUNTIME_DIR or else in a directory of this user's alone under /tmp, which is
// made. The same for every way of writing the database's path.
absl::StatusOr<std::string> SocketPath(const std::string& database);

// How this program can be started again from where it was: "autocfg" where PATH leads to it, else `argv0`
// (which has a slash then), quoted where a shell needs that.
std::string ProgramName(const std::string& argv0);

// `word` as one word of a POSIX shell's command line.
std::string ShellWord(const std::string& word);

// Whether somebody listens there.
bool IsListening(const std::string& socket_path);

}  // namespace autocfg
