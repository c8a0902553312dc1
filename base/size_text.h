// Formats sizes, times and counts for people. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace autocfg::base {

std::string BytesText(std::int64_t bytes);  // "512 B", "1.5 KiB", "23.0 GiB"
std::string SecondsText(double seconds);    // "850 us", "12.3 ms", "1.25 s", "2 min 05 s"
std::string CountText(std::int64_t count);  // "1,234,567"

}  // namespace autocfg::base
