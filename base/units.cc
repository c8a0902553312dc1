#include "base/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::base {
namespace {

using enum Quantity;

constexpr double kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

constexpr Unit kUnits[] = {
    {kSequenceLength, "k", kKi},
    {kSequenceLength, "K", kKi},
    {kSequenceLength, "M", kMi},
    {kTokens, "k", 1e3},
    {kTokens, "K", 1e3},
    {kTokens, "M", 1e6},
    {kTokens, "B", 1e9},
    {kTokens, "T", 1e12},
    {kSeconds, "ns", 1e-9},
    {kSeconds, "us", 1e-6},
    {kSeconds, "ms", 1e-3},
    {kSeconds, "s", 1},
    {kSeconds, "m", 60},
    {kSeconds, "min", 60},
    {kSeconds, "h", 3600},
    {kSeconds, "d", 86400},
    {kBytes, "B", 1},
    {kBytes, "kB", 1e3},
    {kBytes, "MB", 1e6},
    {kBytes, "GB", 1e9},
    {kBytes, "TB", 1e12},
    {kBytes, "KiB", kKi},
    {kBytes, "MiB", kMi},
    {kBytes, "GiB", kGi},
    {kBytes, "TiB", kTi},
    {kBytesPerSecond, "B/s", 1},
    {kBytesPerSecond, "kB/s", 1e3},
    {kBytesPerSecond, "MB/s", 1e6},
    {kBytesPerSecond, "GB/s", 1e9},
    {kBytesPerSecond, "TB/s", 1e12},
    {kBytesPerSecond, "KiB/s", kKi},
    {kBytesPerSecond, "MiB/s", kMi},
    {kBytesPerSecond, "GiB/s", kGi},
    {kBytesPerSecond, "TiB/s", kTi},
    {kBytesPerSecond, "b/s", 1.0 / 8},
    {kBytesPerSecond, "kb/s", 1e3 / 8},
    {kBytesPerSecond, "Mb/s", 1e6 / 8},
    {kBytesPerSecond, "Gb/s", 1e9 / 8},
    {kBytesPerSecond, "Tb/s", 1e12 / 8},
    {kBytesPerSecond, "Mbit/s", 1e6 / 8},
    {kBytesPerSecond, "Gbit/s", 1e9 / 8},
    {kBytesPerSecond, "Tbit/s", 1e12 / 8},
    {kBytesPerSecond, "Mbps", 1e6 / 8},
    {kBytesPerSecond, "Gbps", 1e9 / 8},
    {kBytesPerSecond, "Tbps", 1e12 / 8},
    {kBytesPerSecond, "MBps", 1e6},
    {kBytesPerSecond, "GBps", 1e9},
    {kBytesPerSecond, "TBps", 1e12},
    {kFlopsPerSecond, "GFLOP/s", 1e9},
    {kFlopsPerSecond, "TFLOP/s", 1e12},
    {kFlopsPerSecond, "PFLOP/s", 1e15},
    {kFlopsPerSecond, "GFLOPS", 1e9},
    {kFlopsPerSecond, "TFLOPS", 1e12},
    {kFlopsPerSecond, "PFLOPS", 1e15},
    {kPrice, "$", 1},
    {kPrice, "€", 1},
    {kPrice, "£", 1},
};

bool IsNumberStart(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.'; }

// Takes a number without a sign from the front of `text`. Returns false if there is none.
bool TakeNumber(std::string_view& text, double& value) {
  if (text.empty() || !IsNumberStart(text.front())) return false;  // no sign, no "inf"
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return std::isfinite(value);
}

const Unit* FindUnit(Quantity quantity, std::string_view suffix) {
  for (const Unit& unit : kUnits) {
    if (unit.quantity == quantity && unit.suffix == suffix) return &unit;
  }
  return nullptr;
}

// Returns the units that `suffix` may mean: those that it spells in other letter cases, else those that begin
// with it, in any case.
std::vector<std::string_view> MeantUnits(Quantity quantity, std::string_view suffix) {
  const auto lower = [](std::string_view name) {
    std::string text;
    for (const char c : name) text += absl::ascii_tolower(static_cast<unsigned char>(c));
    return text;
  };
  const std::string given = lower(suffix);
  std::vector<std::string_view> whole, begun;
  for (const Unit& unit : kUnits) {
    if (unit.quantity != quantity) continue;
    const std::string known = lower(unit.suffix);
    if (known == given) whole.push_back(unit.suffix);
    if (known.starts_with(given)) begun.push_back(unit.suffix);
  }
  return whole.empty() ? begun : whole;
}

absl::Status Bad(const std::string& problem) { return absl::InvalidArgumentError(problem); }

absl::Status NotAQuantity(Quantity quantity, std::string_view text) {
  return Bad(fmt::format("invalid value '{}'; write {}", Printable(text), QuantityExamples(quantity)));
}

absl::Status UnknownUnit(Quantity quantity, std::string_view text, std::string_view number,
                         std::string_view suffix) {
  std::vector<std::string> meant;
  for (const std::string_view unit : MeantUnits(quantity, suffix))
    meant.push_back(fmt::format("{}{}", number, unit));
  if (meant.empty()) {
    return Bad(fmt::format("invalid value '{}': unknown unit '{}'; write {}", Printable(text),
                           Printable(suffix), QuantityExamples(quantity)));
  }
  if (meant.size() == 1) {
    return Bad(fmt::format("invalid value '{}': unknown unit '{}'; did you mean {}?", Printable(text),
                           Printable(suffix), meant.front()));
  }
  constexpr std::size_t kMost = 4;
  meant.resize(std::min(meant.size(), kMost));
  const bool bits = quantity == kBytesPerSecond;
  return Bad(fmt::format("invalid value '{}': it could be {}{}; write which", Printable(text),
                         ChoiceText(meant), bits ? " (b is a bit, B a byte)" : ""));
}

absl::StatusOr<double> ParsePrice(std::string_view text) {
  std::string_view number = text;
  for (const Unit& unit : kUnits) {
    if (unit.quantity == kPrice && number.starts_with(unit.suffix)) {
      number.remove_prefix(unit.suffix.size());
      break;
    }
  }
  const std::string_view digits = number;
  double value = 0;
  if (!TakeNumber(number, value) || !number.empty()) return NotAQuantity(kPrice, text);
  if (digits.front() == '.') {
    return Bad(fmt::format(
        "invalid value '{}': a shell makes .10 of an unquoted $2.10; write {}, or 0{} if it is meant",
        Printable(text), QuantityExamples(kPrice), digits));
  }
  return value;
}

}  // namespace

std::span<const Unit> Units() { return kUnits; }

absl::StatusOr<double> ParseQuantity(Quantity quantity, std::string_view text) {
  if (quantity == kPrice) return ParsePrice(text);
  double sum = 0;
  std::string_view rest = text;
  for (bool first = true; first || !rest.empty(); first = false) {
    if (!first && quantity != kSeconds) return NotAQuantity(quantity, text);  // only times add up: 1h30m
    const std::string_view begin = rest;
    double value = 0;
    if (!TakeNumber(rest, value)) return NotAQuantity(quantity, text);
    const std::string_view number = begin.substr(0, begin.size() - rest.size());
    if (first && rest.empty()) return value;
    const auto* const end = std::find_if(rest.begin(), rest.end(), IsNumberStart);
    const std::string_view suffix = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    if (suffix.empty()) return NotAQuantity(quantity, text);
    const Unit* const unit = FindUnit(quantity, suffix);
    if (unit == nullptr) return UnknownUnit(quantity, text, number, suffix);
    rest.remove_prefix(suffix.size());
    sum += value * unit->factor;
  }
  if (!std::isfinite(sum)) return NotAQuantity(quantity, text);
  return sum;
}

bool HasUnit(std::string_view text) {
  double value = 0;
  return !text.empty() && !(TakeNumber(text, value) && text.empty());
}

std::string QuantityText(Quantity quantity, double value) {
  switch (quantity) {
    case kSequenceLength:
    case kTokens:
      return value < 1e18 && std::trunc(value) == value
                 ? fmt::format("{} tokens", CountText(static_cast<std::int64_t>(value)))
                 : fmt::format("{:.10g} tokens", value);
    case kSeconds: return SecondsText(value);
    case kBytes: return fmt::format("{} bytes", CountText(std::llround(value)));
    case kBytesPerSecond: return fmt::format("{:.10g} GB/s", value / 1e9);
    case kFlopsPerSecond: return fmt::format("{:.10g} TFLOP/s", value / 1e12);
    case kPrice: return PriceText(value) + ", in any currency";
  }
  return "";
}

std::string PriceText(double price) {
  const std::string cents = fmt::format("{:.2f}", price);
  const bool whole = std::abs(std::stod(cents) - price) <= 1e-9 * price;
  return fmt::format("{} a GPU-hour", whole ? cents : fmt::format("{:.10g}", price));
}

std::string_view QuantityExamples(Quantity quantity) {
  switch (quantity) {
    case kSequenceLength: return "8192 or 8k (k is 1024)";
    case kTokens: return "300e9, 300B or 1.5T (k is 1000)";
    case kSeconds: return "90, 90s, 10m or 2h";
    case kBytes: return "80e9, 80GB or 80GiB";
    case kBytesPerSecond: return "400GB/s (bytes) or 200Gb/s (bits)";
    case kFlopsPerSecond: return "989e12 or 989TFLOP/s";
    case kPrice: return "2.10 or '$2.10' (in quotes)";
  }
  return "";
}

}  // namespace autocfg::base
