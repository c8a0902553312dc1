#include "cli/input/line_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using Got = LineReader::Got;

// Returns the lines of a text, read from a file; "..." marks a line that is too long.
std::vector<std::string> Lines(const std::string& text, std::size_t most) {
  const ScratchDirectory dir;
  const auto reader = LineReader::Open(dir.Write("lines", text), most);
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::vector<std::string> lines;
  for (std::string line;;) {
    const auto got = (*reader)->Next(line);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok() || *got == Got::kEnd) return lines;
    lines.push_back(*got == Got::kTooLong ? "..." : line);
  }
}

using List = std::vector<std::string>;

TEST(LineReader, ReturnsEveryLineOnce) {
  EXPECT_EQ(Lines("", 10), List{});
  EXPECT_EQ(Lines("a", 10), List{"a"});
  EXPECT_EQ(Lines("a\n", 10), List{"a"});
  EXPECT_EQ(Lines("\n", 10), List{""});
  EXPECT_EQ(Lines("a\n\nb\r\nc", 10), (List{"a", "", "b\r", "c"}));
  EXPECT_EQ(Lines(std::string("a\0b\n", 4), 10), List{std::string("a\0b", 3)});
}

TEST(LineReader, LongLinesAreDropped) {
  EXPECT_EQ(Lines("1234\n12345\n1234\n", 4), (List{"1234", "...", "1234"}));
  EXPECT_EQ(Lines("12345", 4), List{"..."});
  // Lines longer than one read: before, between and after other lines.
  const std::string huge(300'000, 'x');
  EXPECT_EQ(Lines(huge + "\nb\n" + huge, 100), (List{"...", "b", "..."}));
  EXPECT_EQ(Lines(huge + "\n" + huge, 300'000), (List{huge, huge}));
  List many;
  std::string text;
  for (int i = 0; i < 50'000; ++i) {
    many.push_back(std::to_string(i));
    text += many.back() + "\n";
  }
  EXPECT_EQ(Lines(text, 10), many);
}

TEST(LineReader, PipeLinesArriveAsTheyAreWritten) {
  const ScratchDirectory dir;
  const auto pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int keep = open(pipe.c_str(), O_RDWR);  // keeps a writer open for the reader
  ASSERT_GE(keep, 0);
  const auto reader = LineReader::Open(pipe, 100);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::string line;
  ASSERT_EQ(write(keep, "one\ntwo\nth", 10), 10);
  EXPECT_EQ(*(*reader)->Next(line), Got::kLine);
  EXPECT_EQ(line, "one");
  EXPECT_TRUE((*reader)->HasNext());
  EXPECT_EQ(*(*reader)->Next(line), Got::kLine);
  EXPECT_EQ(line, "two");
  EXPECT_FALSE((*reader)->HasNext()) << "a part of a line is none";
  std::thread writer([keep] {
    ASSERT_EQ(write(keep, "ree\n", 4), 4);
    close(keep);
  });
  EXPECT_EQ(*(*reader)->Next(line), Got::kLine);
  EXPECT_EQ(line, "three");
  writer.join();
  EXPECT_EQ(*(*reader)->Next(line), Got::kEnd);
}

TEST(LineReader, ErrorsNameTheFile) {
  const ScratchDirectory dir;
  EXPECT_TRUE(absl::IsNotFound(LineReader::Open(dir / "none", 10).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LineReader::Open(dir.path(), 10).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LineReader::Open("/dev/zero", 10).status()));
}

}  // namespace
}  // namespace autocfg::cli
