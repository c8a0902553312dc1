// Checkpoints of `autocfg train`, as a user sees them: stopped or killed, and resumed under another plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/cli/one_clear_line.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTiny =
    R"({"name": "tiny", "layers": 4, "hidden": 32, "heads": 4, "vocab": 64, "max_seq_len": 16})";

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() : model_(home_.Write("model.json", kTiny)) {}

  std::vector<std::string> Train(const std::string& plan, const std::string& steps,
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"train", "--model",        model_, "--plan",  plan, "--precision",
                                     "fp64",  "--global-batch", "8",    "--steps", steps};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  Json Answer(const std::vector<std::string>& args, std::string* notes = nullptr) const {
    std::vector<std::string> words = args;
    words.emplace_back("--json");
    const Finished finished = RunAutocfg(home_, words);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    if (notes != nullptr) *notes = finished.err;
    return finished.exit_code == 0 ? Json::parse(finished.out) : Json();
  }

  const ScratchDirectory home_;
  const std::string model_;
  const std::string ckpt_ = home_ / "ckpt";
};

TEST_F(ResumeTest, ContinuesUnderAnotherPlan) {
  const Json whole = Answer(Train("tp=1", "6"));
  const Json first = Answer(Train("tp=2,pp=2,sp=1", "3", {"--checkpoint", ckpt_}));
  EXPECT_EQ(whole["first_step"], 0);
  EXPECT_EQ(whole["checkpoint"], nullptr);
  EXPECT_EQ(first["checkpoint"], ckpt_ + "/step-3");
  std::string notes;
  const Json second = Answer(
      Train("dp=2,mbs=2", "6", {"--resume", ckpt_, "--checkpoint", ckpt_, "--save-every", "1"}), &notes);
  EXPECT_EQ(second["first_step"], 3);
  ASSERT_EQ(second["losses"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(first["losses"][i].get<double>(), whole["losses"][i].get<double>(), 1e-9);
    EXPECT_NEAR(second["losses"][i].get<double>(), whole["losses"][i + 3].get<double>(), 1e-9);
    EXPECT_NEAR(second["grad_norms"][i].get<double>(), whole["grad_norms"][i + 3].get<double>(), 1e-9);
  }
  EXPECT_THAT(notes, HasSubstr("note: resumed from " + ckpt_ + "/step-3: 3 of 6 steps are done"));
  EXPECT_TRUE(std::filesystem::exists(ckpt_ + "/step-5"));
  EXPECT_FALSE(std::filesystem::exists(ckpt_ + "/step-4")) << "the last two are kept";

  const Finished table = RunAutocfg(home_, Train("tp=2", "7", {"--resume", ckpt_, "--checkpoint", ckpt_}));
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("\n       7  "), HasSubstr("checkpoint: " + ckpt_ + "/step-7\n")));
}

// kill -9 at any moment, also between the files of a checkpoint, leaves one that a run continues from.
TEST_F(ResumeTest, ContinuesAfterAKillAtAnyMoment) {
  const Json whole = Answer(Train("tp=1", "400"));
  std::int64_t last = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::string> args =
        Train(round % 2 == 0 ? "tp=2" : "pp=2", "1000000", {"--checkpoint", ckpt_, "--save-every", "1"});
    if (round > 0) args.insert(args.end(), {"--resume", ckpt_});
    ProgramProcess run(home_, args);
    // Until it has saved, then some milliseconds, each time another number.
    const auto newest = [&] {
      std::int64_t step = 0;
      for (const auto& entry : std::filesystem::directory_iterator(ckpt_)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("step-") && name.find('.') == std::string::npos)
          step = std::max<std::int64_t>(step, std::stoll(name.substr(5)));
      }
      return step;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (run.running() && std::chrono::steady_clock::now() < limit &&
           !(std::filesystem::exists(ckpt_) && newest() >= last + 2))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(run.running()) << run.err_so_far();
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
    const std::vector<pid_t> processes = Descendants(run.pid());
    for (const pid_t rank : RanksOf(run.pid())) kill(rank, SIGKILL);
    run.Signal(SIGKILL);
    ASSERT_TRUE(AllEnd(processes, std::chrono::seconds(20)));
    last = newest();
    ASSERT_LT(last, 400);

    std::string notes;
    const Json next = Answer(Train("dp=2", std::to_string(last + 1), {"--resume", ckpt_}), &notes);
    ASSERT_EQ(next["first_step"], last) << notes;
    EXPECT_NEAR(next["losses"][0].get<double>(),
                whole["losses"][static_cast<std::size_t>(last)].get<double>(), 1e-9);
    EXPECT_THAT(notes, Not(HasSubstr("older checkpoint"))) << "what has its name is complete";
  }
}

