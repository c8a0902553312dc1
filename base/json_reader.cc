#include "base/json_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::base {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxDepth = 64;
constexpr double kExact = 9007199254740992.0;  // 2^53: doubles up to here are exact integers

// Validates a document without building it.
class Checker : public nlohmann::json_sax<Json> {
 public:
  explicit Checker(std::string_view text) : text_(text) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t value, const string_t& text) override {
    return std::isfinite(value) || Fail(fmt::format("the number {} is too large", Printable(text)));
  }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return Enter();
  }
  bool key(string_t& name) override {
    return keys_.back().insert(name).second ||
           Fail(fmt::format("the key \"{}\" is named twice", Printable(name)));
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) return Fail(fmt::format("the number {} is too large", Printable(token)));
    // If the text ends too early, the token is the last one read.
    const std::string_view what = error.what();
    const bool ends =
        what.find("unexpected end of input") != what.npos || what.find("missing closing quote") != what.npos;
    if (position > 0 && position <= text_.size() && text_[position - 1] == '\0') {
      position_ = position;
      return Fail("unexpected \"\\x00\"");
    }
    if (token.empty() || ends) return Fail("the text ends too early");
    // The library's token may begin long before the error. Shows the word or punctuation mark at the error
    // instead.
    constexpr std::string_view kMarks = " \t\r\n{}[],:\"";
    const std::size_t last = std::clamp<std::size_t>(position, 1, text_.size()) - 1;
    std::size_t begin = last, end = last + 1;
    // the end of an unexpected string: go back to its unescaped opening quote
    if (text_[last] == '"') {
      while (begin > 0) {
        if (text_[--begin] == '"' && (begin == 0 || text_[begin - 1] != '\\')) break;
      }
    } else if (kMarks.find(text_[last]) == kMarks.npos) {
      while (begin > 0 && kMarks.find(text_[begin - 1]) == kMarks.npos) --begin;
      while (end < text_.size() && kMarks.find(text_[end]) == kMarks.npos) ++end;
    }
    position_ = begin + 1;
    return Fail(fmt::format("unexpected \"{}\"", Printable(text_.substr(begin, end - begin))));
  }

  const std::string& problem() const { return problem_; }
  std::size_t position() const { return position_; }  // of a syntax error, in bytes from 1; 0 if unknown

 private:
  bool Fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool Enter() {
    return ++depth_ <= kMaxDepth || Fail(fmt::format("it is nested deeper than {}", kMaxDepth));
  }

  const std::string_view text_;
  std::vector<std::set<std::string>> keys_;
  std::size_t depth_ = 0;
  std::size_t position_ = 0;
  std::string problem_;
};

// Returns the value for one line of a message.
std::string Quoted(const Json& value) {
  return Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view what, std::string_view text, JsonPosition position) {
  Checker checker(text);
  if (!Json::sax_parse(text.begin(), text.end(), &checker)) {
    std::string where;
    if (checker.position() > 0) {
      const std::string_view before = text.substr(0, std::min(checker.position() - 1, text.size()));
      const auto line = 1 + std::count(before.begin(), before.end(), '\n');
      const std::size_t last_break = before.rfind('\n');
      const std::size_t column =
          before.size() - (last_break == std::string_view::npos ? 0 : last_break + 1) + 1;
      where = position == JsonPosition::kColumn ? fmt::format(" at column {}", column)
                                                : fmt::format(" at line {}, column {}", line, column);
    }
    return InvalidArgument(what, fmt::format("not valid JSON{}: {}", where, checker.problem()));
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument(what, "not valid JSON");
  return json;
}

std::string QuoteNonFinite(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNames = {"NaN", "Infinity", "-Infinity"};
  std::string quoted;
  quoted.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t bytes = 1;
    if (in_string) {
      if (text[i] == '\\' && i + 1 < text.size()) bytes = 2;
      in_string = text[i] != '"';
    } else {
      in_string = text[i] == '"';
      const auto name = std::ranges::find_if(
          kNames, [&](std::string_view known) { return text.substr(i).starts_with(known); });
      if (name != kNames.end()) {
        quoted.append(1, '"').append(*name).append(1, '"');
        i += name->size();
        continue;
      }
    }
    quoted.append(text.substr(i, bytes));
    i += bytes;
  }
  return quoted;
}

