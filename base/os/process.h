// Identity and log of a process of the project: its version, its build, where its messages go.
#pragma once

#include <cstdint>
#include <string>

namespace autocfg::base {

// Returns the project's version, "0.1.0". Thread-safe.
std::string Version();

// Returns version and source revision, "0.1.0+3001fe9c7a21". Appends "-dirty" for an edited checkout; without
// git, the revision is "unknown". Every measurement carries it, so that results of different builds stay
// separate. Thread-safe.
std::string BuildId();

// Least severe messages that a program logs by default.
enum class LogLevel : std::uint8_t { kInfo, kError };

// The process logs from `level` on, or from the level in the environment variable AUTOCFG_LOG: trace, debug,
// info, warn, error, critical or off. Logs an error and keeps `level` if the value is unknown. Call before
// other threads start.
void SetLogLevel(LogLevel level);

// Sends the process's log to standard error, each line prefixed with the program's name, and sets its level
// as SetLogLevel does. Call before other threads start.
void SetUpLog(const std::string& program, LogLevel level);

// Names the calling thread for debuggers and `ps -L`. At most 15 bytes of the name are kept.
void NameThread(const std::string& name);

}  // namespace autocfg::base