TEST_F(ResumeTest, SaysWhichCheckpointItTookAndWhy) {
  Answer(Train("tp=2", "4", {"--checkpoint", ckpt_, "--save-every", "2"}));
  const std::string file = ckpt_ + "/step-4/rank-1.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  std::string notes;
  EXPECT_EQ(Answer(Train("tp=1", "5", {"--resume", ckpt_}), &notes)["first_step"], 2);
  EXPECT_THAT(notes,
              AllOf(HasSubstr("note: " + file + " is cut off"), HasSubstr("an older checkpoint is used"),
                    HasSubstr("resumed from " + ckpt_ + "/step-2")));
  EXPECT_EQ(Answer(Train("tp=1", "3", {"--resume", ckpt_}))["first_step"], 2) << "the older one has 2 steps";
  ExpectOneClearLine(Train("tp=1", "5", {"--resume", ckpt_ + "/step-4"}), 2,
                     {file + " is cut off", "give --resume another directory"});
}

TEST_F(ResumeTest, TakesModelAndPlanFromTheCheckpoint) {
  Answer(Train("tp=2,pp=2,sp=1", "2", {"--checkpoint", ckpt_}));
  const Json whole = Answer(Train("tp=2,pp=2,sp=1", "4"));
  std::string notes;
  const Json same = Answer({"train", "--resume", ckpt_, "--steps", "4"}, &notes);
  EXPECT_THAT(notes, HasSubstr("model and plan of the checkpoint: tp=2,pp=2,dp=1,mbs=1,sp=1"));
  EXPECT_EQ(same["plan"], whole["plan"]);
  EXPECT_EQ(same["workload"], whole["workload"]);
  EXPECT_EQ(same["first_step"], 2);
  ASSERT_EQ(same["losses"].size(), 2u);
  EXPECT_NEAR(same["losses"][1].get<double>(), whole["losses"][3].get<double>(), 1e-9);
  const Json other =
      Answer({"train", "--resume", ckpt_ + "/step-2", "--plan", "dp=2,mbs=2", "--steps", "4"}, &notes);
  EXPECT_EQ(other["plan"], "tp=1,pp=1,dp=2,mbs=2");
  EXPECT_THAT(notes, HasSubstr("model of the checkpoint, which was trained as tp=2,pp=2,dp=1,mbs=1,sp=1; the "
                               "plan is --plan"));
  EXPECT_NEAR(other["losses"][1].get<double>(), whole["losses"][3].get<double>(), 1e-9);
  // A model that is given is that of the run, as ever.
  const auto larger = home_.Write(
      "larger.json", R"({"layers": 8, "hidden": 32, "heads": 4, "vocab": 64, "max_seq_len": 16})");
  ExpectOneClearLine({"train", "--resume", ckpt_, "--model", larger, "--steps", "4"}, 2,
                     {"--resume: " + ckpt_ + "/step-2 is of another run",
                      "model.layers is 4 in the checkpoint and 8 in this run", "give the same --model"});
  ExpectOneClearLine({"train", "--resume", home_.path(), "--steps", "4"}, 2,
                     {"--resume: " + home_.path() + " holds no checkpoint"});
  home_.Write("manifest.json", R"({"plan": "tp=2", "run": {"model.layers": "many"}})");
  ExpectOneClearLine({"train", "--resume", home_.path(), "--steps", "4"}, 2,
                     {"manifest.json", "cannot read model.layers 'many'", "give --model and --plan too"});
}

TEST_F(ResumeTest, TakesKindsOfLayersFromTheCheckpoint) {
  const auto model = home_.Write("kinds.json", R"({"layers": 13, "hidden": 32, "heads": 4, "vocab": 64,
      "max_seq_len": 16, "position": "rope",
      "layer_kinds": [{"layers": 1, "window": 4, "rope_theta": 50}, {"layers": 1}, {"layers": 1, "chunk": 8},
                      {"layers": 1, "rotary": false}, {"layers": 1}, {"layers": 1, "window": 2}, {"layers": 1},
                      {"layers": 1, "window": 3}, {"layers": 1}, {"layers": 1, "window": 4}, {"layers": 1},
                      {"layers": 2, "window": 6}]})");
  Answer({"train", "--model", model, "--plan", "tp=2", "--global-batch", "4", "--seq-len", "16", "--steps",
          "2", "--checkpoint", ckpt_});
  const Json whole = Answer({"train", "--model", model, "--plan", "tp=2", "--global-batch", "4", "--seq-len",
                             "16", "--steps", "3"});
  const Json same = Answer({"train", "--resume", ckpt_, "--steps", "3"});
  EXPECT_EQ(same["first_step"], 2);
  EXPECT_NEAR(same["losses"][0].get<double>(), whole["losses"][2].get<double>(), 1e-6);
}

