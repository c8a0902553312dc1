// The formats narrower than two bytes in which the products of layers may be computed: predicted, not run.
// Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace autocfg {

// A run in one of them computes all else in bf16, the products of the output layer too.
//
//   kFp8       one scale for each tensor (Micikevicius et al. 2022)
//   kFp8Block  a scale for each 128 elements of activations and gradients and each 128 x 128 of weights
//              (DeepSeek-AI 2024, section 3.3)
//   kMxfp8     a scale of one byte for each 32 elements (Open Compute Project, Microscaling Formats 1.0)
//   kNvfp4     elements of half a byte, a scale of one byte for each 16, and one for each tensor (NVIDIA
//              2025, "Pretraining Large Language Models with NVFP4")
enum class ProductFormat : std::uint8_t { kCompute, kFp8, kFp8Block, kMxfp8, kNvfp4 };
inline constexpr std::size_t kProductFormatCount = static_cast<std::size_t>(ProductFormat::kNvfp4) + 1;

struct ProductFormatFigures {
  std::string_view name;  // of the precision; empty for kCompute
  double element_bytes = 0;
  double scale_bytes = 0;  // of each element: that of a scale over the elements that share it
  // A cast reads its operand once more, to find the scale of the whole tensor before it writes.
  bool finds_scale_first = false;

  double Bytes() const { return element_bytes + scale_bytes; }  // of an element
};

const ProductFormatFigures& FiguresOf(ProductFormat format);

}  // namespace autocfg
