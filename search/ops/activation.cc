#include "search/ops/activation.h"

#include <array>

namespace autocfg {
namespace {

constexpr std::array<std::string_view, kActivationCount> kNames = {"gelu", "gelu_erf", "relu", "swiglu",
                                                                   "geglu"};

}  // namespace

std::string_view Name(Activation activation) { return kNames[static_cast<std::size_t>(activation)]; }

std::optional<Activation> ParseActivation(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Activation>(i);
  }
  return std::nullopt;
}

}  // namespace autocfg
