// Places of settings in a text whose characters each parser counts in its own way.
#include "search/frameworks/settings/text_positions.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

constexpr const char* kMark = "\xEF\xBB\xBF";  // byte order mark

TEST(TextPositions, CharactersAndLines) {
  const TextPositions positions("a\xC3\xA4z\n\xE2\x82\xAC!");
  EXPECT_EQ(positions.Of(0), 0u);
  EXPECT_EQ(positions.Of(1), 1u);
  EXPECT_EQ(positions.Of(2), 3u);
  EXPECT_EQ(positions.Of(5), 8u);
  EXPECT_EQ(positions.Of(6), 9u) << "the end";
  EXPECT_EQ(positions.Of(1, 0), 5u);
  EXPECT_EQ(positions.Of(1, 1), 8u);
  EXPECT_EQ(positions.Of(2, 0), 9u);
}

TEST(TextPositions, ValuesThatStandElsewhereHaveNoPlace) {
  const TextPositions positions("x: 12");
  struct Place {
    std::size_t begin, end;
    std::string value;
  };
  for (const Place& place :
       {Place{3, 5, "13"}, {3, 5, "1"}, {3, 4, "12"}, {4, 3, "2"}, {5, 6, "1"}, {99, 100, "1"}}) {
    Setting setting{.name = "x", .values = {place.value}};
    positions.SetValueAt(place.begin, place.end, setting);
    EXPECT_EQ(setting.value_at, kNowhere) << place.begin;
  }
  Setting setting{.name = "x", .values = {"12"}};
  positions.SetValueAt(3, 5, setting);
  EXPECT_EQ(setting.value_at, 3u);
  EXPECT_EQ(setting.value_end, 5u);
}

// Expects that the last setting is `name`: `value`, and that its place holds these.
void ExpectLastAtItsPlace(const absl::StatusOr<SettingsText>& read, const std::string& name,
                          const std::string& value) {
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_FALSE(read->settings.empty());
  const Setting& last = read->settings.back();
  EXPECT_EQ(last.name, name);
  ASSERT_EQ(last.values, std::vector<std::string>{value});
  EXPECT_EQ(read->text.substr(last.at, name.size()), name);
  ASSERT_NE(last.value_at, kNowhere);
  EXPECT_EQ(read->text.substr(last.value_at, last.value_end - last.value_at), value);
}

// Expects the place of `key`, whose value is 12, behind each of these beginnings, with and without a mark.
void ExpectPlaces(absl::StatusOr<SettingsText> (*read)(std::string_view, std::string_view),
                  const std::string& key, const std::vector<std::string>& beginnings) {
  for (const std::string& before : beginnings) {
    for (const std::string mark : {"", kMark}) {
      for (const std::string value : {"12", "'12'", "\"12\""}) {
        const std::string text = absl::StrCat(mark, before, key, value);
        SCOPED_TRACE(text);
        ExpectLastAtItsPlace(read("f", text), "key", "12");
      }
    }
  }
}

TEST(TextPositions, YamlAfterLineBreaksAndCharactersOfAllKinds) {
  const auto read = [](std::string_view file, std::string_view text) { return ReadYamlSettings(file, text); };
  ExpectPlaces(read, "key: ",
               {"", "a: 1\n", "a:\n  b: 1\n", "a: 1\r\n", "a: 1\r", "# \xE2\x82\xAC\n", "a: \xC3\xA4\n",
                "a: 1\xC2\x85", "a: 1\xE2\x80\xA8", "a: 1\xE2\x80\xA9", "\r\r\r\r\ra: 1\r\n\r"});
}

TEST(TextPositions, TomlAfterLineBreaksAndCharactersOfAllKinds) {
  ExpectPlaces(ReadTomlSettings,
               "key = ", {"", "a = 1\n", "a = 1\r\n", "# \xE2\x82\xAC\n", "a = \"\xC3\xA4\"\n"});
  // Behind such a character on the same line.
  const auto table = ReadTomlSettings("f", "t = {a = \"\xC3\xA4\xE2\x82\xAC\", z = 12}");
  ASSERT_TRUE(table.ok()) << table.status();
  const Setting& last = table->settings.back();
  EXPECT_EQ(last.name, "t.z");
  EXPECT_EQ(table->text.substr(last.at, 1), "z");
  ASSERT_NE(last.value_at, kNowhere);
  EXPECT_EQ(table->text.substr(last.value_at, 2), "12");
}

void ExpectNoPlace(const absl::StatusOr<SettingsText>& read) {
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->settings.back().value_at, kNowhere) << read->text;
}

TEST(TextPositions, YamlBlocksAndOtherFormsHaveNoPlace) {
  for (const std::string text :
       {"key: |\n  12\n", "key: >-\n  12\n", "key: |\n", "key:", "key:\n", "key: !!int 12", "key: &a 12",
        "key: 'it''s'", "key: \"\\x31\"", "key: 1\n  2"})
    ExpectNoPlace(ReadYamlSettings("f", text));
}

// An insertion into it is a value of its own.
TEST(TextPositions, AnEmptyValueBehindABlankHasAPlace) {
  const auto read = ReadYamlSettings("f", "{a: , c: 1}");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->settings.front().name, "a");
  EXPECT_EQ(read->settings.front().value_at, 4u);
  EXPECT_EQ(read->settings.front().value_end, 4u);
}

TEST(TextPositions, JsonValuesHaveTheirPlaces) {
  for (const std::string value : {"12", "-1", "1.50", "true", "null", "\"12\"", "\"\""}) {
    const std::string text = absl::StrCat("{\"a\": {\"b\": [1]}, \"key\": ", value, " }");
    const auto read = ReadJsonSettings("f", text);
    ASSERT_TRUE(read.ok()) << read.status();
    const Setting& last = read->settings.back();
    ASSERT_NE(last.value_at, kNowhere) << text;
    const std::size_t quote = value.starts_with('"') ? 1 : 0;
    EXPECT_EQ(last.value_at, text.size() - 2 - value.size() + quote) << text;
    EXPECT_EQ(last.value_end, text.size() - 2 - quote) << text;
  }
}

TEST(TextPositions, JsonOtherFormsHaveNoPlace) {
  for (const std::string value : {"-0", "\"\\u0031\"", "\"a\\\"a\""})
    ExpectNoPlace(ReadJsonSettings("f", absl::StrCat("{\"key\": ", value, "}")));
}

TEST(TextPositions, TomlOtherFormsHaveNoPlace) {
  for (const std::string text : {"key = 0x0", "key = 0x1", "key = 1.0", "key = 1_0", "key = 1979-05-27",
                                 "key = \"\\u0031\"", "key = \"\"\"12\"\"\""})
    ExpectNoPlace(ReadTomlSettings("f", text));
}

TEST(TextPositions, YamlIsUtf8) {
  const std::string utf16("\xFF\xFEk\0:\0 \0001\0", 10);
  const auto read = ReadYamlSettings("f", utf16);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message().find("f:1: it is no YAML: "), 0u) << read.status();
}

}  // namespace
}  // namespace autocfg
