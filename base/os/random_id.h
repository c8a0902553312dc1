// Random unique IDs. Thread-safe.
#pragma once

#include <string>

namespace autocfg::base {

// Returns 128 bits of the system's randomness as 32 hexadecimal digits.
std::string RandomId();

}  // namespace autocfg::base
