// Reads the log of an engine as it arrives, by the rules of the engine's file. Holds bounded memory, whatever
// the log: the end of the log, the start of one line, and the steps. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/engines/log_rules.h"

namespace autocfg::worker {

// What a step's time follows from where the log tells of a rate.
struct StepSize {
  double samples = 0;
  double tokens = 0;
  double ranks = 1;
};

class LogReader {
 public:
  LogReader(const LogRules& rules, const StepSize& size) : rules_(rules), size_(size) {}

  // Takes the next bytes. Lines end with a line feed or a carriage return. Of a line beyond kLongestLine,
  // only the start counts. Colour codes of terminals are ignored.
  void Add(std::string_view bytes);
  // Takes the last line, which may lack its end. Call once.
  void Finish();

  // Seconds of the timed steps: without the first `untimed` ones, at most `timed`, in order. A step that
  // several ranks tell of takes as long as the slowest says. Without a rule for the step's number, each line
  // that tells of a time is a step.
  std::vector<double> TimedSteps(std::int64_t untimed, std::int64_t timed) const;
  std::int64_t steps() const { return static_cast<std::int64_t>(steps_.size()); }
  // Lines that told of a time, or a rate, that no step can have: 0.0 ms.
  std::int64_t impossible_times() const { return impossible_times_; }

  std::optional<double> first_loss() const { return first_loss_; }
  std::optional<double> last_loss() const { return last_loss_; }
  std::int64_t peak_memory_bytes() const { return peak_memory_bytes_; }  // 0: the log does not say

  // The last line that matched the rule, as it may be shown; empty: none did.
  const std::string& out_of_memory() const { return out_of_memory_; }
  const std::string& failure() const { return failure_; }
  const std::string& peer_lost() const { return peer_lost_; }

  std::size_t bytes() const { return bytes_; }                 // of the whole log
  const std::string& tail() const { return tail_; }            // its end
  const std::string& last_line() const { return last_line_; }  // with a letter; as it may be shown

  static constexpr std::size_t kLongestLine = 8 << 10;
  static constexpr std::size_t kTailBytes = 32 << 10;
  static constexpr std::size_t kMostSteps = 100'000;

 private:
  void TakeLine();
  void TakeNumbers(const std::string& line);
  void TakeStep(double seconds);
  std::optional<double> Find(const NumberRule& rule, const std::string& line) const;

  const LogRules& rules_;
  const StepSize size_;
  std::string line_;
  std::string tail_;
  std::size_t bytes_ = 0;
  std::map<std::int64_t, double> steps_;  // by number; without numbers, by the order of their lines
  std::int64_t impossible_times_ = 0;
  std::optional<std::int64_t> number_;  // the last that a line told of
  std::optional<double> first_loss_, last_loss_;
  std::int64_t peak_memory_bytes_ = 0;
  std::string out_of_memory_, failure_, peer_lost_, last_line_;
};

}  // namespace autocfg::worker
