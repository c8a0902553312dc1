// The activation functions of the feed-forward layer. Plain values, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace autocfg {

// gelu: the tanh form (Hendrycks & Gimpel 2016). gelu_erf: the exact form. swiglu and geglu: f(gate) * up
// with f = silu and gelu (tanh form) (Shazeer 2020); their input is twice as wide: all gates, then all ups.
// squared_relu: relu(x)^2 (So et al. 2021).
enum class Activation : std::uint8_t { kGelu, kGeluErf, kRelu, kSwiGlu, kGeGlu, kSquaredRelu };
inline constexpr int kActivationCount = static_cast<int>(Activation::kSquaredRelu) + 1;
inline constexpr std::array<std::string_view, kActivationCount> kActivationNames = {
    "gelu", "gelu_erf", "relu", "swiglu", "geglu", "squared_relu"};

constexpr bool IsGated(Activation activation) {
  return activation == Activation::kSwiGlu || activation == Activation::kGeGlu;
}

// Convert to and from kActivationNames. Parsing returns no value for an unknown name.
std::string_view Name(Activation activation);
std::optional<Activation> ParseActivation(std::string_view name);

}  // namespace autocfg
