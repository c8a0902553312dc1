// Every rule of legality by name, notes and canonical forms, and what the engine refuses.
#include "search/plan/legality.h"

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelSpec Model() {
  ModelSpec model;
  model.layers = 12;
  model.hidden = 96;
  model.heads = 12;
  model.kv_heads = 4;
  model.vocab = 1001;  // prime to every tp: the vocabulary never makes a plan illegal
  FillDefaults(model);
  return model;
}

ParallelPlan Plan(std::string_view text) {
  auto plan = ParsePlanText(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

constexpr Workload kWorkload{.global_batch = 24, .seq_len = 64};

// "" for a legal plan, else "NAME: DETAIL".
std::string Why(std::string_view text, std::int64_t ranks = 64, const ModelSpec& model = Model()) {
  const ParallelPlan plan = Plan(text);
  const auto found = FindIllegality({model, kWorkload, plan}, ranks);
  const auto explained = ExplainIllegality({model, kWorkload, plan}, ranks);
  EXPECT_EQ(found.has_value(), explained.has_value());
  if (!found) return "";
  EXPECT_EQ(*found, explained->reason);
  EXPECT_THAT(explained->detail, HasSubstr("; ")) << "what is wrong; what to do";
  return std::string(Name(*found)) + ": " + explained->detail;
}

TEST(Legality, Legal) {
  for (const char* text : {"tp=1",
                           "tp=4",
                           "tp=2,pp=3,dp=4,mbs=3",
                           "pp=12",
                           "dp=24",
                           "mbs=24",
                           "tp=4,pp=4,dp=4",
                           "pp=2,vpp=3",
                           "pp=2,schedule=zb-h1,recompute=full",
                           "tp=2,tp_overlap=4",
                           "zero=2,dp=4",
                           "pp=4,split=4+4+3+1",
                           "pp=2,split=auto",
                           "pp=3,recompute=full:4",
                           "sp=1",
                           "zero=1",
                           "dp=4,zero=1,dp_shard=2",
                           "dp=4,zero=3,dp_shard=1",
                           "param_overlap=1,zero=1,dp=2",
                           "pp=2,vpp=2,split=1+2+3+6,recompute=full:6",
                           "pp=12,split=auto",
                           "pp=2,vpp=6,split=auto",
                           "pp=3,vpp=4,dp=2",
                           "pp=4,split=auto,recompute=full:3",
                           "pp=2,vpp=3,recompute=full:2",
                           "pp=4,vpp=2,split=1+1+1+1+2+2+2+2,dp=2,mbs=3"}) {
    EXPECT_EQ(Why(text), "") << text;
  }
  EXPECT_EQ(Why("tp=4", 4), "");
  EXPECT_EQ(Why("tp=2", 64), "") << "a plan may use fewer ranks";
}

TEST(Legality, EachReason) {
  EXPECT_THAT(Why("tp=0"), HasSubstr("size_not_positive"));
  EXPECT_THAT(Why("mbs=0"), HasSubstr("size_not_positive"));
  EXPECT_EQ(Why("tp=4,pp=4,dp=4", 63),
            "too_many_ranks: tp=4 x pp=4 x dp=4 is more than the 63 ranks there are; use at most 63");
  EXPECT_EQ(
      Why("pp=5"),
      "layers_not_divisible: 12 layers are not divisible by pp=5; give a pp that divides 12, or split=auto");
  EXPECT_EQ(Why("pp=24"),
            "layers_not_divisible: 12 layers are not divisible by pp=24; give a pp that divides 12");
  EXPECT_EQ(Why("pp=3,vpp=3"),
            "layers_not_divisible: 12 layers are not divisible by pp=3 x vpp=3; give a pp x vpp that divides "
            "12, or split=auto");
  EXPECT_EQ(Why("tp=8"),
            "heads_not_divisible: 12 heads are not divisible by tp=8; give a tp that divides 12");
  EXPECT_EQ(Why("tp=3"),
            "kv_heads_not_divisible: 4 kv heads are not divisible by tp=3; give a tp that divides 4 or is a "
            "multiple of it");
  EXPECT_EQ(Why("tp=12"), "") << "3 ranks share a kv head";
  ModelSpec norms_over_heads = Model();
  norms_over_heads.qk_norm = QkNorm::kFull;
  EXPECT_EQ(Why("tp=12", 64, norms_over_heads),
            "kv_heads_not_divisible: 4 kv heads are not divisible by tp=12; give a tp that divides 4");
  ModelSpec odd = Model();
  odd.ffn_hidden = 30;
  EXPECT_EQ(Why("tp=4", 64, odd),
            "ffn_not_divisible: ffn_hidden 30 is not divisible by tp=4; give a tp that divides 30");
  EXPECT_EQ(Why("dp=5"),
            "batch_not_divisible: global batch 24 is not divisible by dp=5 x mbs=1; choose dp and mbs so "
            "that dp x mbs divides 24");
  EXPECT_EQ(Why("dp=4,mbs=4"),
            "batch_not_divisible: global batch 24 is not divisible by dp=4 x mbs=4; choose dp and mbs so "
            "that dp x mbs divides 24");
  EXPECT_THAT(Why("pp=2,schedule=interleaved"), HasSubstr("interleaved_needs_stages"));
  EXPECT_THAT(Why("vpp=2"), HasSubstr("interleaved_needs_stages"));
  EXPECT_THAT(Why("pp=2,vpp=2,schedule=1f1b"), HasSubstr("virtual_stages_need_interleaved"));
  EXPECT_EQ(Why("pp=2,vpp=2,dp=8"),
            "microbatches_not_multiple_of_stages: schedule=interleaved needs a multiple of pp=2 "
            "microbatches, not 3; choose pp, dp and mbs so that pp x dp x mbs divides 24");
  EXPECT_THAT(Why("dp=2,param_overlap=1"), HasSubstr("param_overlap_needs_zero"));
  EXPECT_EQ(Why("dp=4,dp_shard=2"),
            "dp_shard_needs_zero: dp_shard=2 shards nothing at zero=0; use zero=1, 2 or 3, or leave out "
            "dp_shard");
  EXPECT_THAT(Why("dp=2,dp_shard=2"), HasSubstr("dp_shard_needs_zero"));
  EXPECT_EQ(Why("dp=4,zero=1,dp_shard=3"),
            "dp_not_divisible: dp=4 is not divisible by dp_shard=3; give a dp_shard that divides 4");
  EXPECT_EQ(Why("pp=2,split=6+5"),
            "split_does_not_add_up: split has 2 entries with 11 layers in all; give pp=2 x vpp=1 entries of "
            "at least 1 that add up to 12");
  EXPECT_THAT(Why("pp=2,split=4+4+4"), HasSubstr("split_does_not_add_up"));
  EXPECT_THAT(Why("pp=2,vpp=2,split=6+6"), HasSubstr("split_does_not_add_up"));
  EXPECT_THAT(Why("pp=2,vpp=2,split=6+3+2+2"), HasSubstr("split_does_not_add_up"));
  EXPECT_EQ(Why("pp=7,vpp=2,mbs=3,dp=1,split=auto"),
            "microbatches_not_multiple_of_stages: schedule=interleaved needs a multiple of pp=7 "
            "microbatches, not 8; choose pp, dp and mbs so that pp x dp x mbs divides 24");
  EXPECT_EQ(Why("pp=4,vpp=4,split=auto"),
            "split_does_not_add_up: split=auto cannot give each of pp=4 x vpp=4 stages one of 12 layers; use "
            "at most 12 stages");
  EXPECT_EQ(Why("pp=13,split=auto"),
            "split_does_not_add_up: split=auto cannot give each of pp=13 x vpp=1 stages one of 12 layers; "
            "use at most 12 stages");
  EXPECT_EQ(
      Why("pp=3,recompute=full:5"),
      "recompute_layers_too_many: recompute=full:5 is more than the 4 layers of a stage; use at most full:4");
  EXPECT_EQ(
      Why("pp=2,vpp=3,recompute=full:3"),
      "recompute_layers_too_many: recompute=full:3 is more than the 2 layers of a stage; use at most full:2");
  EXPECT_EQ(
      Why("pp=2,vpp=2,split=1+2+3+6,recompute=full:7"),
      "recompute_layers_too_many: recompute=full:7 is more than the 6 layers of a stage; use at most full:6");
  EXPECT_EQ(
      Why("pp=4,split=auto,recompute=full:4"),
      "recompute_layers_too_many: recompute=full:4 is more than the 3 layers of a stage; use at most full:3");
}

TEST(Legality, HugeSizesDoNotOverflow) {
  const std::string most = "2147483647";
  EXPECT_THAT(Why("tp=" + most + ",pp=" + most + ",dp=" + most), HasSubstr("too_many_ranks"));
  EXPECT_THAT(Why("vpp=" + most + ",schedule=1f1b"), HasSubstr("layers_not_divisible"));
  EXPECT_THAT(Why("mbs=" + most), HasSubstr("batch_not_divisible"));
  EXPECT_THAT(Why("pp=2,split=" + most + "+" + most), HasSubstr("split_does_not_add_up"));
  EXPECT_THAT(Why("pp=" + most + ",split=auto", INT64_MAX), HasSubstr("split_does_not_add_up"));
  EXPECT_THAT(Why("pp=2,vpp=" + most + ",split=auto"), HasSubstr("split_does_not_add_up"));
  EXPECT_THAT(Why("recompute=full:" + most), HasSubstr("recompute_layers_too_many"));
  EXPECT_THAT(Why("tp=" + most + ",pp=" + most + ",dp=" + most, INT64_MAX), HasSubstr("too_many_ranks"));
}

TEST(Legality, ReasonsHaveNames) {
  std::set<std::string> names;
  for (int i = 0; i < kIllegalReasonCount; ++i) {
    const std::string name(Name(static_cast<IllegalReason>(i)));
    EXPECT_THAT(name, ::testing::MatchesRegex("[a-z][a-z0-9_]*[a-z0-9]"));
    EXPECT_TRUE(names.insert(name).second) << name << ": a count of rejected plans has one reason";
  }
  EXPECT_FALSE(names.contains("out_of_memory")) << "which counts plans that are legal";
}

TEST(Canonical, OptionsWithNothingToActOn) {
  const auto canonical = [](std::string_view text) { return PlanText(Canonical(Plan(text))); };
  EXPECT_EQ(canonical("sp=1"), "tp=1,pp=1,dp=1,mbs=1");
  EXPECT_EQ(canonical("tp=2,sp=1"), "tp=2,pp=1,dp=1,mbs=1,sp=1");
  EXPECT_EQ(canonical("tp_overlap=4"), "tp=1,pp=1,dp=1,mbs=1");
  EXPECT_EQ(canonical("zero=1,param_overlap=1,grad_overlap=1"), "tp=1,pp=1,dp=1,mbs=1");
  EXPECT_EQ(canonical("dp=2,zero=1,param_overlap=1"), "tp=1,pp=1,dp=2,mbs=1,zero=1,param_overlap=1");
  EXPECT_EQ(canonical("dp=4,zero=1,dp_shard=4"), "tp=1,pp=1,dp=4,mbs=1,zero=1");
  EXPECT_EQ(canonical("dp=4,zero=1,dp_shard=2"), "tp=1,pp=1,dp=4,mbs=1,zero=1,dp_shard=2");
  EXPECT_EQ(canonical("dp=4,zero=1,dp_shard=1,param_overlap=1"), "tp=1,pp=1,dp=4,mbs=1");
  EXPECT_EQ(canonical("dp=4,dp_shard=1"), "tp=1,pp=1,dp=4,mbs=1");
  EXPECT_EQ(canonical("schedule=gpipe"), "tp=1,pp=1,dp=1,mbs=1");
  EXPECT_EQ(canonical("schedule=zb-h1"), "tp=1,pp=1,dp=1,mbs=1");
  EXPECT_EQ(canonical("pp=2,schedule=gpipe"), "tp=1,pp=2,dp=1,mbs=1,schedule=gpipe");
  EXPECT_EQ(canonical("split=12,p2p_overlap=1"), "tp=1,pp=1,dp=1,mbs=1");
  EXPECT_EQ(canonical("pp=2,split=6+6"), "tp=1,pp=2,dp=1,mbs=1");
  EXPECT_EQ(canonical("pp=2,vpp=2,split=3+3+3+3"), "tp=1,pp=2,dp=1,mbs=1,vpp=2");
  EXPECT_EQ(canonical("pp=2,split=7+5"), "tp=1,pp=2,dp=1,mbs=1,split=7+5");
  EXPECT_EQ(canonical("pp=2,split=auto"), "tp=1,pp=2,dp=1,mbs=1,split=auto");
  EXPECT_EQ(canonical("pp=2,recompute=full:6"), "tp=1,pp=2,dp=1,mbs=1,recompute=full:6")
      << "only the model could tell";
  EXPECT_EQ(canonical("recompute=selective"), "tp=1,pp=1,dp=1,mbs=1");
  EXPECT_EQ(canonical("recompute=selective,attention=unfused"),
            "tp=1,pp=1,dp=1,mbs=1,recompute=selective,attention=unfused");
  EXPECT_EQ(canonical("recompute=selective:core_attn+mlp+act"),
            "tp=1,pp=1,dp=1,mbs=1,recompute=selective:mlp");
  EXPECT_EQ(canonical("recompute=selective:core_attn+norm,attention=unfused"),
            "tp=1,pp=1,dp=1,mbs=1,recompute=selective:core_attn+norm,attention=unfused");
  EXPECT_EQ(canonical("tp=2,scatter_gather=1"), "tp=2,pp=1,dp=1,mbs=1");
  EXPECT_EQ(canonical("pp=2,scatter_gather=1"), "tp=1,pp=2,dp=1,mbs=1");
  EXPECT_EQ(canonical("tp=2,pp=2,sp=1,scatter_gather=1"), "tp=2,pp=2,dp=1,mbs=1,sp=1");
  EXPECT_EQ(canonical("tp=2,pp=2,scatter_gather=1"), "tp=2,pp=2,dp=1,mbs=1,scatter_gather=1");
}

// A plan has notes exactly where its canonical form differs, and the canonical form is a fixed point.
TEST(Canonical, AgreesWithNotes) {
  std::mt19937_64 random(5);
  const auto flag = [&random] { return random() % 2 == 1; };
  for (int i = 0; i < 3000; ++i) {
    ParallelPlan plan;
    plan.tp = flag() ? 2 : 1;
    plan.pp = flag() ? 2 : 1;
    plan.dp = flag() ? 2 : 1;
    plan.schedule = static_cast<Schedule>(random() % 4);
    if (plan.schedule == Schedule::kInterleaved) plan.pp = plan.virtual_stages = 2;
    plan.split = static_cast<SplitMode>(random() % 3);
    if (plan.split == SplitMode::kExplicit) {
      plan.split_layers.assign(static_cast<std::size_t>(plan.pp * plan.virtual_stages), 3);
      if (flag()) ++plan.split_layers.back();
    }
    plan.recompute = static_cast<Recompute>(random() % 3);
    if (plan.recompute == Recompute::kSelective) {
      plan.recompute_parts = {};
      for (std::size_t part = 0; part < kLayerPartNames.size(); ++part) {
        if (flag()) plan.recompute_parts.Add(static_cast<LayerPart>(part));
      }
    }
    plan.attention = flag() ? Attention::kFused : Attention::kUnfused;
    plan.sequence_parallel = flag();
    plan.zero_stage = flag() ? 1 : 0;
    if (plan.zero_stage > 0) plan.dp_shard = static_cast<std::int64_t>(random() % 2 % plan.dp);
    plan.tp_overlap = flag() ? 4 : 1;
    plan.grad_overlap = flag();
    plan.param_overlap = plan.zero_stage > 0 && flag();
    plan.p2p_overlap = flag();
    plan.scatter_gather = flag();
    const ParallelPlan canonical = Canonical(plan);
    EXPECT_EQ(Notes(plan).empty(), canonical == plan) << PlanText(plan);
    EXPECT_THAT(Notes(canonical), IsEmpty()) << PlanText(canonical);
    EXPECT_EQ(Canonical(canonical), canonical) << PlanText(plan);
  }
}

TEST(Notes, Sentences) {
  EXPECT_THAT(
      Notes(Plan("sp=1,schedule=gpipe,recompute=selective")),
      ElementsAre("schedule=gpipe has nothing to act on at pp=1",
                  "recompute=selective has nothing to act on under attention=fused, which stores no scores",
                  "sp=1 has nothing to act on at tp=1"));
  EXPECT_THAT(
      Notes(Plan("recompute=selective:core_attn+mlp")),
      ElementsAre("recompute=selective:core_attn+mlp names core_attn, which has nothing to act on under "
                  "attention=fused"));
  EXPECT_THAT(Notes(Plan("recompute=selective:mlp+act")),
              ElementsAre("recompute=selective:mlp+act names act, a part of mlp"));
  EXPECT_THAT(Notes(Plan("pp=2,split=6+6")), ElementsAre("split=6+6 means split=even"));
  EXPECT_THAT(Notes(Plan("split=12")), ElementsAre("split=12 has nothing to act on at pp=1"));
  EXPECT_THAT(Notes(Plan("dp=4,zero=1,dp_shard=1")),
              ElementsAre("zero=1 has nothing to act on at dp_shard=1", "dp_shard=1 shards nothing"));
  EXPECT_THAT(Notes(Plan("tp=2,pp=2,dp=2,sp=1,zero=1,tp_overlap=2")), IsEmpty());
}

TEST(CheckEngineSupports, EveryOption) {
  for (const char* text :
       {"tp=2,pp=2,dp=2,mbs=2,schedule=gpipe,recompute=full", "tp=2,recompute=selective", "sp=1", "zero=2",
        "tp_overlap=2", "dp=2,grad_overlap=1", "dp=2,zero=1,param_overlap=1", "p2p_overlap=1",
        "scatter_gather=1", "schedule=zb-h1", "pp=2,vpp=2", "pp=2,split=auto", "pp=2,split=7+5",
        "pp=2,vpp=2,split=1+2+3+6,recompute=full:2", "recompute=full:2", "recompute=selective:mlp+norm"}) {
    EXPECT_TRUE(CheckPredictable(Plan(text)).ok()) << text;
    EXPECT_TRUE(CheckEngineSupports(Plan(text)).ok()) << text;
  }
}

// A table may have values that neither the engine runs nor the cost model predicts: both refuse them in the
// same words. What is only predicted, the engine refuses alone.
TEST(CheckEngineSupports, SaysWhatToUseInstead) {
  std::vector<PlanOption> options(PlanOptions().begin(), PlanOptions().end());
  const auto option = [&](std::string_view name) -> PlanOption& {
    return *std::find_if(options.begin(), options.end(), [&](const auto& o) { return o.name == name; });
  };
  constexpr std::array<std::string_view, 2> kNoneOrFull = {"none", "full"};
  option("tp_overlap").predicted = option("tp_overlap").choices.first(3);
  option("zero").predicted = option("zero").choices.first(1);
  option("recompute").predicted = kNoneOrFull;
  option("sp").run = option("sp").choices.first(1);
  const auto refusal = [&](std::string_view text) {
    const absl::Status status = CheckPredictable(Plan(text), options);
    EXPECT_EQ(CheckEngineSupports(Plan(text), options), status);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal("tp=2,tp_overlap=8"), "plan: tp_overlap=8 is not supported yet; use 1, 2 or 4");
  EXPECT_EQ(refusal("dp=2,zero=1"), "plan: zero=1 is not supported yet; use zero=0");
  EXPECT_EQ(refusal("attention=unfused,recompute=selective"),
            "plan: recompute=selective is not supported yet; use none or full");
  EXPECT_TRUE(CheckPredictable(Plan("tp=2,sp=1"), options).ok());
  EXPECT_EQ(CheckEngineSupports(Plan("tp=2,sp=1"), options).message(),
            "plan: sp=1 can be predicted, but running it is not supported yet; use sp=0");
}

TEST(LegalityRules, ReadOptionsOfTheTable) {
  for (const LegalityRule& rule : LegalityRules()) {
    EXPECT_FALSE(rule.reads.empty()) << rule.name;
    for (const std::string_view name : rule.reads) {
      const PlanOption* option = FindPlanOption(name);
      ASSERT_NE(option, nullptr) << rule.name << " reads " << name;
      EXPECT_EQ(option->name, name);
    }
  }
}

// Returns a plan with a random value of each option, not always a legal one.
ParallelPlan AnyPlan(std::mt19937_64& random) {
  ParallelPlan plan;
  for (const PlanOption& option : PlanOptions()) {
    std::vector<std::string> values(option.choices.begin(), option.choices.end());
    if (option.form == OptionForm::kSize) values = {"1", "2", "3", "4", "6"};
    if (option.name == "dp_shard") std::erase(values, "1");  // no search has it
    if (option.name == "split") values = {"even", "auto", "6+6", "4+4+4", "5+7"};
    if (option.name == "recompute")
      values = {"none", "selective", "selective:mlp+norm", "full", "full:2", "full:5"};
    EXPECT_TRUE(option.parse(option, values[random() % values.size()], plan).ok());
  }
  return plan;
}

// A search asks what is redundant while later options still have the values of the plan before.
TEST(PlanOptions, AreRedundantByEarlierOptionsAlone) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 2000; ++i) {
    const ParallelPlan plan = AnyPlan(random);
    ParallelPlan mixed = AnyPlan(random);  // later options of another plan
    for (const std::string_view name : {"tp", "pp", "dp", "mbs", "vpp", "schedule", "split"})
      FindPlanOption(name)->copy(plan, mixed);
    for (const PlanOption& option : PlanOptions()) {
      if (option.name == "recompute") continue;
      option.copy(plan, mixed);
      if (option.redundant == nullptr) continue;
      EXPECT_EQ(option.redundant(mixed), option.redundant(plan)) << option.name;
    }
    const PlanOption& recompute = *FindPlanOption("recompute");
    mixed = AnyPlan(random);
    for (const std::string_view name : {"attention", "recompute"}) FindPlanOption(name)->copy(plan, mixed);
    EXPECT_EQ(recompute.redundant(mixed), recompute.redundant(plan));
  }
}

