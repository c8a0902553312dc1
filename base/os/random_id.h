// Names that nobody else gives. Thread-safe.
#pragma once

#include <string>

namespace autocfg {

// 128 bits of the system's randomness, as 32 hexadecimal digits.
std::string RandomId();

}  // namespace autocfg
