#include "worker/jobs/departure.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/time/time.h"
#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/rpc/duration.h"
#include "spdlog/spdlog.h"

namespace autocfg::worker {
namespace {

constexpr double kFirstUnixTime = 1e9;  // bare numbers below it are durations
constexpr double kLastUnixTime = 1e11;
constexpr std::size_t kMostNoticeBytes = 256;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string TimeText(double at_s) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(static_cast<std::int64_t>(at_s)),
                          absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<double> ParseDeparture(std::string_view text, double now_s) {
  if (const auto unix_s = base::ParseNumber(text, kFirstUnixTime, kLastUnixTime)) return *unix_s;
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, std::string(text), &time, &error) &&
      time != absl::InfiniteFuture() && time != absl::InfinitePast())
    return absl::ToDoubleSeconds(time - absl::UnixEpoch());
  if (const auto duration = ParseDuration("", text, 0, kYearSeconds); duration.ok()) return now_s + *duration;
  return absl::InvalidArgumentError(fmt::format(
      "'{}' is no time; give one such as 2026-11-27T03:00:00Z, Unix seconds, or a duration such as 2h",
      base::Printable(text)));
}

Departure::Departure(DepartureOptions options, base::Clock clock)
    : options_(std::move(options)), clock_(std::move(clock)) {}

void Departure::ReadNotice() {
  struct stat info {};
  std::ifstream file(options_.file, std::ios::binary);
  if (!file || ::stat(options_.file.c_str(), &info) != 0) return;  // an earlier notice stands
  std::string text(kMostNoticeBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const double changed_s =
      static_cast<double>(info.st_mtim.tv_sec) + 1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
  const std::string_view words = Trimmed(text);
  if (words.empty()) return;
  if (std::string known = fmt::format("{} {}", changed_s, words); std::exchange(read_, known) == known)
    return;
  const auto at_s = ParseDeparture(words, changed_s);
  if (!at_s.ok()) {
    spdlog::warn("--until-file: {}: {}; it is ignored", base::Printable(options_.file),
                 std::string(at_s.status().message()));
    return;
  }
  notice_s_ = *at_s;
  spdlog::info("--until-file: {}: this worker must go at {}", base::Printable(options_.file),
               TimeText(*at_s));
}

std::optional<double> Departure::SecondsLeft() {
  absl::MutexLock lock(&mutex_);
  if (has_file()) ReadNotice();
  std::optional<double> at_s = options_.at_s;
  if (notice_s_) at_s = at_s ? std::min(*at_s, *notice_s_) : *notice_s_;
  if (!at_s) return std::nullopt;
  return *at_s - clock_();
}

std::optional<double> Departure::SecondsForJobs() {
  const std::optional<double> left_s = SecondsLeft();
  if (!left_s) return std::nullopt;
  return std::clamp(*left_s - options_.grace_s, 0.0, kYearSeconds);
}

bool Departure::MustEndJobs() {
  const std::optional<double> left_s = SecondsLeft();
  return left_s && *left_s <= options_.grace_s / 3;
}

}  // namespace autocfg::worker
