#include "cli/input/option_values.h"

#include <cmath>
#include <string>
#include <utility>

#include "base/numbers.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg::cli {
absl::StatusOr<std::int64_t> ParseWhole(std::string_view name, std::string_view text, std::int64_t least,
                                        std::int64_t most) {
  if (const auto value = base::ParseNumber(text, least, most)) return *value;
  return absl::InvalidArgumentError(
      fmt::format("{}: invalid value '{}'; expected a whole number from {} to {}", name,
                  base::Printable(text), least, most));
}

absl::StatusOr<std::uint64_t> ParseSeed(std::string_view name, std::string_view text) {
  if (const auto value = base::ParseNumber<std::uint64_t>(text)) return *value;
  return absl::InvalidArgumentError(
      fmt::format("{}: invalid value '{}'; expected a whole number from 0 to 18446744073709551615", name,
                  base::Printable(text)));
}

absl::StatusOr<double> ParseReal(std::string_view name, std::string_view text, double least, double most) {
  if (const auto value = base::ParseNumber(text, least, most)) return *value;
  return absl::InvalidArgumentError(fmt::format("{}: invalid value '{}'; expected a number from {} to {}",
                                                name, base::Printable(text), least, most));
}

absl::StatusOr<double> ParseWithUnit(std::string_view name, base::Quantity quantity, std::string_view text,
                                     double least, double most, double unit) {
  auto value = base::ParseQuantity(quantity, text);
  if (!value.ok())
    return absl::InvalidArgumentError(fmt::format("{}: {}", name, std::string(value.status().message())));
  if (!base::HasUnit(text)) *value *= unit;
  if (least <= *value && *value <= most) return *value;
  return absl::InvalidArgumentError(
      fmt::format("{}: invalid value '{}'; expected a number from {} to {}, such as {}", name,
                  base::Printable(text), least / unit, most / unit, base::QuantityExamples(quantity)));
}

absl::StatusOr<std::int64_t> ParseWholeWithUnit(std::string_view name, base::Quantity quantity,
                                                std::string_view text, std::int64_t least,
                                                std::int64_t most) {
  if (const auto digits = base::ParseNumber(text, least, most)) return *digits;
  if (text.find(',') != std::string_view::npos)
    return absl::InvalidArgumentError(
        fmt::format("{}: invalid value '{}': it is a list; give one value", name, base::Printable(text)));
  const auto value = base::ParseQuantity(quantity, text);
  if (!value.ok() && base::HasUnit(text) && !text.empty() && text.front() >= '0' && text.front() <= '9')
    return absl::InvalidArgumentError(fmt::format("{}: {}", name, std::string(value.status().message())));
  if (value.ok() && base::HasUnit(text) && std::trunc(*value) == *value &&
      *value >= static_cast<double>(least) && *value <= static_cast<double>(most))
    return static_cast<std::int64_t>(*value);
  return absl::InvalidArgumentError(
      fmt::format("{}: invalid value '{}'; expected a whole number from {} to {}, such as {}", name,
                  base::Printable(text), least, most, base::QuantityExamples(quantity)));
}

void AddUnitNote(std::string_view name, base::Quantity quantity, std::string_view text,
                 std::vector<std::string>& notes) {
  if (!base::HasUnit(text)) return;
  const auto value = base::ParseQuantity(quantity, text);
  if (!value.ok()) return;
  const std::string understood = base::QuantityText(quantity, *value);
  const auto without_blanks = [](std::string_view written) {
    std::string kept(written);
    std::erase(kept, ' ');
    return kept;
  };
  if (without_blanks(understood) == without_blanks(text)) return;
  notes.push_back(fmt::format("{}: {} is {}", name, text, understood));
}

absl::StatusOr<double> ParseShare(std::string_view name, std::string_view text) {
  const bool percent = text.ends_with('%');
  const auto number = base::ParseNumber<double>(percent ? text.substr(0, text.size() - 1) : text, 0);
  const double value = percent ? number.value_or(-1) / 100 : number.value_or(-1);
  if (value >= 0 && value < 1) return value;
  return absl::InvalidArgumentError(
      fmt::format("{}: invalid value '{}'; expected a share from 0 to below 100%, such as 5% or 0.05", name,
                  base::Printable(text)));
}

absl::Status OfOption(const absl::Status& status, std::string_view cluster) {
  static constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
      {"model", "--model"},
      {"plan", "--plan"},
      {"space", "--space"},
      {"spec.model", "--model"},
      {"spec.workload.global_batch", "--global-batch"},
      {"spec.workload.precision", "--precision"},
      {"spec.workload.optimizer", "--optimizer"},
      {"spec.workload", "workload"},
      {"spec.space", "--space"},
      {"spec.device", "--device"},
  };
  const std::string subject = base::SubjectOf(status);
  if (subject == "cluster" || subject == "spec.cluster")
    return base::WithSubject(cluster.empty() ? "--cluster" : fmt::format("--cluster: {}", cluster), status);
  for (const std::string_view option : {"precision", "optimizer", "momentum", "engine"}) {
    if (base::OptionOf(status) == option) return base::WithSubject(fmt::format("--{}", option), status);
  }
  for (const auto& [known, option] : kOptions) {
    if (subject == known) return base::WithSubject(option, status);
  }
  return status;
}

}  // namespace autocfg::cli
