// Tests of the pieces of a rank's state: that the ranks' pieces are the whole model, each element once, and
// that any range of a rank's part is found in any other cut.
#include "trainer/checkpoint/state_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "search/plan/plan_text.h"
#include "tests/trainer/checkpoint/weights_fixture.h"
#include "tests/trainer/model_styles.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

using test::SavedWeights;
using ::testing::AllOf;
using ::testing::HasSubstr;

RankShape ShapeUnder(const ModelSpec& model, const std::string& plan_text, std::int64_t rank) {
  Workload workload;
  workload.global_batch = 8;
  workload.seq_len = 4;
  workload.precision = *ParsePrecision("fp64");
  ParallelPlan plan = *ParsePlanText(plan_text);
  plan.split = SplitMode::kEven;
  return MakeRankShape({model, workload, plan}, rank);
}

// Returns a parameter's elements as their positions in the whole parameter, in the order of the rank's part;
// -1 for padding.
std::vector<std::int64_t> PositionsOf(const Parameter& p) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(ElementCount(p.shape)), -1);
  ForEachRun(p, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
    std::iota(positions.begin() + local, positions.begin() + local + count, global);
  });
  return positions;
}

constexpr const char* kPlans[] = {"tp=1,pp=1,dp=1,mbs=1", "tp=2,pp=1,dp=2,mbs=1", "tp=4,pp=1,dp=1,mbs=1",
                                  "tp=2,pp=2,dp=1,mbs=1"};

TEST(SharedRunsOfPieces, FindEachElementOfAnyRangeOnce) {
  std::mt19937_64 random(3);
  for (ModelSpec model : test::ModelStyles()) {
    test::SetLayers(model, 2);
    for (const char* from_plan : kPlans) {
      for (const char* to_plan : kPlans) {
        const ParallelPlan from = *ParsePlanText(from_plan);
        for (const Parameter& wanted : RankParameters(ShapeUnder(model, to_plan, 1))) {
          const std::vector<std::int64_t> sought = PositionsOf(wanted);
          const auto size = static_cast<std::int64_t>(sought.size());
          ElementRange range;
          range.first = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size));
          range.count =
              static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size - range.first + 1));
          std::vector<std::int64_t> got(static_cast<std::size_t>(range.count), -1);
          std::int64_t copied = 0;
          for (std::int64_t rank = 0; rank < RankCount(from); ++rank) {
            const RankShape shape = ShapeUnder(model, from_plan, rank);
            if (shape.data != 0) continue;
            for (const Parameter& held : RankParameters(shape)) {
              if (held.name != wanted.name || !held.counted) continue;
              // Each part in two pieces, as a sharded state may have it.
              const std::vector<std::int64_t> positions = PositionsOf(held);
              const auto all = static_cast<std::int64_t>(positions.size());
              const auto cut = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(all + 1));
              for (const ElementRange& piece : {ElementRange{0, cut}, ElementRange{cut, all - cut}}) {
                for (const SharedRun& run : SharedRuns({held, piece}, wanted, range)) {
                  ASSERT_GT(run.count, 0);
                  ASSERT_LE(run.from + run.count, piece.count);
                  ASSERT_LE(run.to + run.count, range.count);
                  copied += run.count;
                  for (std::int64_t k = 0; k < run.count; ++k) {
                    got[static_cast<std::size_t>(run.to + k)] =
                        positions[static_cast<std::size_t>(piece.first + run.from + k)];
                  }
                }
              }
            }
          }
          const std::vector<std::int64_t> expected(sought.begin() + range.first,
                                                   sought.begin() + range.first + range.count);
          ASSERT_EQ(got, expected) << model.name << " " << wanted.name << ": " << from_plan << " to "
                                   << to_plan;
          ASSERT_EQ(copied, ModelElements(wanted, range)) << wanted.name << ": an element was there twice";
        }
      }
    }
  }
}

TEST(SharedRunsOfPieces, AreWholePartsUnderTheSamePlan) {
  ModelSpec model = test::ModelStyles().at(1);
  model.layers = 2;
  for (const Parameter& p : RankParameters(ShapeUnder(model, kPlans[1], 1))) {
    const ElementRange whole = {0, ElementCount(p.shape)};
    EXPECT_EQ(SharedRuns({p, whole}, p, whole).size(), 1u) << p.name;
  }
}

