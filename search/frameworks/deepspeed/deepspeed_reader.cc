// DeepSpeed's JSON. Defaults: deepspeed/runtime/config.py and zero/config.py of the release that the writer
// follows.
#include <algorithm>
#include <array>
#include <utility>

#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

const std::vector<std::string> kAuto = {std::string(deepspeed::kChosenLater)};

bool IsChosenLater(std::string_view name, SettingReader& read) {
  const Setting* setting = read.Find(name);
  return setting != nullptr && setting->values == kAuto;
}

// Refuses what the Trainer of Hugging Face fills in, where it matters, and says what it puts there.
void RefuseAuto(const ReadingOptions& options, SettingReader& read) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kFilledIn = {{
      {deepspeed::kGlobalBatch, "the sequences of a step over all ranks"},
      {deepspeed::kMicroBatch, "its per_device_train_batch_size"},
      {deepspeed::kMicrobatches, "its gradient_accumulation_steps"},
      {"bf16.enabled", "true or false, as its bf16"},
      {"bfloat16.enabled", "true or false, as its bf16"},
      {"fp16.enabled", "true or false, as its fp16"},
  }};
  for (const auto& [name, value] : kFilledIn) {
    if (!IsChosenLater(name, read)) continue;
    // The other two sizes give it.
    if (name == deepspeed::kGlobalBatch && read.Has(deepspeed::kMicroBatch) &&
        read.Has(deepspeed::kMicrobatches))
      continue;
    if (name == deepspeed::kMicroBatch && options.plan.contains("mbs")) continue;
    read.Fail(*read.Find(name),
              fmt::format("is auto: the Trainer of Hugging Face fills it in; write {}", value));
  }
}

// The options of Hugging Face's Trainer among words of a command, by their names without dashes: "bf16". It
// takes '-' for '_' in a name.
class TrainerOptions {
 public:
  explicit TrainerOptions(const std::vector<LaunchWord>& words) {
    AddFlags(words, options_);
    for (Setting& option : options_.settings) std::ranges::replace(option.name, '-', '_');
  }
  const Setting* Find(std::string_view name) const {
    const auto found = std::ranges::find(options_.settings, fmt::format("__{}", name), &Setting::name);
    return found == options_.settings.end() ? nullptr : &*found;
  }
  bool IsOn(std::string_view name) const {
    const Setting* option = Find(name);
    return option != nullptr && !IsOff(*option, /*one_is_off=*/false);
  }

 private:
  SettingsText options_;
};

std::int64_t ReadMicroBatch(const ReadingOptions& options, SettingReader& read) {
  if (!IsChosenLater(deepspeed::kMicroBatch, read)) return read.Whole(deepspeed::kMicroBatch, 0);
  return base::ParseNumber<std::int64_t>(options.plan.at("mbs"), 1, kMostSize).value_or(0);
}

// Two of the three batch sizes give the third; three must agree.
void ReadBatches(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const bool derived = IsChosenLater(deepspeed::kGlobalBatch, read);
  const std::int64_t global = derived ? 0 : read.Whole(deepspeed::kGlobalBatch, 0),
                     micro = ReadMicroBatch(options, read), steps = read.Whole(deepspeed::kMicrobatches, 0);
  if (!read.ok()) return;
  if (options.ranks > 0) {
    run.ranks = options.ranks;
    SetDataRanks(deepspeed::kAxisSettings, read, run);
  } else if (global > 0 && micro > 0 && steps > 0) {
    if (global % steps != 0 || global / steps % micro != 0) {
      read.Fail(*read.Find(deepspeed::kGlobalBatch),
                fmt::format("is {}, which does not divide by {} x {}; change one of them", global,
                            deepspeed::kMicroBatch, deepspeed::kMicrobatches));
      return;
    }
    plan.dp = global / steps / micro;
    run.ranks = Times(Times(plan.tp, plan.pp), plan.dp);
  } else {
    read.Fail("the file does not say how many ranks train; give --ranks or --cluster");
    return;
  }
  if (!read.ok()) return;
  if ((global > 0 ? 1 : 0) + (micro > 0 ? 1 : 0) == 0) {
    read.Fail(fmt::format("{} and {} are missing; add one of them", deepspeed::kGlobalBatch,
                          deepspeed::kMicroBatch));
    return;
  }
  const std::int64_t accumulated = steps > 0 ? steps : 1;
  plan.micro_batch = micro > 0 ? micro : global / plan.dp / accumulated;
  run.workload.global_batch = global > 0 ? global : Times(Times(micro, accumulated), plan.dp);
  if (plan.micro_batch < 1 ||
      (global > 0 && micro > 0 && steps > 0 && global != Times(Times(micro, steps), plan.dp))) {
    read.Fail(*read.Find(deepspeed::kGlobalBatch),
              fmt::format("is {}, and not {} x {} x {} data ranks; change one of them", global,
                          deepspeed::kMicroBatch, deepspeed::kMicrobatches, plan.dp));
    return;
  }
  CheckBatch(deepspeed::kGlobalBatch, read, run);
}

