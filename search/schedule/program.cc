#include "search/schedule/program.h"

#include <algorithm>
#include <string_view>

#include "base/fnv1a.h"
#include "fmt/format.h"
#include "search/schedule/action_kinds.h"

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

std::int64_t ActivationSlots(const RankProgram& program, std::int64_t stage) {
  std::int64_t taken = 0, most = 0;
  for (const Action& action : program) {
    if (action.stage != stage) continue;
    if (TakesSlot(action.kind, action.stage)) most = std::max(most, ++taken);
    if (FreesSlot(action.kind)) --taken;
  }
  return most;
}

}  // namespace autocfg
