// Compares the space with one that is written another way: every plan is there, once.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "search/plan/legality.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"
#include "search/space/search_space.h"
#include "tests/search/space/small_spaces.h"
#include "tests/support/plan_values.h"

namespace autocfg {
namespace {

using test::Batch;
using test::IllegalCount;
using test::Legal;
using test::Model;

// A space written another way: the cross product of all values, brought into canonical form, what is no plan
// left out.
struct BruteForce {
  const ModelSpec& model;
  const Workload& workload;
  std::int64_t ranks;
  std::vector<std::int64_t> mbs = {}, vpp = {};
  std::vector<Schedule> schedules = {};
  // recomputes empty: none, full and all K below the largest stage
  std::vector<std::string> splits = {}, recomputes = {};
  std::vector<Attention> attentions = {Attention::kFused};
  std::vector<bool> sequence_parallels = {false, true}, scatter_gathers = {false, true},
                    overlaps = {false, true};
  std::vector<std::int64_t> zeros = {0, 1, 2, 3}, shards = {0};
  std::set<ParallelPlan> legal = {};
  std::map<ParallelPlan, IllegalReason> illegal = {};

  void Run() {
    for (std::int64_t tp = 1; tp <= ranks; ++tp)
      for (std::int64_t pp = 1; tp * pp <= ranks; ++pp)
        for (const std::int64_t b : mbs)
          for (const std::int64_t v : vpp)
            for (const Schedule schedule : schedules)
              for (const std::string& split : splits)
                for (const Attention attention : attentions)
                  for (const auto& [sequence, overlap, scatter, zero, shard] : States()) {
                    if (ranks % (tp * pp) != 0) continue;
                    ParallelPlan plan;
                    plan.tp = tp;
                    plan.pp = pp;
                    plan.dp = ranks / tp / pp;
                    plan.micro_batch = b;
                    plan.virtual_stages = v;
                    plan.schedule = schedule;
                    plan.attention = attention;
                    plan.sequence_parallel = sequence;
                    plan.p2p_overlap = overlap;
                    plan.scatter_gather = scatter;
                    plan.zero_stage = zero;
                    plan.dp_shard = zero == 0 || plan.dp == 1 ? 0 : shard;  // nothing to shard
                    ASSERT_TRUE(SetPlanOption(plan, "split", split).ok());
                    Recomputes(plan);
                  }
  }

  std::vector<std::tuple<bool, bool, bool, std::int64_t, std::int64_t>> States() const {
    std::vector<std::tuple<bool, bool, bool, std::int64_t, std::int64_t>> states;
    for (const bool sequence : sequence_parallels)
      for (const bool overlap : overlaps)
        for (const bool scatter : scatter_gathers)
          for (const std::int64_t zero : zeros)
            for (const std::int64_t shard : shards)
              states.emplace_back(sequence, overlap, scatter, zero, shard);
    return states;
  }

  std::int64_t Stages(const ParallelPlan& plan) const { return plan.pp * plan.virtual_stages; }

  // Layers of the largest stage; 0 where the split cannot be laid out.
  std::int64_t Most(const ParallelPlan& plan) const {
    const std::int64_t stages = Stages(plan);
    if (stages > model.layers) return 0;
    if (plan.split == SplitMode::kExplicit) {
      const auto& s = plan.split_layers;
      if (static_cast<std::int64_t>(s.size()) != stages) return 0;
      if (std::accumulate(s.begin(), s.end(), std::int64_t{0}) != model.layers) return 0;
      return *std::max_element(s.begin(), s.end());
    }
    if (plan.split == SplitMode::kEven && model.layers % stages != 0) return 0;
    return (model.layers + stages - 1) / stages;
  }

  void Recomputes(const ParallelPlan& plan) {
    std::vector<std::string> values = recomputes;
    if (values.empty()) {
      values = {"none", "full"};
      for (const LayerParts parts : AllLayerParts())
        values.push_back(RecomputeText({{}, {.recompute = Recompute::kSelective, .recompute_parts = parts}}));
      for (std::int64_t k = 1; k < Most(plan); ++k) values.push_back("full:" + std::to_string(k));
    }
    for (const std::string& value : values) {
      ParallelPlan with = plan;
      ASSERT_TRUE(SetPlanOption(with, "recompute", value).ok());
      Add(with);
    }
  }