// Over all ranks of a plan, each element of the model is in one piece.
TEST(PiecesToSave, AreTheWholeModelOnce) {
  for (ModelSpec model : test::ModelStyles()) {
    test::SetLayers(model, 2);
    for (const char* plan : kPlans) {
      std::map<std::string, std::vector<int>> times;
      for (std::int64_t rank = 0; rank < RankCount(*ParsePlanText(plan)); ++rank) {
        const RankShape shape = ShapeUnder(model, plan, rank);
        const auto device = CreateCpuDevice();
        Arena arena(*device);
        MemoryLayout layout(shape, std::vector<int>(shape.chunks.size(), 1), arena);
        arena.Commit();
        layout.Resolve();
        for (const OwnedPiece& piece : PiecesToSave(shape, layout)) {
          const Parameter& p = layout.parameters()[piece.parameter];
          std::vector<int>& of_name = times[p.name];
          of_name.resize(static_cast<std::size_t>(ElementCount(p.global_shape)));
          const std::vector<std::int64_t> positions = PositionsOf(p);
          for (std::int64_t i = piece.range.first; i < piece.range.first + piece.range.count; ++i) {
            const std::int64_t position = positions[static_cast<std::size_t>(i)];
            if (position >= 0) ++of_name[static_cast<std::size_t>(position)];
          }
        }
      }
      const auto all = RankParameters(ShapeUnder(model, kPlans[0], 0));
      EXPECT_EQ(times.size(), all.size());
      for (const auto& [name, counts] : times) {
        for (const int count : counts) ASSERT_EQ(count, 1) << model.name << " " << name << " under " << plan;
      }
    }
  }
}

class PiecesOfFile : public SavedWeights {
 protected:
  // Writes a file of one piece, with changed metadata, and returns why it is refused.
  std::string Refusal(const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json piece = {{"parameter", "w"}, {"shape", {4, 6}},    {"part_shape", {4, 3}},
                            {"parts", {2, 4}},  {"split", "columns"}, {"shard", 1},
                            {"shards", 2},      {"first", 2},         {"count", 5}};
    change(piece);
    const std::int64_t count = piece.value("count", 5);
    const std::string path = Path("rank-0.safetensors");
    const std::vector<double> data(5);
    std::vector<TensorToStore> tensors;
    for (const char* kind : {"weight", "m", "v"})
      tensors.push_back(
          {std::string("w/") + kind + "/" + std::to_string(piece.value("first", 2)), DType::kF64, {5}});
    SafetensorsWriter writer(path, tensors,
                             {{"format", "autocfg training state"}, {"pieces", "[" + piece.dump() + "]"}});
    for (int i = 0; i < 3; ++i) writer.Append(data.data(), 40);
    writer.Finish();
    try {
      EXPECT_EQ(StoredPieces(SafetensorsFile(path)).at(0).range.count, count);
    } catch (const BadInput& e) {
      return e.what();
    }
    return "";
  }
};

TEST_F(PiecesOfFile, AreRefusedIfTheyCannotBe) {
  EXPECT_EQ(Refusal([](auto&) {}), "");
  const std::vector<std::function<void(nlohmann::json&)>> changes = {
      [](auto& p) { p.erase("shard"); },
      [](auto& p) { p["split"] = "diagonal"; },
      [](auto& p) {
        p["shape"] = {4, 7};
      },
      [](auto& p) { p["shape"] = nlohmann::json::array(); },
      [](auto& p) {
        p["part_shape"] = {4, 2};
      },
      [](auto& p) {
        p["part_shape"] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
      },
      [](auto& p) {
        p["parts"] = {3, 3};
      },
      [](auto& p) {
        p["parts"] = {-2, 8};
      },
      [](auto& p) { p["first_column"] = 1; },
      [](auto& p) { p["first_column"] = -1; },
      [](auto& p) { p["shard"] = 2; },
      [](auto& p) { p["shard"] = -1; },
      [](auto& p) { p["shards"] = 0; },
      [](auto& p) { p["first"] = 8; },
      [](auto& p) { p["first"] = -1; },
      [](auto& p) { p["count"] = 6; },
      [](auto& p) { p["count"] = -5; },
      [](auto& p) { p["parameter"] = "x"; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i)
    EXPECT_THAT(Refusal(changes[i]), HasSubstr("rank-0.safetensors")) << "change " << i;
}

TEST_F(PiecesOfFile, AreNotInAFileOfWeights) {
  TrainAndSave(test::ShortConfig(), "w.safetensors");
  try {
    StoredPieces(SafetensorsFile(Path("w.safetensors")));
    ADD_FAILURE() << "not refused";
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("w.safetensors"), HasSubstr("not a file of a checkpoint")));
  }
}

}  // namespace
}  // namespace autocfg::trainer
