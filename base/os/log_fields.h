// What a line of the log is about, for logs that programs read (base/service/log_output.h).
#pragma once

#include <string>

namespace autocfg::base {

// Names as the API has them; empty: the line is not about one.
struct LogFields {
  std::string study = {};   // studies/3
  std::string trial = {};   // studies/3/trials/7
  std::string worker = {};  // workers/a
  std::string lease = {};   // its ID
  std::string trace = {};   // of OpenTelemetry, 32 hexadecimal digits
};

// While alive, what its thread logs is about these, and about those of earlier scopes of the thread that it
// leaves empty. Scopes of a thread end in the reverse order of their beginning.
class LogScope {
 public:
  explicit LogScope(LogFields fields);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

  // Returns what the calling thread's lines are about now.
  static const LogFields& Current();

 private:
  LogFields fields_;
  const LogScope* const outer_;
};

}  // namespace autocfg::base