  void Add(ParallelPlan plan) {
    const bool interleaved = plan.schedule == Schedule::kInterleaved;
    if (interleaved != (plan.virtual_stages > 1) || (interleaved && plan.pp == 1)) return;
    const std::int64_t most = Most(plan);
    if (plan.split == SplitMode::kExplicit && most > 0 && most * Stages(plan) == model.layers) {
      plan.split = SplitMode::kEven;
      plan.split_layers.clear();
    }
    if (plan.recompute_layers == most) plan.recompute_layers = 0;
    ParallelPlan canonical = Canonical(plan);
    if (plan.split == SplitMode::kExplicit) {  // equal ones that are right are even by now
      canonical.split = plan.split;
      canonical.split_layers = plan.split_layers;
    }
    const std::optional<IllegalReason> reason = FindIllegality({model, workload, canonical}, ranks);
    if (reason) {
      illegal.emplace(canonical, *reason);
    } else {
      legal.insert(canonical);
    }
  }

  // Leaves the options of the table that are derived open: plans that differ in these alone become one, which
  // is legal if one of them is, and else illegal by the last rule that one breaks first.
  void LeaveDerivedOpen() {
    const auto open = [](ParallelPlan plan) {
      for (const PlanOption& option : PlanOptions()) {
        if (option.derived) option.copy(ParallelPlan(), plan);
      }
      return plan;
    };
    std::set<ParallelPlan> open_legal;
    for (const ParallelPlan& plan : legal) open_legal.insert(open(plan));
    std::map<ParallelPlan, IllegalReason> open_illegal;
    for (const auto& [plan, reason] : illegal) {
      if (open_legal.contains(open(plan))) continue;
      IllegalReason& last = open_illegal.try_emplace(open(plan), reason).first->second;
      last = std::max(last, reason);
    }
    legal = std::move(open_legal);
    illegal = std::move(open_illegal);
  }

