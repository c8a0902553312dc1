// Tests of saving and restoring the whole state of a run, on one rank: what is refused and named, and which
// checkpoint is used then. tests/multirank/resume_test.cc has the runs of several ranks.
#include "trainer/checkpoint/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kernels/arena.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/stopped_runs.h"
#include "trainer/layout/errors.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

namespace fs = std::filesystem;
using test::RunUntil;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A model of few bytes, so that a test can try each of them.
TrainConfig TinyRun() {
  TrainConfig c = test::SmallConfig();
  c.model = {};
  c.model.name = "tiny";
  c.model.layers = 1;
  c.model.hidden = 4;
  c.model.heads = 2;
  c.model.ffn_hidden = 4;
  c.model.vocab = 5;
  c.model.max_seq_len = 3;
  c.model.vocab_multiple = 4;
  FillDefaults(c.model);
  c.workload.global_batch = 2;
  c.workload.seq_len = 2;
  c.workload.precision = *ParsePrecision("fp32");
  return c;
}

class State : public ::testing::Test {
 protected:
  // Runs to steps 2 and 4 and saves there.
  void SetUp() override {
    for (const std::int64_t step : {2, 4}) {
      TrainConfig c = TinyRun();
      c.checkpoint_path = path_;
      if (step > 2) c.resume_path = path_;
      RunUntil(c, step);
    }
  }

  std::string Step(std::int64_t step) const { return path_ + "/step-" + std::to_string(step); }
  std::string DataFile(std::int64_t step) const { return Step(step) + "/rank-0.safetensors"; }

  // Returns what a trainer says that resumes from `path`: an error, or "step N" and its notes.
  static std::string Resumed(const std::string& path, TrainConfig c = TinyRun()) {
    c.resume_path = path;
    auto rendezvous = CreateLocalRendezvous(1);
    Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
    try {
      const RankTrainer trainer(c, 0, 1, backend);
      std::string said = "step " + std::to_string(trainer.step());
      for (const std::string& note : trainer.resumed().notes) said += "; " + note;
      return said;
    } catch (const BadInput& e) {
      return e.what();
    }
  }

  const TempDir home_;
  const std::string path_ = home_.File("ckpt");
};

TEST_F(State, IsThatOfTheNewestCheckpoint) {
  EXPECT_EQ(Resumed(path_), "step 4; resumed from " + Step(4) + ": 4 of 10 steps are done");
  EXPECT_EQ(Resumed(Step(2)), "step 2; resumed from " + Step(2) + ": 2 of 10 steps are done");
}

// The whole state, not only what later steps happen to show.
TEST_F(State, IsWhatWasSavedToTheLastBit) {
  const auto states = [&](std::int64_t until, bool resume) {
    TrainConfig c = TinyRun();
    if (resume) c.resume_path = path_;
    auto rendezvous = CreateLocalRendezvous(1);
    Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
    RankTrainer trainer(c, 0, 1, backend);
    while (trainer.step() < until) trainer.Step();
    std::vector<std::vector<double>> all;
    for (const ParameterTensors& t : trainer.layout().parameter_tensors()) {
      for (const Tensor& tensor : {t.value, t.m, t.v}) all.push_back(test::ToDoubles(tensor));
    }
    return all;
  };
  const auto saved = states(4, false);
  EXPECT_EQ(states(4, true), saved);
  EXPECT_NE(states(5, true), saved);
}

// A rank's memory, and what saving and restoring need of it.
class OneRank {
 public:
  explicit OneRank(const TrainConfig& c)
      : shape_(MakeRankShape(c, 0)),
        device_(CreateCpuDevice()),
        arena_(*device_),
        layout_(shape_, std::vector<int>(shape_.chunks.size(), 1), arena_),
        identity_(IdentityOf(c, "data")) {
    arena_.Commit();
    layout_.Resolve();
  }
  RankState state() { return {shape_, layout_, identity_, exchange_, *device_, *stream_}; }
  const RankShape& shape() const { return shape_; }
  const MemoryLayout& layout() const { return layout_; }

 private:
  const RankShape shape_;
  const std::unique_ptr<Device> device_;
  Arena arena_;
  MemoryLayout layout_;
  const RunIdentity identity_;
  const std::unique_ptr<Ops> ops_ = CreateCpuOps();
  const std::unique_ptr<Stream> stream_ = device_->CreateStream();
  Groups groups_;
  PendingWorks pending_;
  const Execution run_{*ops_, *stream_, groups_, pending_};
  RankExchange exchange_{shape_, layout_, run_, *device_};
};

