// The one table of units that texts of options and JSON fields may have ("200Gb/s", "8k", "2h", "$2.10"), and
// their parser. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace autocfg::base {

enum class Quantity : std::uint8_t {
  kSequenceLength,  // tokens of a sequence: k is 1024
  kTokens,          // tokens of a training run: k is 1000
  kSeconds,
  kBytes,
  kBytesPerSecond,  // also in bits: b is a bit, B a byte
  kFlopsPerSecond,
  kPrice,  // of an hour of a GPU, in any currency
};

// One unit: a number before `suffix` (of a price: after it) means so many times `factor`.
struct Unit {
  Quantity quantity;
  std::string_view suffix;
  double factor;
};

// All units, in the order in which messages list them.
std::span<const Unit> Units();

// Returns the value of a number with or without a unit of `quantity`: "8k", "1.5T", "200Gb/s", "1h30m". A
// bare number is in the base unit (tokens, seconds, bytes, bytes per second, ...). Values are finite and not
// negative.
//
// InvalidArgument quotes the text and says what to write. A unit that may be several (gb/s: bits or bytes) is
// refused with each of them. So is a price without a digit before its point: it is what a shell leaves of an
// unquoted $2.10.
absl::StatusOr<double> ParseQuantity(Quantity quantity, std::string_view text);

// Returns true if the text is more than a bare number, so that an answer must repeat what it was read as.
bool HasUnit(std::string_view text);

// Returns the value with its base unit, for people: "8,192 tokens", "25 GB/s", "1 h 30 min".
std::string QuantityText(Quantity quantity, double value);

// Returns "2.10 a GPU-hour": with cents, or with all digits if it has parts of a cent.
std::string PriceText(double price);

// Returns examples for messages: "8192 or 8k (k is 1024)".
std::string_view QuantityExamples(Quantity quantity);

}  // namespace autocfg::base
