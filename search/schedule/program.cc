#include "search/schedule/program.h"

#include <string_view>

#include "fmt/format.h"

namespace autocfg {

std::uint64_t Fingerprint(const Program& program) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) {
      hash ^= static_cast<unsigned char>(c);
      hash *= 0x100000001b3u;
    }
  };
  for (const RankProgram& rank : program.ranks) {
    for (const Action& action : rank) {
      add(ToString(action));
      for (const std::int32_t after : action.after) add(fmt::format(" {}", after));
      add("\n");
    }
    add("\n");
  }
  return hash;
}

}  // namespace autocfg