Tensor Part(const Tensor& flat, std::int64_t first, std::int64_t count) {
  return {
      .data = flat.As<char>() + first * SizeOf(flat.dtype), .dtype = flat.dtype, .rank = 1, .shape = {count}};
}

// As of states that are sharded over the data group: pieces and targets that end anywhere in a parameter,
// whose values lie in memory of their own.
TEST(StateInPieces, IsSavedAndRestoredHoweverItIsCut) {
  const TempDir home;
  TrainConfig c = TinyRun();
  OneRank saver(c), loader(c);
  float value = 1;
  for (const ParameterTensors& t : saver.layout().parameter_tensors()) {
    for (const Tensor& tensor : {t.value, t.m, t.v}) {
      for (std::int64_t i = 0; i < tensor.Elements(); ++i) tensor.As<float>()[i] = value += 0.5f;
    }
  }
  std::vector<OwnedPiece> pieces;
  for (const OwnedPiece& whole : PiecesToSave(saver.shape(), saver.layout())) {
    for (std::int64_t first = 0; first < whole.range.count;) {
      const std::int64_t count = std::min<std::int64_t>(1 + pieces.size() % 7, whole.range.count - first);
      OwnedPiece piece{whole.parameter, {first, count}, {}};
      for (std::size_t k = 0; k < whole.states.size(); ++k)
        piece.states[k] = Part(whole.states[k], first, count);
      pieces.push_back(piece);
      first += count;
    }
  }
  std::vector<StateTarget> targets;
  for (const StateTarget& whole : TargetsToLoad(loader.layout())) {
    for (std::int64_t first = 0; first < whole.range.count;) {
      const std::int64_t count = std::min<std::int64_t>(1 + targets.size() % 5, whole.range.count - first);
      targets.push_back({whole.parameter, whole.kind, {first, count}, Part(whole.tensor, first, count)});
      first += count;
    }
  }
  ASSERT_GT(pieces.size(), 50u);
  {
    CheckpointDirectory directory(home.File("ckpt"), false);
    SaveTrainingState(home.File("ckpt"), &directory, 3, pieces, saver.state());
  }
  EXPECT_EQ(LoadTrainingState(home.File("ckpt"), 10, targets, loader.state()).step, 3);
  for (std::size_t i = 0; i < saver.layout().parameters().size(); ++i) {
    const Parameter& p = saver.layout().parameters()[i];
    const ParameterTensors &want = saver.layout().parameter_tensors()[i],
                           &got = loader.layout().parameter_tensors()[i];
    for (const auto& member : {&ParameterTensors::value, &ParameterTensors::m, &ParameterTensors::v}) {
      ForEachRun(p, [&](std::int64_t local, std::int64_t, std::int64_t count) {
        for (std::int64_t k = local; k < local + count; ++k)
          ASSERT_EQ((got.*member).As<float>()[k], (want.*member).As<float>()[k]) << p.name << " at " << k;
      });
    }
  }

  // Without one of the pieces, the checkpoint says what it lacks.
  pieces.erase(pieces.begin() + 40);
  {
    CheckpointDirectory directory(home.File("ckpt"), true);
    SaveTrainingState(home.File("ckpt"), &directory, 4, pieces, saver.state());
  }
  try {
    LoadTrainingState(home.File("ckpt"), 10, targets, loader.state());
    ADD_FAILURE() << "not refused";
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr(home.File("ckpt/step-4")), HasSubstr(" elements of transformer.")));
  }
}

TEST_F(State, CutOffAtAnyByteIsNamedAndTheOlderOneIsUsed) {
  for (const std::string& file : {DataFile(4), Step(4) + "/manifest.json"}) {
    const std::string whole = ReadBytes(file);
    ASSERT_GT(whole.size(), 1000u);
    for (std::size_t length = whole.size(); length-- > 0;) {
      fs::resize_file(file, length);
      // Opening costs little, so each byte is tried; a whole run only now and then.
      try {
        OpenCheckpoint(Step(4));
        ADD_FAILURE() << file << " cut off at " << length << " is taken";
      } catch (const BadInput& e) {
        ASSERT_THAT(e.what(), AllOf(HasSubstr(file), HasSubstr("cut off"))) << length;
      }
      if (length % 499 == 0) {
        EXPECT_THAT(Resumed(Step(4)), AllOf(HasSubstr("no checkpoint that can be used"), HasSubstr(file)));
        EXPECT_THAT(Resumed(path_), AllOf(HasSubstr("step 2; "), HasSubstr(file + " is cut off"),
                                          HasSubstr("an older checkpoint is used; resumed from " + Step(2))));
      }
    }
    WriteBytes(file, whole);
  }
  EXPECT_THAT(Resumed(path_), HasSubstr("step 4"));
}

