#include "cli/files.h"

#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace autocfg {
namespace {

TEST(Files, WritesWholeFilesInPlaceOfOldOnes) {
  const ScratchDirectory dir;
  const auto path = dir.Write("best.json", "old");
  ASSERT_TRUE(WriteFileAtomically(path, "new content").ok());
  EXPECT_EQ(*ReadTextFile(path), "new content");
  ASSERT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(*ReadTextFile(path), "new content") << "the check leaves the file alone";
  const auto entries = std::distance(std::filesystem::directory_iterator(dir.path()), {});
  EXPECT_EQ(entries, 1) << "a temporary file was left behind";
}

TEST(Files, SaysWhichFileAndWhy) {
  const ScratchDirectory dir;
  EXPECT_TRUE(absl::IsNotFound(CheckWritable(dir / "none/best.json")));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckWritable(dir.path())));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckWritable("")));
  EXPECT_TRUE(absl::IsNotFound(ReadTextFile(dir / "none").status()));
  EXPECT_TRUE(absl::IsNotFound(CheckReadable(dir / "none")));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckReadable(dir.path())));
  EXPECT_NE(ReadTextFile(dir / "none").status().message().find("none"), std::string::npos);
  dir.Write("large", std::string((16 << 20) + 1, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadTextFile(dir / "large").status()));
}

TEST(Files, FullDiskIsAnErrorAndNothingIsReplaced) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  // The device itself takes no new file beside it as a user; as root it does, and rename is what must not
  // happen.
  const ScratchDirectory dir;
  std::filesystem::create_symlink("/dev/full", dir / ("best.json." + std::to_string(getpid()) + ".tmp"));
  dir.Write("best.json", "old");
  EXPECT_TRUE(absl::IsResourceExhausted(WriteFileAtomically(dir / "best.json", "new")))
      << "no error for a full disk";
  EXPECT_EQ(*ReadTextFile(dir / "best.json"), "old");
}

}  // namespace
}  // namespace autocfg
