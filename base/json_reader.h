// Parses JSON documents from untrusted bytes and reads the fields of an object with checked types. No
// function throws. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "nlohmann/json.hpp"

namespace autocfg::base {

// How errors say where they are. kColumn: for texts of one line.
enum class JsonPosition { kLineAndColumn, kColumn };

// Parses one JSON document. InvalidArgument, starting with `what` and with line and column: invalid JSON, a
// number too large for a double, a duplicate key in an object, or nesting deeper than 64.
absl::StatusOr<nlohmann::ordered_json> ParseJson(std::string_view what, std::string_view text,
                                                 JsonPosition position = JsonPosition::kLineAndColumn);

// Returns the text with the numbers that Python writes and JSON lacks (NaN, Infinity and -Infinity) as
// strings: a reader of such a field names it and its value, and the others are unaffected. Positions in
// errors of ParseJson are those in the new text, which has two bytes more for each of them.
std::string QuoteNonFinite(std::string_view text);

// Returns a whole number written as 8 or 8.0; all our JSON follows this rule. Returns nothing for any other
// value, including numbers in strings and numbers beyond 64 bits.
std::optional<std::int64_t> WholeNumber(const nlohmann::ordered_json& value);

// Reads the fields of one object. Keeps the first error for Finish and skips all reads after it. Errors quote
// the value: "heads is 0; it must be at least 1", "unknown norm 'batch'; expected layernorm or rmsnorm".
class FieldReader {
 public:
  // Errors have this subject, e.g. "model" (base/subject.h). `path` names a nested object: "device: rates".
  // `json` must outlive the reader.
  FieldReader(std::string_view subject, const nlohmann::ordered_json& json, std::string_view path = "");

  // Each leaves `value` unchanged if the field is absent or wrong. Size: a whole number of at least `least`.
  // Number: finite and not negative.
  void Size(std::string_view name, std::int64_t& value, std::int64_t least = 1);
  void Number(std::string_view name, double& value);
  void Numbers(std::string_view name, std::vector<double>& value);  // a list of such numbers
  // Each also takes a text with a unit (base/units.h): "400GB/s". A text without one is refused.
  void SizeOrText(std::string_view name, Quantity quantity, std::int64_t& value, std::int64_t least = 1);
  void NumberOrText(std::string_view name, Quantity quantity, double& value);
  void Bool(std::string_view name, bool& value);
  void String(std::string_view name, std::string& value);
  // Reads one of a set of names. `parse` returns an optional; `known` lists the names.
  template <typename Enum, typename Parse>
  void Named(std::string_view name, Enum& value, Parse parse, const std::vector<std::string>& known) {
    std::string text;
    const nlohmann::ordered_json* field = Find(name);
    String(name, text);
    if (field == nullptr || !status_.ok()) return;
    if (const auto parsed = parse(std::string_view(text)); parsed) {
      value = *parsed;
    } else {
      FailUnknown(name, text, known);
    }
  }

  // Returns the raw field and marks it as known; null if absent.
  const nlohmann::ordered_json* Find(std::string_view name);
  void Require(std::string_view name);     // requires the field to be present
  void Invalid(std::string_view problem);  // InvalidArgument about this object; keeps the first error
  void Fail(absl::Status status);          // keeps the first error

  // Returns the names of all fields that calls named so far.
  const std::vector<std::string>& known() const { return known_; }

  // Returns the first error, or else an error about a field that no call named.
  absl::Status Finish();

 private:
  void FailField(std::string_view name, const nlohmann::ordered_json& value, std::string_view wanted);
  // Reads a text with a unit; fails the field, and returns nothing, if it is not one.
  std::optional<double> Text(std::string_view name, Quantity quantity, const nlohmann::ordered_json& value);
  void FailUnknown(std::string_view name, std::string_view value, const std::vector<std::string>& known);

  std::string subject_;
  std::string path_;  // with ": " at its end; empty for the outermost object
  const nlohmann::ordered_json& json_;
  std::vector<std::string> known_;
  std::string missing_;  // the required field whose absence is the first error; else empty
  absl::Status status_;
};

}  // namespace autocfg::base