TEST_F(State, DamagedAnywhereIsNamedAndTheOlderOneIsUsed) {
  const std::string whole = ReadBytes(DataFile(4));
  for (std::size_t at = 0; at < whole.size(); at += 101) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    WriteBytes(DataFile(4), changed);
    EXPECT_THAT(Resumed(path_), AllOf(HasSubstr("step 2; " + DataFile(4) + " is damaged"),
                                      HasSubstr("resumed from " + Step(2))));
  }
}

TEST_F(State, MissingFileIsNamed) {
  fs::remove(DataFile(4));
  EXPECT_THAT(Resumed(path_), AllOf(HasSubstr("step 2; "), HasSubstr(DataFile(4))));
  fs::remove(Step(2) + "/manifest.json");
  EXPECT_THAT(Resumed(path_), AllOf(HasSubstr(path_ + " holds no checkpoint that can be used"),
                                    HasSubstr(DataFile(4)), HasSubstr(Step(2) + "/manifest.json")));
}

// Another run is no reason to take an older checkpoint.
TEST_F(State, OfAnotherRunIsRefusedByTheFirstFieldThatDiffers) {
  TrainConfig c = TinyRun();
  c.model.layers = 2;
  EXPECT_THAT(Resumed(path_, c), AllOf(HasSubstr("cannot resume from " + Step(4)),
                                       HasSubstr("model.layers is 1 in the checkpoint and 2 in this run")));
  c = TinyRun();
  c.workload.precision = *ParsePrecision("fp64");
  EXPECT_THAT(Resumed(path_, c),
              HasSubstr("workload.precision is fp32 in the checkpoint and fp64 in this run"));
  c = TinyRun();
  c.workload.global_batch = 4;
  EXPECT_THAT(Resumed(path_, c), HasSubstr("workload.global_batch is 2 in the checkpoint and 4"));
  c = TinyRun();
  c.lr.steps = 12;
  EXPECT_THAT(Resumed(path_, c), HasSubstr("steps is 10 in the checkpoint and 12"));
  c = TinyRun();
  c.seed = 18;
  EXPECT_THAT(Resumed(path_, c), HasSubstr("seed is 17 in the checkpoint and 18"));
  c = TinyRun();
  c.data_path = home_.File("tokens");
  WriteBytes(c.data_path, std::string(40, '\1'));
  EXPECT_THAT(Resumed(path_, c),
              HasSubstr("data is the pattern of the seed in the checkpoint and 40 tokens of"));
}

TEST_F(State, DataMayMoveButNotChange) {
  TrainConfig c = TinyRun();
  c.data_path = home_.File("one");
  WriteBytes(c.data_path, std::string(40, '\1'));
  c.checkpoint_path = home_.File("of-data");
  RunUntil(c, 3);
  fs::rename(c.data_path, home_.File("two"));
  TrainConfig later = TinyRun();
  later.data_path = home_.File("two");
  EXPECT_THAT(Resumed(c.checkpoint_path, later), HasSubstr("step 3"));
  WriteBytes(later.data_path, std::string(39, '\1') + '\2');
  EXPECT_THAT(Resumed(c.checkpoint_path, later), HasSubstr("data is 40 tokens of 1 bytes, "));
}

TEST_F(State, OfAFinishedRunIsRefused) {
  TrainConfig c = TinyRun();
  c.lr.decay = LrDecay::kConstant;
  c.checkpoint_path = home_.File("constant");
  c.lr.steps = 3;
  RunUntil(c, 3);
  const std::string path = c.checkpoint_path;
  c.checkpoint_path.clear();
  EXPECT_THAT(Resumed(path, c), HasSubstr("3 steps are done, and the run has 3; give more --steps"));
  c.lr.steps = 4;
  EXPECT_THAT(Resumed(path, c), HasSubstr("step 3"));
}

TEST_F(State, OfAllStepsThatIsDamagedGivesWayToTheOlderOne) {
  TrainConfig c = TinyRun();
  c.lr.decay = LrDecay::kConstant;
  c.lr.steps = 4;
  c.checkpoint_path = home_.File("finished");
  RunUntil(c, 2);
  c.resume_path = c.checkpoint_path;
  RunUntil(c, 4);
  const std::string path = std::exchange(c.checkpoint_path, "");
  const std::string file = path + "/step-4/rank-0.safetensors";
  std::string bytes = ReadBytes(file);
  bytes.back() ^= 1;
  WriteBytes(file, bytes);
  EXPECT_THAT(Resumed(path, c),
              AllOf(HasSubstr("step 2"), HasSubstr("step-4/rank-0.safetensors is damaged")));
}

