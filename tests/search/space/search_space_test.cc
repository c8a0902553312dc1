// The space holds every plan there is, once, in order, and says why the others are not in it.
#include "search/space/search_space.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/plan_text.h"
#include "tests/support/plan_values.h"

namespace autocfg {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

ModelSpec Model(std::int64_t layers = 4, std::int64_t heads = 4) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = 32 * heads;
  model.heads = heads;
  model.vocab = 1000;
  FillDefaults(model);
  return model;
}

Workload Batch(std::int64_t global_batch) { return {.global_batch = global_batch, .seq_len = 64}; }

std::vector<ParallelPlan> Legal(const SearchSpace& space, SearchSpace::Counts* counts = nullptr) {
  std::vector<ParallelPlan> plans;
  const SearchSpace::Counts found = space.ForEachLegal([&plans](const ParallelPlan& plan) {
    plans.push_back(plan);
    return true;
  });
  if (counts != nullptr) *counts = found;
  return plans;
}

std::int64_t IllegalCount(const SearchSpace::Counts& counts) {
  return std::accumulate(counts.illegal.begin(), counts.illegal.end(), std::int64_t{0});
}

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
  std::set<ParallelPlan> legal = {}, illegal = {};
  std::map<IllegalReason, std::int64_t> reasons = {};

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
    const std::optional<IllegalReason> reason = FindIllegality(model, workload, ranks, canonical);
    if (!reason) {
      legal.insert(canonical);
    } else if (illegal.insert(canonical).second) {
      ++reasons[*reason];
    }
  }

  // Expects `space` to hold the same.
  void Compare(const SearchSpace& space) const {
    SearchSpace::Counts counts;
    const std::vector<ParallelPlan> plans = Legal(space, &counts);
    EXPECT_EQ(std::set<ParallelPlan>(plans.begin(), plans.end()), legal);
    EXPECT_EQ(plans.size(), legal.size()) << "each once";
    EXPECT_EQ(counts.enumerated, IllegalCount(counts) + static_cast<std::int64_t>(plans.size()));
    for (int i = 0; i < kIllegalReasonCount; ++i) {
      const auto reason = static_cast<IllegalReason>(i);
      const auto found = reasons.find(reason);
      EXPECT_EQ(counts.illegal[static_cast<std::size_t>(i)], found == reasons.end() ? 0 : found->second)
          << Name(reason);
    }
    for (const ParallelPlan& plan : plans) EXPECT_EQ(Canonical(plan), plan);
  }
};

TEST(SearchSpace, CutsProductsOnlyWhereThatHidesCollectives) {
  const auto chunks_in = [](const AxisValues& values, bool hides) {
    const auto space = SearchSpace::Create(Model(6, 4), Batch(2), 2, values, {.hides_collectives = hides});
    EXPECT_TRUE(space.ok()) << space.status();
    std::set<std::int64_t> whole, cut;  // at tp=1 and tp=2
    for (const ParallelPlan& plan : Legal(*space)) (plan.tp > 1 ? cut : whole).insert(plan.tp_overlap);
    EXPECT_EQ(whole, std::set<std::int64_t>{1});
    return cut;
  };
  EXPECT_EQ(chunks_in({}, true), (std::set<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(chunks_in({}, false), std::set<std::int64_t>{1});
  EXPECT_EQ(chunks_in({{"tp_overlap", {"1", "4"}}}, false), (std::set<std::int64_t>{1, 4}))
      << "if it is named";
}

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
      const auto space = SearchSpace::Create(model, workload, ranks, {});
      ASSERT_TRUE(space.ok()) << space.status();
      brute.Compare(*space);
      for (const ParallelPlan& plan : Legal(*space)) EXPECT_TRUE(CheckEngineSupports(plan).ok());
    }
  }
}

