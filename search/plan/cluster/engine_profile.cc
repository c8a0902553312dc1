#include "search/plan/cluster/engine_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {

absl::Status CheckEngineName(std::string_view name) {
  constexpr std::size_t kMostBytes = 40;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_plain = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMostBytes && is_letter(name.front()) &&
      std::all_of(name.begin(), name.end(), is_plain))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("'{}' is no engine's name; it has 1 to {} letters, digits, '-', '_' and '.', the first a "
                  "letter",
                  base::Printable(name), kMostBytes));
}

absl::Status Validate(const EngineProfile& engine) {
  struct Bound {
    std::string_view name;
    double value, least, most;
  };
  for (const Bound& figure :
       {Bound{"host_op_s", engine.host_op_s.value_or(0), 0, 1}, Bound{"matmul", engine.matmul, 0.05, 1.5},
        Bound{"matmul_k_half", engine.matmul_k_half, 0, 100}, Bound{"memory", engine.memory, 0.05, 1.5},
        Bound{"intra_node", engine.intra_node, 0.05, 1.5}, Bound{"inter_node", engine.inter_node, 0.05, 1.5},
        Bound{"forward_passes", engine.forward_passes, 0, 1000},
        Bound{"backward_passes", engine.backward_passes, 0, 1000}, Bound{"step_s", engine.step_s, 0, 1},
        Bound{"bf16_gradient_bytes", engine.bf16_gradient_bytes, 0, 64},
        Bound{"fp16_gradient_bytes", engine.fp16_gradient_bytes, 0, 64},
        Bound{"fp16_update_bytes", engine.fp16_update_bytes, 0, 64},
        Bound{"logit_bytes", engine.logit_bytes, 0, 64},
        Bound{"activation_share", engine.activation_share, 0, 10},
        Bound{"overhead_bytes", static_cast<double>(engine.overhead_bytes), 0, 1e12}}) {
    if (!std::isfinite(figure.value) || figure.value < figure.least || figure.value > figure.most) {
      return base::InvalidArgument(
          "engine", fmt::format("{} is {:g}; it must be from {:g} to {:g}", figure.name, figure.value,
                                figure.least, figure.most));
    }
  }
  return absl::OkStatus();
}

}  // namespace autocfg