  // Expects `space` to hold the same.
  void Compare(const SearchSpace& space) const {
    SearchSpace::Counts counts;
    std::vector<ParallelPlan> plans = Legal(space, &counts);
    for (const ParallelPlan& plan : plans) EXPECT_EQ(Canonical(plan), plan);
    // A plan has the first legal values of its derived options.
    for (ParallelPlan& plan : plans) {
      if (!legal.contains(plan)) plan.split = SplitMode::kEven;
    }
    EXPECT_EQ(std::set<ParallelPlan>(plans.begin(), plans.end()), legal);
    EXPECT_EQ(plans.size(), legal.size()) << "each once";
    EXPECT_EQ(counts.enumerated, IllegalCount(counts) + static_cast<std::int64_t>(plans.size()));
    for (int i = 0; i < kIllegalReasonCount; ++i) {
      const auto of_reason = [&](const auto& entry) { return entry.second == static_cast<IllegalReason>(i); };
      EXPECT_EQ(counts.illegal[static_cast<std::size_t>(i)],
                std::count_if(illegal.begin(), illegal.end(), of_reason))
          << Name(static_cast<IllegalReason>(i));
    }
  }
};

TEST(SearchSpace, HoldsEveryPlanOnce) {
  for (const std::int64_t ranks : {1, 2, 4, 6, 8, 12}) {
    for (const std::int64_t batch : {1, 6, 8, 24}) {
      const ModelSpec model = Model(6, 4);
      const Workload workload = Batch(batch);
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, batch " << batch);
      BruteForce brute{.model = model, .workload = workload, .ranks = ranks};
      for (std::int64_t mbs = 1; mbs <= batch; ++mbs) {
        if (batch % mbs == 0) brute.mbs.push_back(mbs);
      }
      brute.vpp = {1, 2, 3, 6};
      brute.schedules = test::PredictedSchedules();
      brute.splits = {"even", "auto"};
      brute.Run();
      const auto space = SearchSpace::Create(model, workload, ranks, test::EveryDerivedValue());
      ASSERT_TRUE(space.ok()) << space.status();
      brute.Compare(*space);
      brute.LeaveDerivedOpen();
      brute.Compare(*SearchSpace::Create(model, workload, ranks, {}));
      for (const ParallelPlan& plan : Legal(*space)) EXPECT_TRUE(CheckEngineSupports(plan).ok());
    }
  }
}

// Spaces of values drawn at random, those that can only be predicted among them.
TEST(SearchSpace, NamedValuesMakeTheSameSpaceAsBruteForce) {
  std::mt19937_64 random(11);
  int compared = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t layers = std::vector<std::int64_t>{4, 6, 7, 8, 12}[random() % 5];
    const std::int64_t heads = std::vector<std::int64_t>{4, 6}[random() % 2];
    const std::int64_t ranks = std::vector<std::int64_t>{1, 4, 8, 12}[random() % 4];
    const ModelSpec model = Model(layers, heads);
    const Workload workload = Batch(std::vector<std::int64_t>{8, 12, 24}[random() % 3]);
    BruteForce brute{.model = model, .workload = workload, .ranks = ranks};
    const auto some = [&random](const auto& values) {
      auto chosen = values;
      std::shuffle(chosen.begin(), chosen.end(), random);
      chosen.resize(1 + random() % chosen.size());
      return chosen;
    };
    const std::string first = std::to_string(layers - 1);
    brute.mbs = some(std::vector<std::int64_t>{1, 2, 3, 4});
    brute.vpp = some(std::vector<std::int64_t>{1, 2, 3, 5});
    brute.schedules = some(test::PredictedSchedules());
    brute.splits = some(std::vector<std::string>{"even", "auto", "1+" + first, first + "+1", "2+2", "4+4",
                                                 "2+2+2+2", "1+2+2+1", "9+8+8+7", std::to_string(layers)});
    brute.recomputes =
        some(std::vector<std::string>{"none", "selective", "full", "full:1", "full:2", "full:3", "full:5"});
    brute.attentions = some(std::vector<Attention>{Attention::kFused, Attention::kUnfused});
    brute.sequence_parallels = some(std::vector<bool>{false, true});
    brute.scatter_gathers = some(std::vector<bool>{false, true});
    brute.zeros = some(std::vector<std::int64_t>{0, 1});
    brute.shards = some(std::vector<std::int64_t>{2, 3, 4, 8});
    brute.overlaps = some(std::vector<bool>{false, true});
    brute.Run();

    AxisValues values = {{"split", brute.splits}, {"recompute", brute.recomputes}};
    const auto name = [&values](const char* axis, const auto& from, auto text) {
      values.emplace_back(axis, std::vector<std::string>());
      for (const auto& value : from) values.back().second.emplace_back(text(value));
    };
    const auto number = [](std::int64_t size) { return std::to_string(size); };
    name("mbs", brute.mbs, number);
    name("vpp", brute.vpp, number);
    name("schedule", brute.schedules, [](Schedule s) { return std::string(Name(s)); });
    name("attention", brute.attentions, [](Attention a) { return std::string(Name(a)); });
    name("sp", brute.sequence_parallels, [](bool on) { return std::string(on ? "1" : "0"); });
    name("p2p_overlap", brute.overlaps, [](bool on) { return std::string(on ? "1" : "0"); });
    name("scatter_gather", brute.scatter_gathers, [](bool on) { return std::string(on ? "1" : "0"); });
    name("zero", brute.zeros, number);
    name("dp_shard", brute.shards, number);
    const auto space = SearchSpace::Create(model, workload, ranks, values, {.predict_only = true});
    SCOPED_TRACE(::testing::Message() << "trial " << trial);
    if (space.ok()) {
      brute.Compare(*space);
      ++compared;
    } else {
      EXPECT_EQ(space.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(brute.legal.empty() && brute.illegal.empty()) << space.status();
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace autocfg
