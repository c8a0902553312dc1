#include "search/plan/workload.h"

#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

// Bound on the activation elements of a global batch on one rank. Keeps all byte counts within 64 bits.
constexpr double kMaxElements = 5e16;

}  // namespace

absl::Status Validate(const Workload& workload, const ModelSpec& model) {
  if (workload.global_batch < 1 || workload.global_batch > kMaxGlobalBatch) {
    return base::InvalidArgument("workload", fmt::format("global_batch is {}; it must be from 1 to {}",
                                                         workload.global_batch, kMaxGlobalBatch));
  }
  if (workload.seq_len < 1 || workload.seq_len > kMaxSeqLen) {
    return base::InvalidArgument(
        "workload", fmt::format("seq_len is {}; it must be from 1 to {}", workload.seq_len, kMaxSeqLen));
  }
  if (model.position == Position::kLearned && workload.seq_len > model.max_seq_len) {
    return base::InvalidArgument("workload",
                                 fmt::format("seq_len is {}, but the model's learned positions reach only to "
                                             "{}; lower seq_len or raise the model's max_seq_len",
                                             workload.seq_len, model.max_seq_len));
  }
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double layer = 8 * d(model.hidden) + 4 * d(model.heads) * d(model.head_dim) + 3 * d(model.ffn_hidden);
  const double padded_vocab = d(model.vocab) + d(model.heads) * d(model.vocab_multiple);
  const double elements =
      d(workload.global_batch) * d(workload.seq_len) * (d(model.layers) * layer + padded_vocab);
  if (elements > kMaxElements) {
    return base::InvalidArgument(
        "workload", fmt::format("global_batch {} of seq_len {} makes {:.3g} activation elements of this "
                                "model, more than {:.0e}; reduce one of them",
                                workload.global_batch, workload.seq_len, elements, kMaxElements));
  }
  return absl::OkStatus();
}

}  // namespace autocfg
