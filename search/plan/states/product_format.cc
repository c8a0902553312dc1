#include "search/plan/states/product_format.h"

#include <array>

namespace autocfg {
namespace {

// Tensors are scaled by what earlier steps found (Transformer Engine's delayed scaling), or reduce their
// largest value where they are made; the scale of the whole tensor in NVFP4 follows from the tensor itself.
constexpr std::array<ProductFormatFigures, kProductFormatCount> kFigures = {{
    {.name = ""},
    {.name = "fp8", .element_bytes = 1},
    {.name = "fp8_block", .element_bytes = 1, .scale_bytes = 4.0 / 128},
    {.name = "mxfp8", .element_bytes = 1, .scale_bytes = 1.0 / 32},
    {.name = "nvfp4", .element_bytes = 0.5, .scale_bytes = 1.0 / 16, .finds_scale_first = true},
}};

}  // namespace

const ProductFormatFigures& FiguresOf(ProductFormat format) {
  return kFigures[static_cast<std::size_t>(format)];
}

}  // namespace autocfg