std::optional<std::int64_t> WholeNumber(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::abs(number) > kExact || std::trunc(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

FieldReader::FieldReader(std::string_view subject, const Json& json, std::string_view path)
    : subject_(subject), path_(path.empty() ? "" : fmt::format("{}: ", path)), json_(json) {
  if (!json.is_object()) Invalid(fmt::format("{} is not a JSON object; give one", Quoted(json)));
}

void FieldReader::Invalid(std::string_view problem) {
  Fail(InvalidArgument(subject_, fmt::format("{}{}", path_, problem)));
}

const Json* FieldReader::Find(std::string_view name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.emplace_back(name);
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(std::string(name));
  return found == json_.end() ? nullptr : &*found;
}

void FieldReader::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void FieldReader::FailField(std::string_view name, const Json& value, std::string_view wanted) {
  Invalid(fmt::format("{} is {}; it must be {}", name, Quoted(value), wanted));
}

void FieldReader::FailUnknown(std::string_view name, std::string_view value,
                              const std::vector<std::string>& known) {
  Invalid(fmt::format("unknown {} '{}'; expected {}{}", name, Printable(value), ChoiceText(known),
                      DidYouMeanOfListed(value, known)));
}

void FieldReader::Require(std::string_view name) {
  if (Find(name) != nullptr) return;
  if (status_.ok()) missing_ = name;
  Invalid(fmt::format("{} is missing; add it", name));
}

void FieldReader::Size(std::string_view name, std::int64_t& value, std::int64_t least) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (field->is_number_unsigned() && field->get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    return FailField(name, *field, fmt::format("at most {}", INT64_MAX));
  }
  const std::optional<std::int64_t> whole = WholeNumber(*field);
  if (!whole && field->is_number_float() && std::abs(field->get<double>()) > kExact) {
    return FailField(name, *field, fmt::format("a whole number within {:.0f} of 0", kExact));
  }
  if (!whole) return FailField(name, *field, "a whole number");
  if (*whole < least) return FailField(name, *field, fmt::format("at least {}", least));
  value = *whole;
}

void FieldReader::Number(std::string_view name, double& value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_number()) return FailField(name, *field, "a number");
  const auto number = field->get<double>();
  if (!std::isfinite(number) || number < 0) return FailField(name, *field, "a finite number, not negative");
  value = number;
}

void FieldReader::Numbers(std::string_view name, std::vector<double>& value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  const auto is_number = [](const Json& item) {
    return item.is_number() && std::isfinite(item.get<double>()) && item.get<double>() >= 0;
  };
  if (!field->is_array() || !std::ranges::all_of(*field, is_number))
    return Invalid(fmt::format("{} must be a list of finite numbers, none of them negative", name));
  value = field->get<std::vector<double>>();
}

std::optional<double> FieldReader::Text(std::string_view name, Quantity quantity, const Json& value) {
  const auto& text = value.get_ref<const std::string&>();
  if (!HasUnit(text)) {
    FailField(name, value, fmt::format("a number, or a text with a unit: {}", QuantityExamples(quantity)));
    return std::nullopt;
  }
  const auto parsed = ParseQuantity(quantity, text);
  if (parsed.ok()) return *parsed;
  Invalid(fmt::format("{}: {}", name, std::string(parsed.status().message())));
  return std::nullopt;
}

void FieldReader::SizeOrText(std::string_view name, Quantity quantity, std::int64_t& value,
                             std::int64_t least) {
  const Json* field = Find(name);
  if (field == nullptr || !field->is_string()) return Size(name, value, least);
  const std::optional<double> number = Text(name, quantity, *field);
  if (!number) return;
  if (std::trunc(*number) != *number || *number > kExact || *number < static_cast<double>(least)) {
    return Invalid(fmt::format("{} is {}, which is {}; it must be a whole number from {} to {:.0f}", name,
                               Quoted(*field), QuantityText(quantity, *number), least, kExact));
  }
  value = static_cast<std::int64_t>(*number);
}

void FieldReader::NumberOrText(std::string_view name, Quantity quantity, double& value) {
  const Json* field = Find(name);
  if (field == nullptr || !field->is_string()) return Number(name, value);
  if (const std::optional<double> number = Text(name, quantity, *field); number) value = *number;
}

void FieldReader::Bool(std::string_view name, bool& value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_boolean()) return FailField(name, *field, "true or false");
  value = field->get<bool>();
}

void FieldReader::String(std::string_view name, std::string& value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_string()) return FailField(name, *field, "a string");
  value = field->get<std::string>();
}

absl::Status FieldReader::Finish() {
  if (!missing_.empty() && json_.is_object()) {
    // The field may be there under a misspelt name.
    for (const auto& [key, value] : json_.items()) {
      const bool unknown = std::find(known_.begin(), known_.end(), key) == known_.end();
      if (!unknown || NearestNames(key, known_).empty() || NearestNames(key, known_).front() != missing_)
        continue;
      return InvalidArgument(
          subject_, fmt::format("{}{} is missing, and {} is unknown; write {} in its place", path_, missing_,
                                Printable(key), missing_));
    }
  }
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : json_.items()) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      const std::string near = DidYouMean(key, known_);
      Invalid(fmt::format("unknown field {}{}", Printable(key), near.empty() ? "; leave it out" : near));
      return status_;
    }
  }
  return absl::OkStatus();
}

}  // namespace autocfg::base
