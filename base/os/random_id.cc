#include "base/os/random_id.h"

#include <random>

#include "fmt/format.h"

namespace autocfg::base {

std::string RandomId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace autocfg::base
