#include "search/frameworks/run_draft.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/framework_rules.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_options.h"

namespace autocfg {

void ReadRanks(std::string_view nodes, std::string_view ranks_of_node, const ReadingOptions& options,
               SettingReader& read, RunDraft& run) {
  std::string why = "the file does not say how many ranks train";
  const auto whole = [&](std::string_view name, std::int64_t otherwise) {
    const Setting* setting = read.Find(name);
    if (setting == nullptr) return otherwise;
    std::int64_t value = 0;
    if (setting->unknown.empty() && setting->values.size() == 1 &&
        absl::SimpleAtoi(setting->values.front(), &value) && value > 0)
      return value;
    why = fmt::format("line {}: the number of ranks cannot be known: {}", read.text().Line(setting->at),
                      setting->unknown.empty() ? base::Printable(setting->values.front()) : setting->unknown);
    return std::int64_t{0};
  };
  const std::int64_t of_node = whole(ranks_of_node, 0), count = whole(nodes, 1);
  constexpr std::int64_t kMostRanks = std::int64_t{1} << 31;
  if (of_node > 0 && count > 0 && of_node < kMostRanks / count) {
    run.ranks = of_node * count;
    run.ranks_per_node = of_node;
  } else if (options.ranks > 0) {
    run.ranks = options.ranks;
  } else {
    read.Fail(why + "; give --ranks or --cluster");
    run.ranks = 1;
  }
}

void SetDataRanks(std::string_view tp_name, SettingReader& read, RunDraft& run) {
  const std::int64_t tp = run.plan.tp, pp = run.plan.pp;
  const bool fits = tp <= run.ranks && pp <= run.ranks / tp;
  if (!fits || run.ranks % (tp * pp) != 0) {
    const std::string problem =
        fmt::format("{} ranks do not divide by tp={} x pp={}; change one of them", run.ranks, tp, pp);
    if (const Setting* setting = read.Find(tp_name)) {
      read.Fail(*setting, fmt::format("does not fit: {}", problem));
    } else {
      read.Fail(problem);
    }
    run.plan.dp = 1;
    return;
  }
  run.plan.dp = run.ranks / (tp * pp);
}

void CheckBatch(std::string_view name, SettingReader& read, const RunDraft& run) {
  const std::int64_t batch = run.workload.global_batch, dp = run.plan.dp, mbs = run.plan.micro_batch;
  if (batch % dp == 0 && batch / dp % mbs == 0) return;
  const std::string problem = fmt::format(
      "{} sequences do not divide by {} data ranks x micro batch {}; change one of them", batch, dp, mbs);
  if (const Setting* setting = read.Find(name)) {
    read.Fail(*setting, fmt::format("does not fit: {}", problem));
  } else {
    read.Fail(problem);
  }
}

void NoteDefaultBatch(std::string_view name, SettingReader& read, const RunDraft& run) {
  read.Note(
      fmt::format("{} is missing: the framework then takes {} sequences a step, {} on each of {} data "
                  "rank{}",
                  name, run.workload.global_batch, run.workload.global_batch / run.plan.dp, run.plan.dp,
                  run.plan.dp == 1 ? "" : "s"));
}

void SetStages(std::vector<std::int64_t> layers, RunDraft& run) {
  const bool even =
      std::all_of(layers.begin(), layers.end(), [&](std::int64_t count) { return count == layers.front(); });
  run.plan.split = even ? SplitMode::kEven : SplitMode::kExplicit;
  run.plan.split_layers.clear();
  if (!even) run.plan.split_layers = std::move(layers);
}

void ReadCoreModel(const CoreNames& names, SettingReader& read, RunDraft& run) {
  ModelSpec& model = run.model;
  model.layers = read.Required(names.layers);
  model.hidden = read.Required(names.hidden);
  model.heads = read.Required(names.heads);
  model.head_dim = read.Whole(names.head_dim, 0);
  model.max_seq_len = read.Whole(names.max_seq_len, run.workload.seq_len);
  if (const std::int64_t tokens = read.Whole(names.seq_len, 0);
      tokens == run.workload.seq_len && model.max_seq_len < tokens) {
    read.Fail(*read.Find(names.max_seq_len), fmt::format("is {}, below {} {}; change one of them",
                                                         model.max_seq_len, names.seq_len, tokens));
  }
  const std::string norm = read.Text(names.norm, names.layer_norm);
  if (norm != names.layer_norm && norm != names.rms_norm && norm != "layernorm1p") {
    read.Fail(*read.Find(names.norm), fmt::format("is '{}'; only {} and {} can be read",
                                                  base::Printable(norm), names.layer_norm, names.rms_norm));
  }
  model.norm = norm == names.rms_norm ? Norm::kRmsNorm : Norm::kLayerNorm;
  model.norm_eps = read.Real(names.norm_eps, 1e-5);
  model.qk_norm = read.Flag(names.qk_norm) ? QkNorm::kHead : QkNorm::kNone;
  model.vocab_multiple = read.Whole(names.vocab_multiple, 128);
  model.init_std = read.Real(names.init_std, 0.02);
  const std::string position = read.Text(names.position, kLearnedPositions);
  if (position == kRotaryPositions) {
    model.position = Position::kRope;
    model.rope_theta = read.Real(names.rotary_base, 10000);
    model.partial_rotary_factor = read.Real(names.rotary_share, 1);
  } else if (position == kLearnedPositions || position == megatron::kNoPositions) {
    model.position = position == kLearnedPositions ? Position::kLearned : Position::kNone;
    (void)read.Find(names.rotary_base);
    (void)read.Find(names.rotary_share);
  } else {
    read.Fail(
        *read.Find(names.position),
        fmt::format("is '{}', which is not modelled; only {}, {} and {} can be read",
                    base::Printable(position), kLearnedPositions, kRotaryPositions, megatron::kNoPositions));
  }
  // A mixture's other settings say nothing without its size.
  read.RefuseIfOn(names.experts, "mixtures of experts are not modelled");
}

void ReadCorePlan(const CoreNames& names, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  read.RefuseAboveOne(names.expert_parallel, "expert parallelism is not modelled");
  read.RefuseAboveOne(names.context_parallel, "context parallelism is not modelled");
  plan.tp = read.Whole(names.tp, 1);
  plan.pp = read.Whole(names.pp, 1);
  SetDataRanks(names.tp, read, run);
  plan.micro_batch = read.Required(names.micro_batch);
  run.workload.global_batch = read.Whole(names.global_batch, Times(plan.micro_batch, plan.dp));
  if (!read.Has(names.global_batch)) NoteDefaultBatch(names.global_batch, read, run);
  CheckBatch(names.global_batch, read, run);
  plan.sequence_parallel = read.Flag(names.sp) && plan.tp > 1;
  if (read.Flag(names.tp_overlap) && plan.tp > 1) {
    if (!plan.sequence_parallel)
      read.Fail(*read.Find(names.tp_overlap), fmt::format("needs {}; add it", names.sp));
    plan.tp_overlap = kChunksOfSwitch;
    read.NoteOf(*read.Find(names.tp_overlap),
                fmt::format("is read as tp_overlap={}: the framework chooses the chunks", kChunksOfSwitch));
  }
  const std::string attention = read.Text(names.attention, kChosenLater);
  const bool chosen_later = attention == kChosenLater,
             unfused = attention == kUnfusedAttention || attention == "local",
             fp32 = Name(run.workload.precision) == "fp32";
  if (fp32 && !chosen_later && !unfused) {
    read.Fail(*read.Find(names.attention),
              fmt::format("is {}, which takes 16 bits, and the run is in fp32; give {}",
                          base::Printable(attention), kUnfusedAttention));
  }
  // The framework has one kind for fp32.
  if (chosen_later && !fp32) run.unsaid.emplace_back("attention");
  plan.attention = unfused || (chosen_later && fp32) ? Attention::kUnfused : Attention::kFused;
}

void SetSelective(const Setting& setting, SettingReader& read, RunDraft& run) {
  run.plan.recompute = run.plan.attention == Attention::kFused ? Recompute::kNone : Recompute::kSelective;
  if (run.plan.attention == Attention::kFused) {
    read.NoteOf(setting,
                "is selective, and fused attention keeps no scores to recompute: read as recompute=none");
  }
}

void ReadCoreRecompute(const CoreNames& names, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const std::string granularity = read.Text(names.recompute, "none");
  const Setting* method = read.Known(names.recompute_method);
  const std::int64_t layers = read.Whole(names.recompute_layers, 0, 0);
  if (granularity == "none") return;
  if (granularity == kSelectiveRecompute) {
    if (method != nullptr) {
      read.Fail(*method, fmt::format("contradicts {} {} of line {}; leave it out", names.recompute,
                                     granularity, read.text().Line(read.Find(names.recompute)->at)));
    }
    SetSelective(*read.Find(names.recompute), read, run);
    return;
  }
  if (granularity != kFullRecompute) {
    read.Fail(*read.Find(names.recompute),
              fmt::format("is '{}'; give full or selective", base::Printable(granularity)));
    return;
  }
  plan.recompute = Recompute::kFull;
  if (method == nullptr) {
    read.Fail(*read.Find(names.recompute),
              fmt::format("is full, and {} is missing; add uniform or block", names.recompute_method));
    return;
  }
  const std::string how = method->values.empty() ? "" : method->values.front();
  if (how == kUniformRecompute) {
    if (layers > 1) {
      read.NoteOf(
          *method,
          fmt::format("keeps an input for every {} layers; autocfg counts one for each layer", layers));
    }
  } else if (how == kBlockRecompute) {
    const std::int64_t stages = std::max<std::int64_t>(1, StageCount(plan));
    const std::int64_t most = plan.split == SplitMode::kExplicit && !plan.split_layers.empty()
                                  ? *std::max_element(plan.split_layers.begin(), plan.split_layers.end())
                                  : run.model.layers / stages;
    if (layers == 0) {
      plan.recompute = Recompute::kNone;
    } else {
      plan.recompute_layers = layers < most ? layers : 0;
    }
  } else {
    read.Fail(*method, fmt::format("is '{}'; give uniform or block", base::Printable(how)));
  }
}

}  // namespace autocfg
