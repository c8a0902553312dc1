#include "search/schedule/program.h"

#include <string_view>

#include "base/fnv1a.h"
#include "fmt/format.h"

namespace autocfg {

std::uint64_t Fingerprint(const Program& program) {
  std::uint64_t hash = base::kFnv1aOfNothing;
  const auto add = [&hash](std::string_view text) { hash = base::Fnv1a(text, hash); };
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