void NoteWhatIsTheScripts(const ReadingOptions& options, const RunDraft& run, SettingReader& read) {
  const bool recompute = run.plan.recompute == Recompute::kFull || options.plan.contains("recompute"),
             attention = options.plan.contains("attention");
  if (recompute && attention) return;
  const std::string_view what = recompute   ? "attention is"
                                : attention ? "recomputation is"
                                            : "recomputation and attention are";
  const std::string_view as = recompute   ? "fused attention"
                              : attention ? "recompute=none"
                                          : "recompute=none and fused attention";
  read.Note(fmt::format("{} your script's: read as {}; autocfg import --plan {} says otherwise", what, as,
                        recompute ? "attention=unfused" : "recompute=full"));
}

}  // namespace

void FillInAutos(const std::vector<LaunchWord>& words, SettingsText& settings) {
  const TrainerOptions trainer(words);
  constexpr std::string_view kBatch = "per_device_train_batch_size";
  const auto fill_in = [&](std::string_view name, std::vector<std::string> values, std::string unknown) {
    const auto setting = std::ranges::find(settings.settings, name, &Setting::name);
    if (setting == settings.settings.end() || setting->values != kAuto) return;
    settings.settings.push_back({.name = std::string(name),
                                 .values = std::move(values),
                                 .unknown = std::move(unknown),
                                 .at = kNowhere});
  };
  const auto option = [&](std::string_view name, std::string_view option, std::string_view otherwise) {
    const Setting* said = trainer.Find(option);
    if (said != nullptr) fill_in(name, said->values, said->unknown);
    if (said == nullptr) fill_in(name, {std::string(otherwise)}, "");
  };
  // A command without its batch may not be the Trainer's.
  if (trainer.Find(kBatch) == nullptr) return;
  option(deepspeed::kMicroBatch, kBatch, "");
  option(deepspeed::kMicrobatches, "gradient_accumulation_steps", "1");
  for (const std::string_view type : {"bf16", "fp16"})
    fill_in(fmt::format("{}.enabled", type), {trainer.IsOn(type) ? "true" : "false"}, "");
}

void ReadDeepSpeedBuckets(SettingReader& read, RunDraft& run) {
  constexpr std::int64_t kDefaultBucket = 500'000'000, kDefaultGroup = 1'000'000'000, kBytes = 2,
                         kMostElements = std::int64_t{1} << 38;
  const auto bucket = [&](std::string_view name) {
    return IsChosenLater(name, read) ? Times(run.model.hidden, run.model.hidden)
                                     : read.Whole(name, kDefaultBucket, 0, kMostElements);
  };
  const std::int64_t elements = bucket(deepspeed::kReduceBucket) + bucket(deepspeed::kGatherBucket);
  if (run.plan.zero_stage > 0)
    run.engine_settings.push_back(fmt::format("overhead_bytes={}", Times(kBytes, elements)));
  const std::int64_t group = read.Whole(deepspeed::kUpdatedAtOnce, kDefaultGroup, 1, std::int64_t{1} << 49);
  if (run.plan.zero_stage == 3) run.engine_settings.push_back(fmt::format("updated_at_once={}", group));
}

void ReadDeepSpeedSums(bool bf16, bool fp16, SettingReader& read, RunDraft& run) {
  const bool zero = run.plan.zero_stage > 0;
  const std::string type = read.Text(deepspeed::kSums, bf16 && zero ? "bf16" : "fp32");
  if (type != "fp32" && !(bf16 && type == "bf16") && !(fp16 && type == "fp16")) {
    read.Fail(*read.Find(deepspeed::kSums),
              fmt::format("is '{}'; fp32 and the type of the run can be read", base::Printable(type)));
  } else if (type == "bf16" && !zero && run.plan.pp == 1) {
    read.Fail(*read.Find(deepspeed::kSums),
              "is bf16, for which DeepSpeed needs ZeRO; write fp32, or zero_optimization.stage 1");
  }
  if (type == "bf16") run.workload.precision.gradients = DType::kBF16;
}

