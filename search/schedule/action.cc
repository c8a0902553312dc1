#include "search/schedule/action.h"

#include <array>

#include "fmt/format.h"
#include "search/schedule/action_kinds.h"

namespace autocfg {
namespace {

struct KindNames {
  std::string_view name;
  std::string_view letters;  // in the text of an action
};

constexpr std::array<KindNames, kActionKinds> kKinds = {{
    {"zero_scalars", "ZERO"},
    {"forward", "F"},
    {"backward", "B"},
    {"input_gradient", "I"},
    {"weight_gradient", "W"},
    {"send_activation", "SA"},
    {"recv_activation", "RA"},
    {"send_gradient", "SG"},
    {"recv_gradient", "RG"},
    {"sum_norm_gradients", "NORMS"},
    {"reduce_gradients", "REDUCE"},
    {"sum_tied_embedding", "TIED"},
    {"reduce_scalars", "SCALARS"},
    {"optimizer", "OPT"},
    {"gather_parameters", "GATHER"},
}};

constexpr std::array<std::string_view, kLanes> kLaneNames = {"compute", "pp_send", "pp_recv", "reduce"};

}  // namespace

std::string_view Name(ActionKind kind) { return kKinds[static_cast<std::size_t>(kind)].name; }

std::string_view Name(Lane lane) { return kLaneNames[static_cast<std::size_t>(lane)]; }

std::string ToString(const Action& action) {
  std::string text;
  if (action.stage >= 0) text += fmt::format("{}", action.stage);
  text += kKinds[static_cast<std::size_t>(action.kind)].letters;
  if (action.microbatch >= 0) text += fmt::format("{}", action.microbatch);
  if (action.peer >= 0) {
    const bool sends = action.kind == ActionKind::kSendActivation || action.kind == ActionKind::kSendGradient;
    text += fmt::format("{}{}", sends ? '>' : '<', action.peer);
  }
  return text;
}

}  // namespace autocfg
