// A command, and an environment, with placeholders in braces that each job fills in. Plain values,
// thread-safe.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace autocfg::worker {

struct Placeholder {
  std::string_view name;
  std::string_view meaning;
  bool of_rank = false;  // only in what is started once per rank
  bool is_list = false;  // stands alone: an argument becomes several
};

// All placeholders, in the order of the documentation.
std::span<const Placeholder> Placeholders();

// Values by placeholder; the words of lists joined by line feeds.
using PlaceholderValues = std::map<std::string, std::string, std::less<>>;

// InvalidArgument if the text has a placeholder that is unknown or cannot stand there. A brace that begins no
// name in braces stands for itself.
absl::Status CheckPlaceholders(std::string_view text, bool per_rank, bool list_allowed);

// Returns the words with their placeholders filled in. Requires checked texts, and a value for each.
std::vector<std::string> Filled(const std::vector<std::string>& words, const PlaceholderValues& values);
std::string Filled(std::string_view text, const PlaceholderValues& values);

}  // namespace autocfg::worker
