#include "cli/input/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>

#include "cli/terminal/console.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

TEST(Files, ReplacesWholeFiles) {
  const ScratchDirectory dir;
  const auto path = dir.Write("best.json", "old");
  ASSERT_TRUE(WriteFileAtomically(path, "new content").ok());
  EXPECT_EQ(*ReadTextFile(path), "new content");
  ASSERT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(*ReadTextFile(path), "new content") << "the check leaves the file alone";
  const auto entries = std::distance(std::filesystem::directory_iterator(dir.path()), {});
  EXPECT_EQ(entries, 1) << "a temporary file was left behind";
}

TEST(Files, LinksAreKeptAndTheirTargetsReplaced) {
  const ScratchDirectory dir;
  const auto real = dir.Write("real.json", "old");
  std::filesystem::create_symlink("real.json", dir / "link");
  std::filesystem::create_symlink("none.json", dir / "dangling");
  for (const char* name : {"link", "dangling"}) {
    ASSERT_TRUE(CheckWritable(dir / name).ok());
    ASSERT_TRUE(WriteFileAtomically(dir / name, "new").ok());
    EXPECT_TRUE(std::filesystem::is_symlink(dir / name));
  }
  EXPECT_EQ(ReadWhole(real), "new");
  EXPECT_EQ(ReadWhole(dir / "none.json"), "new");
  EXPECT_EQ(*ReplaceablePath(dir / "link"), real);
}

TEST(Files, DevicesAndPipesAreWrittenInPlace) {
  EXPECT_TRUE(CheckWritable("/dev/null").ok());
  EXPECT_TRUE(WriteFileAtomically("/dev/null", "text").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(absl::IsInvalidArgument(ReplaceablePath("/dev/null").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReplaceablePath("-").status()));
  EXPECT_EQ(CheckWritable("-").message().find("regular file"), std::string::npos)
      << "standard output will do";
  const ScratchDirectory dir;
  const auto pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(WriteFileAtomically(pipe, "text").ok()) << "nobody reads it";
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(WriteFileAtomically(pipe, "text").ok());
  char buffer[8] = {};
  EXPECT_EQ(read(reader, buffer, sizeof buffer), 4);
  EXPECT_STREQ(buffer, "text");
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(Files, DescriptorsAreAppendedTo) {
  const ScratchDirectory dir;
  const auto path = dir.Write("out", "");
  const int fd = open(path.c_str(), O_WRONLY);
  ASSERT_EQ(write(fd, "before ", 7), 7);
  const std::string name = "/dev/fd/" + std::to_string(fd);
  ASSERT_TRUE(CheckWritable(name).ok());
  ASSERT_TRUE(WriteFileAtomically(name, "answer").ok());
  ASSERT_EQ(write(fd, " after", 6), 6);
  close(fd);
  EXPECT_EQ(ReadWhole(path), "before answer after");
}

TEST(Files, PipesAreReadToTheirEnd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::thread writer([&] {
    for (const char* part : {"one ", "two"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_GT(write(ends[1], part, strlen(part)), 0);
    }
    close(ends[1]);
  });
  const auto text = ReadTextFile("/dev/fd/" + std::to_string(ends[0]));
  writer.join();
  close(ends[0]);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "one two");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadTextFile("/dev/zero").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckReadable("/dev/zero")));
}

TEST(Files, ErrorsNameTheFileAndTheCause) {
  const ScratchDirectory dir;
  EXPECT_TRUE(absl::IsNotFound(CheckWritable(dir / "none/best.json")));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckWritable(dir.path())));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckWritable("")));
  EXPECT_TRUE(absl::IsNotFound(ReadTextFile(dir / "none").status()));
  EXPECT_TRUE(absl::IsNotFound(CheckReadable(dir / "none")));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckReadable(dir.path())));
  EXPECT_EQ(Text(ReadTextFile(dir / "none").status()),
            dir / "none" + ": cannot be read (No such file or directory); give an existing file");
  EXPECT_EQ(Text(CheckWritable(dir / "none/best.json")),
            dir / "none/best.json" +
                ": cannot be written (No such file or directory); give a file in an existing directory");
  dir.Write("large", std::string((16 << 20) + 1, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadTextFile(dir / "large").status()));
}

TEST(Files, AnInputIsNoOutput) {
  const ScratchDirectory dir;
  const auto file = dir.Write("run.sh", "x"), other = dir.Write("other", "x");
  EXPECT_EQ(Text(CheckOtherFile({"--output", file}, {{"--model", other}, {"FILE", file}})),
            "--output: " + file + " is also the file of FILE; name another file");
  EXPECT_TRUE(CheckOtherFile({"--output", file}, {{"--model", other}, {"--cluster", ""}}).ok());
  EXPECT_TRUE(CheckOtherFile({"--output", ""}, {{"--model", ""}}).ok());
  EXPECT_TRUE(CheckOtherFile({"--output", dir / "none"}, {{"--model", dir / "none"}}).ok())
      << "a preset may have the name of a file that is not there yet";
  EXPECT_TRUE(CheckOtherFile({"--output", "/dev/null"}, {{"--input", "/dev/null"}}).ok());
  std::filesystem::create_symlink("run.sh", dir / "link");
  EXPECT_TRUE(absl::IsInvalidArgument(CheckOtherFile({"--output", dir / "link"}, {{"FILE", file}})));
}

TEST(Files, TwoOutputsAreTwoFiles) {
  const ScratchDirectory dir;
  EXPECT_EQ(Text(CheckBothWritten({"--log", dir / "a"}, {"--save", dir / "./a"})),
            "--log: " + dir / "a" + " is also the file of --save; name another file");
  EXPECT_TRUE(CheckBothWritten({"--log", dir / "a"}, {"--save", dir / "b"}).ok());
  EXPECT_TRUE(CheckBothWritten({"--log", dir / "a"}, {"--save", ""}).ok());
  EXPECT_TRUE(CheckBothWritten({"--log", "/dev/null"}, {"--trace", "/dev/null"}).ok());
  std::filesystem::create_symlink("a", dir / "link");
  EXPECT_TRUE(absl::IsInvalidArgument(CheckBothWritten({"--log", dir / "link"}, {"--save", dir / "a"})));
}

TEST(Files, FullDiskIsAnErrorAndKeepsTheOldFile) {
  const ScratchDirectory dir;
  const auto path = dir.Write("best.json", "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{4, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  const absl::Status written = WriteFileAtomically(path, "new content");
  const absl::Status checked = CheckWritable(path);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsFailedPrecondition(written)) << written;
  EXPECT_TRUE(absl::IsFailedPrecondition(checked)) << checked;
  EXPECT_EQ(ExitCodeOf(written), kExitUsage) << "the user names another file";
  EXPECT_EQ(*ReadTextFile(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

// Other users may write in the directory (/tmp) and know the process ID.
TEST(Files, TemporaryFilesDoNotFollowExistingLinks) {
  const ScratchDirectory dir;
  const auto mine = dir.Write("mine", "precious");
  const auto path = dir / "best.json";
  for (const char* end : {"tmp", "partial"})
    std::filesystem::create_symlink(mine, path + "." + std::to_string(getpid()) + "." + end);
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(ReadWhole(mine), "precious");
  EXPECT_TRUE(WriteFileAtomically(path, "new").ok());
  EXPECT_EQ(ReadWhole(mine), "precious");
  EXPECT_EQ(ReadWhole(path), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
}

}  // namespace
}  // namespace autocfg::cli
