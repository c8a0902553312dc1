// Parses JSON documents from untrusted bytes and reads the fields of an object with checked types. Throws
// nothing. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace autocfg {

// One JSON document. InvalidArgument, beginning with `what`, with line and column: not JSON, a number too
// large for a double, a key named twice in one object, nested deeper than 64.
absl::StatusOr<nlohmann::ordered_json> ParseJson(std::string_view what, std::string_view text);

// A whole number, written as 8 or 8.0: the one rule of all our JSON. Nothing for anything else, a number in a
// string included, and beyond 64 bits.
std::optional<std::int64_t> WholeNumber(const nlohmann::ordered_json& value);

// Reads the fields of one object. The first thing wrong is kept and returned by Finish; everything after it
// is skipped.
class FieldReader {
 public:
  // `what` begins each message, e.g. "model". `json` must outlive the reader.
  FieldReader(std::string_view what, const nlohmann::ordered_json& json);

  // Each leaves `value` as it is where the field is absent. Size: a whole number, at least `least`. Number:
  // finite, not negative.
  void Size(std::string_view name, std::int64_t& value, std::int64_t least = 1);
  void Number(std::string_view name, double& value);
  void Bool(std::string_view name, bool& value);
  void String(std::string_view name, std::string& value);
  // One of a set of names; `parse` gives an optional. `known` lists them.
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

  // The field as it is, marked as known; null where it is absent.
  const nlohmann::ordered_json* Find(std::string_view name);
  void Require(std::string_view name);  // the field must be there
  void Fail(absl::Status status);       // keeps the first

  // What was wrong first; else, a field that none of the calls named.
  absl::Status Finish();

 private:
  void FailField(std::string_view name, std::string_view wanted);
  void FailUnknown(std::string_view name, std::string_view value, const std::vector<std::string>& known);

  std::string what_;
  const nlohmann::ordered_json& json_;
  std::vector<std::string> known_;
  absl::Status status_;
};

}  // namespace autocfg