// A search asks it of options after recompute once for all plans of a mesh.
TEST(PlanOptions, OfTheSecondHalfAreRedundantOrCoveredWhateverTheLayout) {
  std::mt19937_64 random(12);
  const PlanOption* recompute = FindPlanOption("recompute");
  int asked = 0;
  for (int i = 0; i < 2000; ++i) {
    const ParallelPlan plan = AnyPlan(random);
    const ParallelPlan other = AnyPlan(random);
    ParallelPlan mixed = plan;
    for (const std::string_view name : {"mbs", "vpp", "schedule", "split", "recompute"})
      FindPlanOption(name)->copy(other, mixed);
    for (const PlanOption& option : PlanOptions()) {
      if (&option <= recompute) continue;
      ++asked;
      if (option.redundant != nullptr) {
        EXPECT_EQ(option.redundant(mixed), option.redundant(plan)) << option.name;
      }
      if (option.covered != nullptr) {
        EXPECT_EQ(option.covered(mixed), option.covered(plan)) << option.name;
      }
    }
  }
  EXPECT_GT(asked, 10'000);
}

// A rule that depends on an option that it does not list would be checked too early by the enumeration.
TEST(LegalityRules, DependOnNoOtherOptions) {
  const ModelSpec model = Model();
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const ParallelPlan plan = AnyPlan(random);
    const ParallelPlan other = AnyPlan(random);
    const std::optional<IllegalReason> reason = FindIllegality({model, kWorkload, plan}, 64);
    for (const LegalityRule& rule : LegalityRules()) {
      if (reason && rule.reason > *reason) break;  // requires the rules before it
      ParallelPlan mixed = other;
      for (const std::string_view name : rule.reads) FindPlanOption(name)->copy(plan, mixed);
      EXPECT_EQ(rule.broken({{model, kWorkload, mixed}, 64}), rule.broken({{model, kWorkload, plan}, 64}))
          << rule.name;
    }
  }
}

}  // namespace
}  // namespace autocfg