TEST_F(ResumeTest, RefusesAnotherRunInOneLine) {
  Answer(Train("tp=1", "2", {"--checkpoint", ckpt_}));
  ExpectOneClearLine(Train("tp=2,pp=2", "4", {"--resume", ckpt_, "--lr", "1e-2"}), 2,
                     {"optimizer.lr is 0.0003 in the checkpoint and 0.01 in this run; give --lr 0.0003"});
  ExpectOneClearLine({"train", "--resume", ckpt_, "--steps", "4", "--global-batch", "16"}, 2,
                     {"--resume: " + ckpt_ + "/step-2", "workload.global_batch is ",
                      " and 16 in this run; give --global-batch "});
  ExpectOneClearLine(Train("tp=1", "4", {"--resume", ckpt_, "--seed", "9"}), 2,
                     {"seed is ", " and 9 in this run; give --seed "});
  ExpectOneClearLine(
      Train("tp=1", "2", {"--resume", ckpt_}), 2,
      {"--steps: " + ckpt_ + "/step-2: 2 steps are done, and the run has 2; give more --steps"});
  ExpectOneClearLine(Train("tp=1", "1", {"--resume", ckpt_ + "/step-2"}), 2,
                     {"--steps: ", "2 steps are done"});
  ExpectOneClearLine(Train("tp=1", "2", {"--checkpoint", ckpt_}), 2,
                     {ckpt_ + " holds checkpoints", "--resume " + ckpt_});
}

// Only the ranks read what is in a checkpoint.
TEST_F(ResumeTest, RedoesStepsWhoseCheckpointIsDamaged) {
  Answer(Train("tp=1", "4", {"--checkpoint", ckpt_, "--save-every", "2"}));
  const std::string file = ckpt_ + "/step-4/rank-0.safetensors";
  std::string bytes = ReadWhole(file);
  bytes.back() ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_EQ(Answer(Train("tp=1", "4", {"--resume", ckpt_}))["first_step"], 2);
}

TEST_F(ResumeTest, FailedRunSaysWhereItContinues) {
  ProgramProcess run(home_, Train("dp=2", "1000000", {"--checkpoint", ckpt_, "--save-every", "1"}));
  while (run.running() && !std::filesystem::exists(ckpt_ + "/step-2"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::vector<pid_t> ranks = RanksOf(run.pid());
  ASSERT_EQ(ranks.size(), 2u) << run.err_so_far();
  kill(ranks.back(), SIGKILL);
  const Finished finished = run.Wait();
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("the run failed: rank "), HasSubstr("killed by signal 9"),
                                  HasSubstr("; continue with --resume " + ckpt_)));
}

TEST_F(ResumeTest, CheckpointThatCannotBeWrittenFailsTheRun) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{.rlim_cur = 20'000, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  ProgramProcess run(home_, Train("tp=1", "2", {"--checkpoint", ckpt_}));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Finished finished = run.Wait();
  EXPECT_EQ(finished.exit_code, 1) << "bad input is 2";
  EXPECT_THAT(finished.err, AllOf(HasSubstr("the run failed: rank 0: cannot write " + ckpt_ + "/step-2"),
                                  HasSubstr("File too large")));
}

// As Slurm and systemd signal a job. The run ends after its step, with a checkpoint.
TEST_F(ResumeTest, SignalToAllProcessesSavesToo) {
  ProgramProcess run(home_, Train("dp=2", "1000000", {"--checkpoint", ckpt_, "--save-every", "2"}));
  while (run.running() && !std::filesystem::exists(ckpt_ + "/step-2"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (const pid_t process : Descendants(run.pid())) kill(process, SIGTERM);
  run.Signal(SIGTERM);
  const Finished finished = run.Wait();
  EXPECT_EQ(finished.exit_code, 130) << finished.err;
  EXPECT_THAT(finished.err, AllOf(HasSubstr("interrupted after step "), HasSubstr("; saved " + ckpt_),
                                  Not(HasSubstr("failed"))));
}

TEST_F(ResumeTest, InterruptedRunSaysWhereItContinues) {
  ProgramProcess run(home_, Train("tp=1", "1000000", {"--checkpoint", ckpt_, "--save-every", "1"}));
  while (run.running() && !std::filesystem::exists(ckpt_ + "/step-2"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  run.Signal(SIGINT);
  const Finished finished = run.Wait();
  EXPECT_EQ(finished.exit_code, 130);
  EXPECT_THAT(finished.err,
              AllOf(HasSubstr("interrupted after step "), HasSubstr("; saved " + ckpt_ + "/step-"),
                    HasSubstr("continue with --resume " + ckpt_)));
}

}  // namespace
}  // namespace autocfg::cli