void ReadDeepSpeedPrecision(SettingReader& read, RunDraft& run) {
  for (const std::string_view section : {"bf16", "bfloat16", "fp16"}) {
    if (const Setting* whole = read.Find(section))
      read.Fail(*whole, "is no object; write {\"enabled\": true} or {\"enabled\": false}");
  }
  if (read.Has("zero_optimization") && !read.Has("zero_optimization.stage"))
    read.RefuseIfOn("zero_optimization", "a stage is not named; write {\"stage\": 1}");
  const bool bf16 = read.Flag("bf16.enabled") || read.Flag("bfloat16.enabled"),
             fp16 = read.Flag("fp16.enabled");
  if (bf16 && fp16)
    read.FailAgainst(*read.Find("fp16.enabled"),
                     *read.Find(read.Has("bf16.enabled") ? "bf16.enabled" : "bfloat16.enabled"),
                     "; leave one of them");
  run.workload.precision = *ParsePrecision(bf16 ? "bf16" : fp16 ? "fp16" : "fp32");
  for (const std::string_view narrow :
       {"bf16.bf16_master_weights_and_grads", "bf16.bf16_optimizer_states",
        "fp16.fp16_master_weights_and_grads", "bfloat16.bf16_master_weights_and_grads",
        "bfloat16.bf16_optimizer_states"})
    read.RefuseIfOn(narrow, "states without a copy in fp32 are not modelled");
  ReadDeepSpeedSums(bf16, fp16, read, run);
}

void ReadDeepSpeedZero(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  plan.zero_stage = read.Whole(deepspeed::kStage, 0, 0, 3);
  const bool overlaps = read.Flag(deepspeed::kGradOverlap, plan.zero_stage == 3);
  plan.grad_overlap = overlaps && plan.zero_stage >= 2 && plan.pp == 1;
  constexpr std::int64_t kDefaultPrefetch = 50'000'000;
  const std::int64_t prefetched = IsChosenLater(deepspeed::kPrefetch, read)
                                      ? kDefaultPrefetch
                                      : read.Whole(deepspeed::kPrefetch, kDefaultPrefetch, 0);
  plan.param_overlap = plan.zero_stage == 3 && prefetched > 0;
  const std::int64_t shards = read.Whole(deepspeed::kShards, -1, -1);
  if (plan.zero_stage == 3 && shards > 0) plan.dp_shard = shards;
  if (shards > 0 && plan.dp % shards != 0) {
    read.Fail(
        *read.Find(deepspeed::kShards),
        fmt::format("is {}, which does not divide the {} data ranks; change one of them", shards, plan.dp));
  }
  read.RefuseAboveOne("zero_optimization.zero_hpz_partition_size",
                      "a second copy of the parameters is not modelled");
}

void ReadDeepSpeed(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  if (!options.model) {
    read.Fail("the format says nothing of the model; give --model");
    return;
  }
  RefuseAuto(options, read);
  if (!read.ok()) return;
  run.model = *options.model;
  run.workload.seq_len = options.seq_len > 0 ? options.seq_len : run.model.max_seq_len;
  ParallelPlan& plan = run.plan;
  plan.tp = read.Whole(deepspeed::kTp, 1, 0);
  if (plan.tp == 0) plan.tp = 1;
  if (IsChosenLater(deepspeed::kPp, read)) {
    read.NoteOf(*read.Find(deepspeed::kPp), "is auto: your script says the stages; read as 1");
  } else {
    plan.pp = read.Whole(deepspeed::kPp, 1);
  }
  ReadBatches(options, read, run);
  if (!read.ok()) return;
  ReadDeepSpeedZero(read, run);
  ReadDeepSpeedBuckets(read, run);
  ReadTensorOverlap(deepspeed::kTpOverlap, read, run);
  run.unsaid.emplace_back("attention");
  const std::int64_t interval = read.Whole(deepspeed::kRecompute, 0, 0);
  if ((plan.pp > 1 && interval > 0) ||
      TrainerOptions(options.launch.arguments).IsOn("gradient_checkpointing")) {
    plan.recompute = Recompute::kFull;
  } else {
    run.unsaid.emplace_back("recompute");
  }
  if (plan.pp == 1) NoteWhatIsTheScripts(options, run, read);
  read.RefuseAboveOne("sequence_parallel_size", "sequence parallelism of its own kind is not modelled");
  constexpr std::string_view kDistributed = "activation_checkpointing.partition_activations";
  if (plan.tp > 1) {
    read.RefuseIfOn(kDistributed, "inputs that are split over tensor ranks are not modelled");
  } else {
    (void)read.Find(kDistributed);  // there is nobody to split them over
  }
  ReadDeepSpeedPrecision(read, run);
  ReadOptimizer({.name = "optimizer.type", .momentum = "optimizer.params.momentum"}, read, run);
}

}  // namespace autocfg
