// What a verb says to people and shells: exit codes, the one-line error, notes. Answers go to standard
// output, all of this to standard error. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace autocfg {

// Of every verb.
inline constexpr int kExitDone = 0;
inline constexpr int kExitNegative = 1;     // an honest negative answer: nothing fits, a run failed
inline constexpr int kExitUsage = 2;        // bad input or usage
inline constexpr int kExitUnreachable = 3;  // the service cannot be reached, or has no room

// A status's message, as a std::string.
std::string Text(const absl::Status& status);

// The exit code that fits a status of our own libraries: services that are unavailable or exhausted 3,
// internal errors 1, everything that the user can put right 2.
int ExitCodeOf(const absl::Status& status);

// "autocfg: MESSAGE" on one line: line breaks and control characters become spaces. Fail returns `code`; the
// second form finds it out.
int Fail(int code, std::string_view message);
int Fail(const absl::Status& status);
void Note(std::string_view message);

// The status with "WHERE: " before its message; a message that begins with "SUBJECT: " loses that, so that
// what is meant stands there once.
absl::Status Where(std::string_view where, const absl::Status& status, std::string_view subject = "");

// Writes the answer. kExitDone, or kExitNegative with an error line where standard output does not take it.
int Answer(std::string_view text);

// Columns to write in: the terminal's, less one; 80 where `fd` is none or does not say.
int Columns(int fd);

// A terminal on which the cursor can be moved: TERM is set and not "dumb".
bool CanDraw(int fd);
// ... in colour and bold: NO_COLOR is not set (no-color.org).
bool WantsColor(int fd);

}  // namespace autocfg