// What the launcher gets of a run that saves and of one that resumes.
class SavingRun : public State {
 protected:
  static v1::TrainResult Run(const TrainConfig& c, std::vector<v1::Progress>* reports = nullptr) {
    auto rendezvous = CreateLocalRendezvous(1);
    Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
    return Train(c, 0, 1, backend, [&](const v1::Progress& progress) {
      if (reports != nullptr) reports->push_back(progress);
    });
  }
};

TEST_F(SavingRun, SavesEverySoManyStepsAndAtTheEnd) {
  TrainConfig c = TinyRun();
  c.checkpoint_path = home_.File("every");
  c.save_every = 4;
  const v1::TrainResult whole = Run(c);
  EXPECT_EQ(whole.checkpoint_path(), c.checkpoint_path + "/step-10");
  EXPECT_EQ(whole.first_step(), 0);
  const auto found = FindCheckpoints(c.checkpoint_path);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].step, 8);

  TrainConfig resumed = TinyRun();
  resumed.resume_path = found[1].path;
  std::vector<v1::Progress> reports;
  const v1::TrainResult end = Run(resumed, &reports);
  EXPECT_EQ(end.first_step(), 8);
  ASSERT_EQ(end.losses_size(), 2);
  EXPECT_EQ(end.losses(0), whole.losses(8));
  EXPECT_EQ(end.losses(1), whole.losses(9));
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].step(), 9);
  ASSERT_EQ(reports[0].notes_size(), 1);
  EXPECT_THAT(reports[0].notes(0), HasSubstr("every/step-8: 8 of 10 steps are done"));
  EXPECT_EQ(reports[1].notes_size(), 0);
}

TEST_F(SavingRun, SavesOnceAtTheEndByDefault) {
  TrainConfig c = TinyRun();
  c.checkpoint_path = home_.File("end");
  Run(c);
  EXPECT_EQ(FindCheckpoints(c.checkpoint_path).size(), 1u);
}

TEST_F(SavingRun, UntimedStepsCountFromTheResumedOne) {
  TrainConfig c = TinyRun();
  c.resume_path = path_;
  c.untimed_steps = 2;
  EXPECT_EQ(Run(c).step_time_s_size(), 4);
}

// A run that diverges keeps the checkpoint from before.
TEST_F(SavingRun, DoesNotSaveADivergedRun) {
  TrainConfig c = TinyRun();
  c.lr = {.lr = 1e9, .min_lr = 0, .decay = LrDecay::kConstant, .warmup_steps = 0, .steps = 10};
  c.clip_norm = 0;
  c.checkpoint_path = home_.File("diverged");
  c.save_every = 1;
  const v1::TrainResult result = Run(c);
  int first = 0;
  while (first < result.losses_size() && std::isfinite(result.losses(first)) &&
         std::isfinite(result.grad_norms(first)))
    ++first;
  ASSERT_LT(first, 10) << "it did not diverge";
  ASSERT_GT(first, 0);
  EXPECT_EQ(FindCheckpoints(c.checkpoint_path).front().step, first);
  EXPECT_EQ(result.checkpoint_path(), c.checkpoint_path + "/step-" + std::to_string(first));
}

std::string ConfigRefusal(const std::function<void(TrainConfig&)>& change) {
  TrainConfig c = TinyRun();
  change(c);
  try {
    CheckTrainConfig(c, 1);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(CheckpointOptions, ThatContradictEachOtherAreRefused) {
  EXPECT_THAT(ConfigRefusal([](auto&) {}), IsEmpty());
  EXPECT_THAT(ConfigRefusal([](auto& c) { c.resume_path = c.init_path = "x"; }), HasSubstr("--init"));
  EXPECT_THAT(ConfigRefusal([](auto& c) { c.save_every = 2; }), HasSubstr("--checkpoint"));
  EXPECT_THAT(ConfigRefusal([](auto& c) { c.save_every = -1; }), HasSubstr("save_every"));
  EXPECT_THAT(ConfigRefusal([](auto& c) { c.slice.emplace(), c.resume_path = "x"; }), HasSubstr("--slice"));
  EXPECT_THAT(ConfigRefusal([](auto& c) { c.slice.emplace(), c.checkpoint_path = "x"; }),
              HasSubstr("--slice"));
}

TEST(CheckpointOptions, AreRefusedOnADeviceThatComputesNothing) {
  TrainConfig c = TinyRun();
  c.resume_path = "x";
  Backend backend = CreateDryBackend(0, 1);
  try {
    const RankTrainer trainer(c, 0, 1, backend);
    ADD_FAILURE() << "not refused";
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("computes no weights; leave out --checkpoint and --resume"));
  }
}

}  // namespace
}  // namespace autocfg::trainer
