// The parts of a layer that recompute=selective can compute again in the backward. Plain values, thread-safe.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace autocfg {

// A rank that computes a part again does not store what the part produced:
//
// - kCoreAttention: the scores of unfused attention;
// - kMlp: the projection into the feed-forward block, and its activation;
// - kActivation: the result of that activation alone, from the stored projection;
// - kNorm: the results and the statistics of the norms on the inputs of attention and feed-forward.
enum class LayerPart : std::uint8_t { kCoreAttention, kMlp, kActivation, kNorm };
inline constexpr std::array<std::string_view, 4> kLayerPartNames = {"core_attn", "mlp", "act", "norm"};

class LayerParts {
 public:
  constexpr LayerParts() = default;
  constexpr LayerParts(std::initializer_list<LayerPart> parts) {
    for (const LayerPart part : parts) Add(part);
  }

  constexpr bool Has(LayerPart part) const { return (bits_ & Bit(part)) != 0; }
  constexpr bool IsEmpty() const { return bits_ == 0; }
  constexpr void Add(LayerPart part) { bits_ |= Bit(part); }
  constexpr LayerParts Without(LayerPart part) const {
    LayerParts parts = *this;
    parts.bits_ &= static_cast<std::uint8_t>(~Bit(part));
    return parts;
  }
  // Whether this set names every part of the other one.
  constexpr bool Names(LayerParts other) const { return (other.bits_ & ~bits_) == 0; }
  // Whether this set computes again all that the other one does: the part mlp includes act.
  constexpr bool Covers(LayerParts other) const {
    return Names(Has(LayerPart::kMlp) ? other.Without(LayerPart::kActivation) : other);
  }
  // A number below kSets, different for each set.
  constexpr std::size_t Index() const { return bits_; }
  static constexpr std::size_t kSets = std::size_t{1} << kLayerPartNames.size();

  auto operator<=>(const LayerParts&) const = default;  // NOLINT(modernize-use-nullptr): false positive
  template <typename H>
  friend H AbslHashValue(H h, const LayerParts& parts) {
    return H::combine(std::move(h), parts.bits_);
  }

 private:
  static constexpr std::uint8_t Bit(LayerPart part) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(part));
  }

  std::uint8_t bits_ = 0;
};

// Returns all sets of parts but the empty one.
constexpr std::array<LayerParts, LayerParts::kSets - 1> AllLayerParts() {
  std::array<LayerParts, LayerParts::kSets - 1> all;
  for (std::size_t set = 1; set < LayerParts::kSets; ++set) {
    for (std::size_t part = 0; part < kLayerPartNames.size(); ++part) {
      if ((set >> part) % 2 != 0) all[set - 1].Add(static_cast<LayerPart>(part));
    }
  }
  return all;
}

}  // namespace autocfg
