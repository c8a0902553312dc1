#include "search/ops/activation.h"

namespace autocfg {

std::string_view Name(Activation activation) {
  return kActivationNames[static_cast<std::size_t>(activation)];
}

std::optional<Activation> ParseActivation(std::string_view name) {
  for (std::size_t i = 0; i < kActivationNames.size(); ++i) {
    if (kActivationNames[i] == name) return static_cast<Activation>(i);
  }
  return std::nullopt;
}

}  // namespace autocfg