// A search that names no values goes through the ways of sending messages, where they differ.
TEST(SearchSpace, ScattersMessagesByDefault) {
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    const auto space = SearchSpace::Create(Model(6, 4), Batch(24), ranks, {});
    ASSERT_TRUE(space.ok()) << space.status();
    const std::vector<ParallelPlan> all = Legal(*space);
    const auto scatters = std::count_if(all.begin(), all.end(), [](const ParallelPlan& plan) {
      EXPECT_TRUE(!plan.scatter_gather || (plan.tp > 1 && plan.pp > 1 && !plan.sequence_parallel))
          << PlanText(plan);
      return plan.scatter_gather;
    });
    EXPECT_EQ(scatters > 0, ranks >= 4) << ranks;
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

TEST(SearchSpace, FixedOrder) {
  const auto space =
      SearchSpace::Create(Model(), Batch(4), 2, {{"tp", {"1"}}, {"mbs", {"1"}}, {"vpp", {"1", "2"}}});
  ASSERT_TRUE(space.ok());
  std::vector<std::string> texts;
  for (const ParallelPlan& plan : Legal(*space)) texts.push_back(PlanText(plan));
  std::vector<std::string> expected;
  for (const char* zero : {"", ",zero=1", ",zero=2", ",zero=3"}) {
    for (const char* recompute :
         {"", ",recompute=full:1", ",recompute=full:2", ",recompute=full:3", ",recompute=full"})
      expected.push_back(std::string("tp=1,pp=1,dp=2,mbs=1") + recompute + zero);
  }
  const auto expect_pipelines = [&](const std::string& schedule, const std::vector<std::string>& recomputes) {
    for (const char* split : {"", ",split=auto"}) {
      for (const char* overlap : {"", ",p2p_overlap=1"}) {
        for (const std::string& recompute : recomputes)
          expected.push_back(
              fmt::format("tp=1,pp=2,dp=1,mbs=1{}{}{}{}", schedule, split, recompute, overlap));
      }
    }
  };
  const std::vector<std::string> up_to_one = {"", ",recompute=full:1", ",recompute=full"};
  expect_pipelines(",schedule=gpipe", up_to_one);
  expect_pipelines("", up_to_one);
  expect_pipelines(",vpp=2", {"", ",recompute=full"});
  expect_pipelines(",schedule=zb-h1", up_to_one);
  EXPECT_EQ(texts, expected);
}

TEST(SearchSpace, IllegalByReason) {
  const auto space = SearchSpace::Create(Model(3, 2), Batch(2), 4,
                                         {{"recompute", {"none"}},
                                          {"schedule", {"1f1b"}},
                                          {"split", {"even"}},
                                          {"sp", {"0"}},
                                          {"zero", {"0"}},
                                          {"p2p_overlap", {"0"}},
                                          {"scatter_gather", {"0"}}});
  ASSERT_TRUE(space.ok());
  SearchSpace::Counts counts;
  EXPECT_EQ(Legal(*space, &counts).size(), 1u);  // tp=2, dp=2, mbs=1
  EXPECT_EQ(counts.enumerated, 12);              // six layouts, two micro batches
  const auto count = [&](IllegalReason reason) { return counts.illegal[static_cast<std::size_t>(reason)]; };
  EXPECT_EQ(count(IllegalReason::kLayersNotDivisible), 6);  // pp of 2 or 4
  EXPECT_EQ(count(IllegalReason::kHeadsNotDivisible), 2);   // tp=4
  EXPECT_EQ(count(IllegalReason::kBatchNotDivisible), 3);   // dp=4 twice; dp=2 with mbs=2
}

TEST(SearchSpace, StopsWhenAsked) {
  const auto space = SearchSpace::Create(Model(), Batch(8), 8, {});
  ASSERT_TRUE(space.ok());
  int seen = 0;
  const auto counts = space->ForEachLegal([&seen](const ParallelPlan&) { return ++seen < 5; });
  EXPECT_EQ(seen, 5);
  EXPECT_LT(counts.enumerated, space->ForEachLegal([](const ParallelPlan&) { return true; }).enumerated);
}

TEST(SearchSpace, AxesBoundIt) {
  const AxisValues values = {{"tp", {"2", "1", "2"}}, {"pp", {"2"}},
                             {"micro_batch", {"2"}},  {"schedule", {"gpipe"}},
                             {"recompute", {"full"}}, {"virtual_stages", {"1"}},
                             {"sp", {"0"}},           {"zero", {"0"}},
                             {"split", {"even"}},     {"attention", {"fused"}},
                             {"p2p_overlap", {"0"}},  {"scatter_gather", {"0"}}};
  const auto space = SearchSpace::Create(Model(), Batch(8), 4, values);
  ASSERT_TRUE(space.ok()) << space.status();
  std::vector<std::string> texts;
  for (const ParallelPlan& plan : Legal(*space)) texts.push_back(PlanText(plan));
  EXPECT_THAT(texts, ElementsAre("tp=1,pp=2,dp=2,mbs=2,schedule=gpipe,recompute=full",
                                 "tp=2,pp=2,dp=1,mbs=2,schedule=gpipe,recompute=full"));
}

// Forms with nothing to act on are the canonical plan: they add nothing and lose nothing.
TEST(SearchSpace, CanonicalOnly) {
  const auto gpipe = SearchSpace::Create(Model(), Batch(8), 2, {{"schedule", {"gpipe"}}, {"pp", {"1"}}});
  ASSERT_TRUE(gpipe.ok());
  for (const ParallelPlan& plan : Legal(*gpipe)) EXPECT_EQ(plan.schedule, Schedule::kOneFOneB);
  EXPECT_FALSE(Legal(*gpipe).empty());
  const auto selective = SearchSpace::Create(Model(), Batch(8), 2, {{"recompute", {"none", "selective"}}});
  const auto none = SearchSpace::Create(Model(), Batch(8), 2, {{"recompute", {"none"}}});
  ASSERT_TRUE(selective.ok() && none.ok());
  EXPECT_EQ(Legal(*selective), Legal(*none));
}

// What a schedule cannot take is no plan of the space; where nothing else was asked for, that is an error.
TEST(SearchSpace, SchedulesAndVirtualStagesGoTogether) {
  const auto count = [](const AxisValues& values) {
    const auto space = SearchSpace::Create(Model(8), Batch(8), 4, values);
    EXPECT_TRUE(space.ok()) << space.status();
    std::map<std::pair<Schedule, std::int64_t>, int> by_schedule;
    for (const ParallelPlan& plan : Legal(*space)) ++by_schedule[{plan.schedule, plan.virtual_stages}];
    return by_schedule;
  };
  using Key = std::pair<Schedule, std::int64_t>;
  EXPECT_THAT(count({{"schedule", {"interleaved", "1f1b"}}, {"vpp", {"2"}}}),
              ElementsAre(Pair(Key(Schedule::kInterleaved, 2), _)));
  EXPECT_THAT(count({{"schedule", {"interleaved"}}}),
              ElementsAre(Pair(Key(Schedule::kInterleaved, 2), _), Pair(Key(Schedule::kInterleaved, 4), _)));
  EXPECT_THAT(count({{"vpp", {"1", "2"}}, {"schedule", {"gpipe", "interleaved"}}, {"pp", {"1", "2"}}}),
              ElementsAre(Pair(Key(Schedule::kGPipe, 1), _), Pair(Key(Schedule::kOneFOneB, 1), _),
                          Pair(Key(Schedule::kInterleaved, 2), _)))
      << "gpipe at pp=1 is 1f1b";
  for (const AxisValues& values : {AxisValues{{"schedule", {"1f1b"}}, {"vpp", {"2"}}},
                                   AxisValues{{"schedule", {"interleaved"}}, {"vpp", {"1"}}},
                                   AxisValues{{"schedule", {"gpipe", "1f1b"}}, {"vpp", {"2", "4"}}},
                                   AxisValues{{"schedule", {"interleaved"}}, {"pp", {"1"}}},
                                   AxisValues{{"vpp", {"2"}}, {"pp", {"1"}}}}) {
    const auto space = SearchSpace::Create(Model(8), Batch(8), 4, values);
    EXPECT_EQ(space.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(space.status().message()),
                HasSubstr("interleaved takes vpp and pp of at least 2, any other schedule vpp=1"));
  }
}

TEST(SearchSpace, MicrobatchesOfInterleavedAreMultiplesOfPp) {
  const auto space = SearchSpace::Create(Model(8), Batch(6), 4,
                                         {{"pp", {"4"}},
                                          {"mbs", {"1"}},
                                          {"recompute", {"none"}},
                                          {"schedule", {"interleaved"}},
                                          {"p2p_overlap", {"0"}},
                                          {"split", {"even"}}});
  ASSERT_TRUE(space.ok()) << space.status();
  SearchSpace::Counts counts;
  EXPECT_TRUE(Legal(*space, &counts).empty());
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kMicrobatchesNotMultipleOfStages)], 1);
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kLayersNotDivisible)], 2)
      << "vpp of 4 and 8";
}

