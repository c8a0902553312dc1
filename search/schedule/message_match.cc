#include <cstddef>
#include <cstdint>
#include <vector>

#include "fmt/format.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/program_checks.h"

namespace autocfg {

absl::Status CheckMatches(const Program& program) {
  for (std::size_t sender = 0; sender < program.ranks.size(); ++sender) {
    for (const ActionKind send : {ActionKind::kSendActivation, ActionKind::kSendGradient}) {
      std::vector<const Action*> sends;
      for (const Action& action : program.ranks[sender]) {
        if (action.kind == send) sends.push_back(&action);
      }
      if (sends.empty()) continue;
      const std::int32_t receiver = sends.front()->peer;
      std::size_t i = 0;
      for (const Action& action : program.ranks[static_cast<std::size_t>(receiver)]) {
        if (action.kind != ReceiveOf(send)) continue;
        const std::int32_t next = send == ActionKind::kSendActivation ? 1 : -1;
        if (sends[i]->microbatch != action.microbatch || sends[i]->stage + next != action.stage) {
          return WrongProgram(receiver,
                              fmt::format("{} meets {} of rank {}: the two sides are not in the same order",
                                          ToString(action), ToString(*sends[i]), sender));
        }
        ++i;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace autocfg
