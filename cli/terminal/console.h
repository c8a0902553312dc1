// Output of a verb for people and shells: exit codes, the one-line error, notes. Answers go to standard
// output, everything else here to standard error. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace autocfg::cli {

// Exit codes of every verb.
inline constexpr int kExitDone = 0;
inline constexpr int kExitNegative = 1;     // an honest negative answer: nothing fits, a run failed
inline constexpr int kExitUsage = 2;        // bad input or usage
inline constexpr int kExitUnreachable = 3;  // the service cannot be reached, or has no room

// Returns the message of a status as a std::string.
std::string Text(const absl::Status& status);

// Returns the exit code for a status of our own libraries: 3 for unavailable or exhausted services, 1 for
// internal errors, 2 for everything that the user can correct.
int ExitCodeOf(const absl::Status& status);

// Prints "autocfg: MESSAGE" on one line; line breaks and control characters become spaces. Returns `code`, or
// in the second form the code for `status`.
int Fail(int code, std::string_view message);
int Fail(const absl::Status& status);
void Note(std::string_view message);

// Returns the status with "WHERE: " before its message. An error about `subject` (base/subject.h) loses its own
// subject, so that the message names the place once.
absl::Status Where(std::string_view where, const absl::Status& status, std::string_view subject = "");

// Writes the answer to standard output. Returns kExitDone, or prints an error line and returns kExitNegative
// if standard output does not accept it.
int Answer(std::string_view text);

// Returns the usable width: the terminal's columns minus one, or 80 if `fd` is not a terminal or its width is
// unknown.
int Columns(int fd);

// Returns true if `fd` is a terminal whose cursor can be moved: TERM is set and not "dumb".
bool CanDraw(int fd);
// Returns true if CanDraw(fd) and NO_COLOR is not set (no-color.org).
bool WantsColor(int fd);

}  // namespace autocfg::cli
