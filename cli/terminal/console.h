// Output of a verb for people and shells: exit codes, answers on standard output, the one-line error and
// notes on standard error, and the words of commands that they propose. Thread-safe while the environment
// does not change.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace autocfg::cli {

// Exit codes of every verb.
inline constexpr int kExitDone = 0;
inline constexpr int kExitNegative = 1;       // an honest negative answer: nothing fits, a run failed
inline constexpr int kExitUsage = 2;          // bad input or usage
inline constexpr int kExitUnreachable = 3;    // the service cannot be reached, or has no room
inline constexpr int kExitInterrupted = 130;  // ended by Ctrl-C or a signal like it, in an orderly way

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

// Returns the status with "WHERE: " before its message. An error about `subject` (base/subject.h) loses its
// own subject, so that the message names the place once.
absl::Status Where(std::string_view where, const absl::Status& status, std::string_view subject = "");

// Writes the answer to standard output. Returns kExitDone, or prints an error line and returns kExitNegative
// if standard output does not accept it.
int Answer(std::string_view text);

// Quotes `word` as one word of a POSIX shell's command line.
std::string ShellWord(const std::string& word);

// Returns how to start this program again from the same directory: "autocfg" if PATH leads to it, otherwise
// `argv0` (which then has a slash), quoted for a shell if needed.
std::string ProgramName(const std::string& argv0);

}  // namespace autocfg::cli
