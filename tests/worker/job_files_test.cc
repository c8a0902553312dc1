#include "worker/jobs/job_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "google/protobuf/descriptor.h"
#include "tests/cli/program.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using testing::HasSubstr;

// Calls `take` with each string or bytes field of a message and of the messages in it.
void ForEachText(const Descriptor& message, std::set<std::string>& seen,
                 const std::function<void(const FieldDescriptor&)>& take) {
  if (!seen.insert(message.full_name()).second) return;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) take(field);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) ForEachText(*field.message_type(), seen, take);
  }
}

// A new text of a job needs a row in worker/jobs/job_files.cc: is it a path, and what do ranks do with it?
TEST(JobFiles, EveryTextOfAJobHasAUse) {
  std::set<std::string> seen;
  std::set<std::string> paths;
  int texts = 0;
  const auto check = [&](const FieldDescriptor& field) {
    ++texts;
    const auto use = TextUseOf(field.full_name());
    ASSERT_TRUE(use) << field.full_name() << " has no row in kFieldUses of worker/jobs/job_files.cc";
    if (*use != TextUse::kNotAPath) paths.insert(field.name());
    EXPECT_EQ(*use != TextUse::kNotAPath, field.name().ends_with("_path"))
        << field.full_name() << ": a path is named so";
  };
  ForEachText(*v1::Job::descriptor(), seen, check);
  ForEachText(*v1::RunSpec::descriptor(), seen, [&](const FieldDescriptor& field) {
    if (field.full_name() != "autocfg.v1.RunSpec.device") check(field);  // Job.device
  });
  EXPECT_GT(texts, 15);
  EXPECT_EQ(paths,
            (std::set<std::string>{"checkpoint_path", "data_path", "init_path", "resume_path", "save_path"}));
}

std::string Said(const absl::Status& status) { return std::string(status.message()); }

class JobFilesTest : public testing::Test {
 protected:
  JobFilesTest() {
    for (const char* name : {"data/deep", "saved", "elsewhere"}) fs::create_directories(home_ / name);
    home_.Write("data/tokens.u16", "xx");
    home_.Write("elsewhere/secret", "xx");
  }

  absl::Status Reads(const std::string& path) const {
    v1::Job job;
    job.mutable_train()->set_data_path(path);
    return CheckJobFiles(job, rules_);
  }
  absl::Status Writes(const std::string& path) const {
    v1::Job job;
    job.mutable_train()->set_save_path(path);
    return CheckJobFiles(job, rules_);
  }

  const ScratchDirectory home_;
  JobFileRules rules_{{home_ / "data"}, {home_ / "saved"}};
};

TEST_F(JobFilesTest, FilesWithinTheDirectoriesAreAllowed) {
  EXPECT_TRUE(Reads(home_ / "data/tokens.u16").ok());
  EXPECT_TRUE(Reads(home_ / "data/not_there_yet").ok());
  EXPECT_TRUE(Reads(home_ / "data/deep/../tokens.u16").ok());
  EXPECT_TRUE(Reads(home_ / "elsewhere/../data/./tokens.u16").ok());
  EXPECT_TRUE(Writes(home_ / "saved/new.safetensors").ok());
  v1::Job both;
  both.mutable_train()->set_init_path(home_ / "data/tokens.u16");
  both.mutable_train()->set_save_path(home_ / "saved/new.safetensors");
  EXPECT_TRUE(CheckJobFiles(both, rules_).ok());
  rules_.data_dirs = {home_ / "missing", home_ / "elsewhere/..//data/"};
  EXPECT_TRUE(Reads(home_ / "data/tokens.u16").ok());
}

TEST_F(JobFilesTest, FilesElsewhereAreRefused) {
  const std::string outside =
      " is outside the directories that this worker allows; start it with --data-dir DIR";
  for (const std::string& path : {home_ / "elsewhere/secret", home_ / "data/../elsewhere/secret",
                                  home_ / "data/deep/../../elsewhere/secret", home_ / "saved/x",
                                  home_ / "data", home_ / "database", std::string("/etc/passwd")}) {
    const absl::Status status = Reads(path);
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << path;
    EXPECT_THAT(Said(status), testing::StartsWith("data_path '"));
    EXPECT_THAT(Said(status), testing::EndsWith(outside));
  }
  EXPECT_THAT(Said(Writes(home_ / "data/tokens.u16")), HasSubstr("--save-dir DIR"));
  v1::Job job;
  job.mutable_train()->set_init_path("/etc/passwd");
  EXPECT_THAT(Said(CheckJobFiles(job, rules_)), HasSubstr("init_path '/etc/passwd'"));
}

TEST_F(JobFilesTest, LinksCountAsWhatTheyLeadTo) {
  fs::create_symlink(home_ / "elsewhere/secret", home_ / "data/link");
  fs::create_directory_symlink(home_ / "elsewhere", home_ / "data/directory");
  fs::create_symlink(home_ / "elsewhere/new", home_ / "saved/dangling");
  fs::create_symlink("../elsewhere/new", home_ / "saved/relative");
  fs::create_symlink("loop", home_ / "data/loop");
  fs::create_symlink("deep/../tokens.u16", home_ / "data/inside");
  EXPECT_FALSE(Reads(home_ / "data/link").ok());
  EXPECT_FALSE(Reads(home_ / "data/directory/secret").ok());
  EXPECT_FALSE(Reads(home_ / "data/directory/not_there").ok());
  EXPECT_FALSE(Writes(home_ / "saved/dangling").ok());
  EXPECT_FALSE(Writes(home_ / "saved/relative").ok());
  EXPECT_FALSE(Reads(home_ / "data/loop").ok());
  EXPECT_TRUE(Reads(home_ / "data/inside").ok());
  // A directory that is allowed may itself be a link.
  fs::create_directory_symlink(home_ / "data", home_ / "elsewhere/also_data");
  rules_.data_dirs = {home_ / "elsewhere/also_data"};
  EXPECT_TRUE(Reads(home_ / "data/tokens.u16").ok());
  EXPECT_FALSE(Reads(home_ / "elsewhere/secret").ok());
}

TEST_F(JobFilesTest, PathsThatCannotBeResolvedAreRefused) {
  for (const std::string& path :
       {home_ / "data/missing/tokens.u16", home_ / "data/tokens.u16/x", home_ / "data/missing/../tokens.u16",
        home_ / "data/" + std::string(5000, 'x'), std::string(home_ / "data/tokens.u16") + '\0' + "x"}) {
    const absl::Status status = Reads(path);
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << path;
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
}

TEST_F(JobFilesTest, NothingIsAllowedByDefault) {
  rules_ = {};
  v1::Job job;
  EXPECT_TRUE(CheckJobFiles(job, rules_).ok());
  job.mutable_train();
  EXPECT_TRUE(CheckJobFiles(job, rules_).ok());
  EXPECT_EQ(Reads(home_ / "data/tokens.u16").message(),
            "data_path '" + (home_ / "data/tokens.u16") +
                "' names a file, and this worker allows none; start it with --data-dir DIR");
  EXPECT_THAT(Said(Writes(home_ / "saved/x")), HasSubstr("--save-dir DIR"));
}

}  // namespace
}  // namespace autocfg::worker
