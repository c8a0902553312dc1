// Values that several parts of a report's JSON have: numbers and shares, written short. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "nlohmann/json_fwd.hpp"
#include "search/breakdown/step_breakdown.h"
#include "search/cost/memory/memory_model.h"

namespace autocfg::server {

// Returns the number with so few digits that its text is short.
double Rounded(double value, int digits = 5);

double MebibytesOf(std::int64_t bytes);

// Returns a part of the whole in thousandths; 0 if the whole is nothing.
std::int64_t Permille(double part, double whole);

// Returns "3" of "studies/1/trials/3".
std::string LastPartOf(const std::string& name);

// Return the parts in the order of kMemoryRegions, in MiB, and of kBreakdownParts, in seconds.
nlohmann::ordered_json MemoryParts(const MemoryBytes& memory);
nlohmann::ordered_json TimeParts(const Breakdown& breakdown);

}  // namespace autocfg::server
