#include "server/report/json_values.h"

#include <cmath>
#include <cstdlib>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMebibyte = 1024.0 * 1024.0;

}  // namespace

double Rounded(double value, int digits) {
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

double MebibytesOf(std::int64_t bytes) { return Rounded(static_cast<double>(bytes) / kMebibyte); }

std::int64_t Permille(double part, double whole) { return whole > 0 ? std::llround(1000 * part / whole) : 0; }

std::string LastPartOf(const std::string& name) { return name.substr(name.find_last_of('/') + 1); }

Json MemoryParts(const MemoryBytes& memory) {
  Json parts = Json::array();
  for (const MemoryRegion& region : kMemoryRegions) parts.push_back(MebibytesOf(memory.*region.bytes));
  return parts;
}

Json TimeParts(const Breakdown& breakdown) {
  Json parts = Json::array();
  for (const BreakdownPart& part : kBreakdownParts) parts.push_back(Rounded(breakdown.*part.seconds));
  return parts;
}

}  // namespace autocfg::server
