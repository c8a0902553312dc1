// Tests of a directory of checkpoints: what is found, kept, removed and left alone, also after crashes.
#include "trainer/checkpoint/checkpoint_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Directory : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    std::ofstream(path, std::ios::binary) << text;
  }

  static Manifest ManifestOf(std::int64_t step) {
    return {.step = step, .sequences = 0, .run = {}, .plan = "", .files = {{0, 4, 0}, {1, 2, 0}}};
  }

  void WriteFiles(std::int64_t step) const {
    Write(PartialPath(path_, step) + "/" + RankFileName(0), "four");
    Write(PartialPath(path_, step) + "/" + RankFileName(1), "22");
  }

  void Save(CheckpointDirectory& directory, std::int64_t step) const {
    directory.Begin(step);
    WriteFiles(step);
    EXPECT_EQ(directory.Commit(ManifestOf(step)), Step(step));
  }

  // Without the lock file.
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) names.insert(entry.path().filename().string());
    EXPECT_EQ(names.erase(".lock"), 1u);
    return names;
  }

  std::string Step(std::int64_t step) const { return path_ + "/step-" + std::to_string(step); }

  template <typename Call>
  static std::string Refusal(Call call) {
    try {
      call();
    } catch (const BadInput& e) {
      return e.what();
    }
    return "no error";
  }

  using StepList = std::vector<std::int64_t>;
  StepList Found() const {
    StepList steps;
    for (const CheckpointPlace& place : FindCheckpoints(path_)) steps.push_back(place.step);
    return steps;
  }

  const TempDir home_;
  const std::string path_ = home_.File("ckpt");
};

TEST_F(Directory, KeepsTheLastTwo) {
  CheckpointDirectory directory(path_, false);
  EXPECT_TRUE(fs::is_directory(path_));
  for (const std::int64_t step : {5, 10, 15}) Save(directory, step);
  EXPECT_EQ(Names(), (std::set<std::string>{"step-10", "step-15"}));
  EXPECT_EQ(Found(), (StepList{15, 10})) << "by number, not by text";
  EXPECT_EQ(OpenCheckpoint(Step(10)).files.size(), 2u);
}

// After each of the operations of a save, as a crash would leave them.
TEST_F(Directory, InterruptedSaveLeavesTheOlderOne) {
  auto directory = std::make_unique<CheckpointDirectory>(path_, false);
  Save(*directory, 3);
  directory->Begin(6);
  const std::vector<std::function<void()>> operations = {
      [&] {}, [&] { Write(PartialPath(path_, 6) + "/rank-1.safetensors", "2"); }, [&] { WriteFiles(6); },
      [&] { Write(PartialPath(path_, 6) + "/manifest.json.0a1b2c3d.tmp", "{"); },
      [&] { Write(PartialPath(path_, 6) + "/manifest.json", ManifestText(ManifestOf(6))); }};
  for (const auto& operation : operations) {
    operation();
    EXPECT_EQ(Found(), (StepList{3}));
    EXPECT_EQ(OpenCheckpoint(Step(3)).step, 3);
  }
  // The crash ends the process. The next run clears up.
  directory.reset();
  directory = std::make_unique<CheckpointDirectory>(path_, true);
  fs::create_directory(Step(1) + ".removed");
  directory->Begin(9);
  EXPECT_EQ(Names(), (std::set<std::string>{"step-3", "step-9.partial"}));
}

TEST_F(Directory, ReplacesABrokenOneOfTheSameStep) {
  CheckpointDirectory directory(path_, false);
  Save(directory, 3);
  Save(directory, 6);
  Write(Step(6) + "/rank-0.safetensors", "fo");
  EXPECT_THAT(
      Refusal([&] { OpenCheckpoint(Step(6)); }),
      AllOf(HasSubstr("step-6/rank-0.safetensors is cut off"), HasSubstr("2 bytes"), HasSubstr("says 4")));
  Save(directory, 6);
  EXPECT_EQ(OpenCheckpoint(Step(6)).step, 6);
  EXPECT_EQ(Names(), (std::set<std::string>{"step-3", "step-6"}));
}

// A broken one does not count among those that are kept.
TEST_F(Directory, KeepsTwoThatCanBeUsed) {
  CheckpointDirectory directory(path_, false);
  Save(directory, 3);
  Save(directory, 6);
  fs::remove(Step(6) + "/rank-1.safetensors");
  Save(directory, 9);
  EXPECT_EQ(Found(), (StepList{9, 3}));
}

TEST_F(Directory, LeavesAloneWhatIsNotACheckpoint) {
  CheckpointDirectory directory(path_, false);
  for (const char* name : {"/step-1", "/notes", "/step-x", "/step-2.txt"}) fs::create_directory(path_ + name);
  for (const std::int64_t step : {5, 10, 15}) Save(directory, step);
  EXPECT_EQ(Names(),
            (std::set<std::string>{"notes", "step-1", "step-10", "step-15", "step-2.txt", "step-x"}));
}