TEST(SearchSpace, KnowsWhichSplitsItGoesThrough) {
  ParallelPlan even;
  even.pp = 2;
  ParallelPlan uneven = even;
  uneven.split = SplitMode::kExplicit;
  uneven.split_layers = {3, 1};
  const auto holds = [](const std::vector<std::string>& splits, const ParallelPlan& plan) {
    const auto space = SearchSpace::Create(Model(4), Batch(8), 2, {{"split", splits}});
    EXPECT_TRUE(space.ok()) << space.status();
    return space->HoldsSplit(plan);
  };
  EXPECT_TRUE(holds({"even", "auto"}, even));
  EXPECT_FALSE(holds({"even", "auto"}, uneven));
  EXPECT_FALSE(holds({"auto"}, even));
  EXPECT_TRUE(holds({"auto", "2+2"}, even));
  EXPECT_TRUE(holds({"auto", "3+1"}, uneven));
  EXPECT_FALSE(holds({"auto", "1+3"}, uneven));
}

// Illegal plans are counted many at once, or visited one by one, each once, with the rule that it breaks.
TEST(SearchSpace, VisitsIllegalPlansIfAsked) {
  const ModelSpec model = Model(6, 6);
  const Workload workload = Batch(12);
  for (const AxisValues& values :
       {AxisValues{},
        AxisValues{{"sp", {"0"}}, {"zero", {"0"}}, {"p2p_overlap", {"0"}}, {"scatter_gather", {"0"}}},
        AxisValues{{"split", {"even", "auto", "4+2", "9+9"}}, {"recompute", {"none", "full:3"}}}}) {
    const auto space = SearchSpace::Create(model, workload, 8, values);
    ASSERT_TRUE(space.ok()) << space.status();
    SearchSpace::Counts counted;
    const std::vector<ParallelPlan> legal = Legal(*space, &counted);
    ASSERT_GT(IllegalCount(counted), 20);
    for (const std::int64_t most : {IllegalCount(counted) + 1, std::int64_t{7}}) {
      std::set<ParallelPlan> illegal;
      std::int64_t visited = 0, legal_visited = 0;
      const SearchSpace::Counts found = space->ForEachLegal(
          [&](const ParallelPlan& plan) {
            EXPECT_EQ(plan, legal[static_cast<std::size_t>(legal_visited)]);
            ++legal_visited;
            return true;
          },
          {},
          [&](const ParallelPlan& plan, IllegalReason reason) {
            EXPECT_EQ(FindIllegality(model, workload, 8, plan), reason) << PlanText(plan);
            EXPECT_TRUE(illegal.insert(plan).second) << "twice: " << PlanText(plan);
            return ++visited < most;
          });
      EXPECT_EQ(visited, std::min(most, IllegalCount(counted)));
      EXPECT_EQ(legal_visited, static_cast<std::int64_t>(legal.size()));
      EXPECT_EQ(found.illegal, counted.illegal);
      EXPECT_EQ(found.enumerated, counted.enumerated);
    }
  }
}

