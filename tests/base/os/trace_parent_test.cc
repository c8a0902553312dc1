#include "base/os/trace_parent.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace autocfg::base {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kText = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceParent, IsReadAsW3cDefinesIt) {
  const auto parent = ParseTraceParent(kText);
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace, kTrace);
  EXPECT_EQ(parent->span, "00f067aa0ba902b7");
  EXPECT_EQ(parent->flags, "01");
  EXPECT_EQ(TraceParentText(*parent), kText);
  EXPECT_EQ(TraceOf(kText), kTrace);
  const std::string rest = std::string(kText).substr(2);
  EXPECT_TRUE(ParseTraceParent("cc" + rest)) << "a later version";
  EXPECT_TRUE(ParseTraceParent("cc" + rest + "-more")) << "with more fields";
  const std::vector<std::string> all_wrong = {std::string(),
                                              std::string("00"),
                                              "ff" + rest,
                                              "0" + rest,
                                              "00" + rest + "-more",
                                              "cc" + rest + "more",
                                              "0x" + rest,
                                              "00" + rest + "\n",
                                              "00-" + std::string(32, '0') + "-00f067aa0ba902b7-01",
                                              std::string("00-") + kTrace + "-0000000000000000-01",
                                              std::string("00-") + kTrace + "-00f067aa0ba902b7-0g",
                                              "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                              "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                              "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
                                              "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01"};
  for (const std::string& wrong : all_wrong) {
    EXPECT_FALSE(ParseTraceParent(wrong)) << wrong;
    EXPECT_EQ(TraceOf(wrong), "");
  }
}

TEST(TraceParent, SpansAreOfTheSameTrace) {
  const TraceParent parent = *ParseTraceParent(kText), span = NewSpan(parent);
  EXPECT_EQ(span.trace, parent.trace);
  EXPECT_EQ(span.flags, parent.flags);
  EXPECT_NE(span.span, parent.span);
  EXPECT_NE(NewSpan(parent).span, span.span);
  EXPECT_TRUE(ParseTraceParent(TraceParentText(span)));
  EXPECT_EQ(TraceOf(NewSpanText(kText)), kTrace);
  EXPECT_NE(NewSpanText(kText), kText);
  EXPECT_EQ(NewSpanText("00-wrong"), "");
}

// Each in a process of its own, which keeps what it read first.
TEST(OwnTraceDeathTest, FollowsTheEnvironment) {
  const auto ends_with = [](const char* given, bool kept) {
    return [=] {
      setenv("TRACEPARENT", given, 1);
      const std::string text = TraceParentText(OwnTrace());
      const bool right =
          ParseTraceParent(text) && (text == given) == kept && TraceParentText(OwnTrace()) == text;
      std::_Exit(right ? 0 : 1);
    };
  };
  EXPECT_EXIT(ends_with(kText, true)(), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ends_with("00-wrong", false)(), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ends_with("", false)(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace autocfg::base