// A checkpoint of that step would replace it.
TEST_F(Directory, RefusesWhatHasTheNameOfACheckpointAndIsNone) {
  {
    CheckpointDirectory directory(path_, false);
    Save(directory, 3);
  }
  fs::create_directory(Step(6));
  Write(Step(6) + "/rank-0.safetensors", "four");
  { const CheckpointDirectory broken(path_, true); }
  Write(Step(6) + "/notes.txt", "mine");
  const auto refusal = [&](bool resumes) {
    return Refusal([&] { const CheckpointDirectory directory(path_, resumes); });
  };
  EXPECT_THAT(refusal(true), AllOf(HasSubstr("step-6 is no checkpoint"), HasSubstr("move it away")));
  EXPECT_THAT(refusal(false), HasSubstr("step-6 is no checkpoint"));
  fs::remove_all(Step(6));
  Write(Step(6), "a file");
  EXPECT_THAT(refusal(true), HasSubstr("step-6 is no checkpoint"));
  fs::remove(Step(6));
  fs::create_directory_symlink(Step(3), Step(6));
  EXPECT_EQ(refusal(true), "no error");
}

TEST_F(Directory, CutOffOrMissingIsRefusedByName) {
  CheckpointDirectory directory(path_, false);
  Save(directory, 6);
  const std::string manifest = ManifestText(ManifestOf(6));
  for (std::size_t length = manifest.size(); length-- > 0;) {
    fs::resize_file(Step(6) + "/manifest.json", length);
    EXPECT_THAT(Refusal([&] { OpenCheckpoint(Step(6)); }), HasSubstr("step-6/manifest.json is cut off"));
  }
  fs::remove(Step(6) + "/manifest.json");
  EXPECT_THAT(Refusal([&] { OpenCheckpoint(Step(6)); }),
              AllOf(HasSubstr("step-6/manifest.json"), HasSubstr("No such file")));
  Write(Step(6) + "/manifest.json", ManifestText(ManifestOf(3)));
  EXPECT_THAT(Refusal([&] { OpenCheckpoint(Step(6)); }), HasSubstr("is of step 3"));
  Write(Step(6) + "/manifest.json", manifest);
  EXPECT_EQ(OpenCheckpoint(Step(6)).step, 6);
  for (const std::int64_t rank : {0, 1}) {
    const std::string file = Step(6) + "/" + RankFileName(rank);
    fs::rename(file, file + ".away");
    EXPECT_THAT(Refusal([&] { OpenCheckpoint(Step(6)); }), HasSubstr(file));
    fs::rename(file + ".away", file);
  }
}

TEST_F(Directory, IsOneRunsAlone) {
  auto directory = std::make_unique<CheckpointDirectory>(path_, false);
  EXPECT_THAT(Refusal([&] { CheckpointDirectory(path_, true); }),
              HasSubstr("another run writes checkpoints to " + path_));
  Save(*directory, 2);
  directory.reset();
  EXPECT_THAT(Refusal([&] { CheckpointDirectory(path_, false); }),
              AllOf(HasSubstr(path_ + " holds checkpoints"), HasSubstr("--resume " + path_)));
  EXPECT_EQ(Refusal([&] { CheckpointDirectory(path_, true); }), "no error");
}

TEST_F(Directory, NamesWhatCannotBeUsed) {
  EXPECT_THAT(Refusal([&] { FindCheckpoints(path_); }), HasSubstr(path_ + ": it is not a directory"));
  fs::create_directory(path_);
  EXPECT_THAT(Refusal([&] { FindCheckpoints(path_); }), HasSubstr(path_ + " holds no checkpoint"));
  EXPECT_THAT(Refusal([&] { CheckpointDirectory(path_ + "/a/b", false); }), HasSubstr(path_ + "/a/b"));
  Write(home_.File("file"), "");
  EXPECT_THAT(Refusal([&] { CheckpointDirectory(home_.File("file"), false); }),
              HasSubstr(home_.File("file")));
}

TEST_F(Directory, TakesOneCheckpointByItsName) {
  CheckpointDirectory directory(path_, false);
  Save(directory, 3);
  Save(directory, 6);
  for (const std::string& path : {Step(3), Step(3) + "/"}) {
    const auto found = FindCheckpoints(path);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].step, 3);
  }
  fs::rename(Step(3), path_ + "/best");
  const auto renamed = FindCheckpoints(path_ + "/best");
  ASSERT_EQ(renamed.size(), 1u);
  EXPECT_EQ(OpenCheckpoint(renamed[0].path).step, 3);
  fs::remove(Step(6) + "/manifest.json");
  ASSERT_EQ(FindCheckpoints(Step(6)).size(), 1u);
  EXPECT_THAT(Refusal([&] { OpenCheckpoint(FindCheckpoints(Step(6))[0].path); }), HasSubstr("manifest.json"));
  // A directory of checkpoints may have such a name too.
  fs::rename(path_, home_.File("step-100"));
  EXPECT_EQ(FindCheckpoints(home_.File("step-100")).at(0).step, 6);
  fs::rename(home_.File("step-100"), path_);
  EXPECT_TRUE(IsOfDirectory(Step(3), path_));
  EXPECT_TRUE(IsOfDirectory(path_ + "/.", path_));
  EXPECT_FALSE(IsOfDirectory(home_.path(), path_));
}

}  // namespace
}  // namespace autocfg::trainer