TEST(SearchSpace, MicroBatchesThatDoNotDivideAreNamed) {
  const auto space = SearchSpace::Create(Model(), Batch(8), 1, {{"mbs", {"3", "16", "2147483647"}}});
  ASSERT_TRUE(space.ok());
  SearchSpace::Counts counts;
  EXPECT_TRUE(Legal(*space, &counts).empty());
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kBatchNotDivisible)], counts.enumerated);
}

TEST(SearchSpace, SizesThatDoNotDivideTheRanksAreCountedOnce) {
  const auto space =
      SearchSpace::Create(Model(), Batch(8), 4, {{"tp", {"1", "2", "3", "8"}}, {"pp", {"1", "16"}}});
  ASSERT_TRUE(space.ok()) << space.status();
  SearchSpace::Counts counts;
  const std::vector<ParallelPlan> plans = Legal(*space, &counts);
  EXPECT_EQ(counts.illegal[static_cast<std::size_t>(IllegalReason::kRanksNotDivisible)], 3);
  std::int64_t illegal = 0;
  for (const std::int64_t count : counts.illegal) illegal += count;
  EXPECT_EQ(counts.enumerated, illegal + static_cast<std::int64_t>(plans.size()));
  std::set<std::int64_t> sizes;
  for (const ParallelPlan& plan : plans) sizes.insert(plan.tp);
  EXPECT_THAT(sizes, ElementsAre(1, 2));
}

TEST(SearchSpace, Refused) {
  const auto message = [](const AxisValues& values, absl::StatusCode code) {
    const auto space = SearchSpace::Create(Model(), Batch(8), 4, values);
    EXPECT_EQ(space.status().code(), code);
    return std::string(space.status().message());
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(message({{"shedule", {"gpipe"}}}, kInvalid),
              AllOf(HasSubstr("shedule"), HasSubstr("did you mean schedule")));
  EXPECT_THAT(message({{"tp", {}}}, kInvalid), HasSubstr("tp has no values"));
  EXPECT_THAT(message({{"tp", {"1"}}, {"tp", {"2"}}}, kInvalid), HasSubstr("tp is named twice"));
  EXPECT_THAT(message({{"mbs", {"1"}}, {"micro_batch", {"2"}}}, kInvalid), HasSubstr("mbs is named twice"));
  EXPECT_THAT(message({{"tp", {"x"}}}, kInvalid), HasSubstr("space: tp=x"));
  EXPECT_THAT(message({{"tp", {"0"}}}, kInvalid), HasSubstr("tp=0 must be at least 1"));
  EXPECT_THAT(message({{"tp", {"3"}}}, kInvalid), HasSubstr("makes 4 ranks"));
  EXPECT_THAT(message({{"tp", {"2"}}, {"pp", {"1"}}, {"dp", {"1"}}}, kInvalid), HasSubstr("makes 4 ranks"));
  EXPECT_THAT(message({{"schedule", {"2f2b"}}}, kInvalid), HasSubstr("space: schedule=2f2b"));
  EXPECT_THAT(message({{"recompute", {"full:0"}}}, kInvalid), HasSubstr("recompute=full:0"));
  EXPECT_THAT(message({{"recompute", {"some"}}}, kInvalid), HasSubstr("recompute=some"));
  EXPECT_THAT(message({{"vpp", {"0"}}}, kInvalid), HasSubstr("vpp=0 must be at least 1"));
  EXPECT_THAT(message({{"split", {"2+x"}}}, kInvalid), HasSubstr("split=2+x"));
  EXPECT_THAT(message({{"split", {"3+0"}}}, kInvalid), HasSubstr("split=3+0"));
  EXPECT_THAT(message({{"attention", {"flash"}}}, kInvalid), HasSubstr("attention=flash"));
  EXPECT_THAT(message({{"scatter_gather", {"2"}}}, kInvalid), HasSubstr("scatter_gather=2"));
  EXPECT_EQ(SearchSpace::Create(Model(), Batch(8), 0, {}).status().code(), kInvalid);
  EXPECT_EQ(SearchSpace::Create(Model(), Batch(0), 4, {}).status().code(), kInvalid);
  EXPECT_EQ(SearchSpace::Create(ModelSpec(), Batch(8), 4, {}).status().code(), kInvalid);
}

// The plan without its choice of recompute.
ParallelPlan CaseOf(ParallelPlan plan) {
  plan.recompute = Recompute::kNone;
  plan.recompute_layers = 0;
  return plan;
}

TEST(SearchSpace, ThinningKeepsEveryCaseAndEvenlySpacedK) {
  constexpr std::int64_t kMany = 1'000'000;
  const auto space = SearchSpace::Create(Model(96), Batch(8), 8, {});
  ASSERT_TRUE(space.ok()) << space.status();
  const std::vector<ParallelPlan> all = Legal(*space);
  std::set<ParallelPlan> cases;
  for (const ParallelPlan& plan : all) cases.insert(CaseOf(plan));
  const auto size = static_cast<std::int64_t>(all.size());
  std::int64_t previous_step = 1;
  for (const std::int64_t most : {size * 2, size / 2, size / 3, size / 4}) {
    SearchSpace thin = *space;
    ASSERT_TRUE(thin.ThinRecompute(most, kMany));
    const std::int64_t step = thin.RecomputeStep();
    EXPECT_GE(step, previous_step);
    previous_step = step;
    std::set<ParallelPlan> kept_cases;
    std::vector<ParallelPlan> expected;
    for (const ParallelPlan& plan : all) {
      if (plan.recompute_layers % step == 0) expected.push_back(plan);
    }
    const std::vector<ParallelPlan> kept = Legal(thin);
    EXPECT_EQ(kept, expected) << "full:K in steps of " << step;
    for (const ParallelPlan& plan : kept) kept_cases.insert(CaseOf(plan));
    EXPECT_EQ(kept_cases, cases);
    EXPECT_LE(static_cast<std::int64_t>(kept.size()), most);
    if (most >= size) {
      EXPECT_EQ(step, 1);
    }
  }
  EXPECT_GT(previous_step, 2);
}

TEST(SearchSpace, ThinningEndsAtNoneAndFull) {
  for (const auto& [most, most_cases] : {std::pair(std::int64_t{1}, std::int64_t{1'000'000}),
                                         std::pair(std::int64_t{1'000'000}, std::int64_t{1})}) {
    // More cases than one look at them.
    auto space = SearchSpace::Create(Model(24), Batch(720), 64, {});
    ASSERT_TRUE(space.ok()) << space.status();
    ASSERT_TRUE(space->ThinRecompute(most, most_cases));
    EXPECT_EQ(space->RecomputeStep(), 24);
    for (const ParallelPlan& plan : Legal(*space)) ASSERT_EQ(plan.recompute_layers, 0) << PlanText(plan);
  }
}

TEST(SearchSpace, ThinningLeavesNamedValues) {
  auto space = SearchSpace::Create(Model(24), Batch(8), 8, {{"recompute", {"none", "full:1", "full:5"}}});
  ASSERT_TRUE(space.ok()) << space.status();
  const std::vector<ParallelPlan> before = Legal(*space);
  ASSERT_TRUE(space->ThinRecompute(1, 1'000'000));
  EXPECT_EQ(Legal(*space), before);
}

TEST(SearchSpace, EndsWhenAskedTo) {
  auto space = SearchSpace::Create(Model(24), Batch(5040), 720, {});
  ASSERT_TRUE(space.ok()) << space.status();
  const std::size_t all = Legal(*space).size();
  std::size_t visited = 0;
  int looks = 0;
  const auto visit = [&](const ParallelPlan&) {
    ++visited;
    return true;
  };
  EXPECT_FALSE(space->ForEachLegal(visit, [&](const SearchSpace::Counts&) { return ++looks < 3; }).complete);
  EXPECT_EQ(looks, 3);
  EXPECT_LT(visited, all);
  EXPECT_FALSE(space->ForEachLegal([](const ParallelPlan&) { return false; }).complete);
  EXPECT_TRUE(space->ForEachLegal(visit).complete);
  EXPECT_FALSE(space->ThinRecompute(1, 1'000'000, [](const SearchSpace::Counts&) { return false; }));
  EXPECT_EQ(space->RecomputeStep(), 1);
}

}  // namespace
}  // namespace autocfg
