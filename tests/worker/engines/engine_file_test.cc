#include "worker/engines/engine_file.h"

#include <functional>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/program.h"
#include "tests/support/missing_path.h"
#include "tests/worker/engines/engine_texts.h"
#include "worker/engines/command_template.h"

namespace autocfg::worker {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

absl::Status ParsedStatus(const std::function<void(Json&)>& change) {
  Json json = GoodEngine();
  change(json);
  return ParseEngineFile(json.dump(), "/").status();
}

TEST(EngineFile, IsReadWhole) {
  Json json = GoodEngine();
  json["limits"] = {{"start_s", 5}, {"stall_s", 6.5}, {"run_s", 7}};
  json["space"] = {"pp=1", "tp=1,2"};
  json["source"] = "a remark";
  const auto engine = ParseEngineFile(json.dump(), "/somewhere");
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(engine->name, "toy");
  EXPECT_EQ(engine->version, "1.0");
  EXPECT_EQ(engine->format, "autocfg");
  EXPECT_EQ(engine->directory, "/somewhere");
  EXPECT_FALSE(engine->per_rank);
  EXPECT_EQ(engine->command.front(), "/bin/sh");
  EXPECT_EQ(engine->limits.start.count(), 5);
  EXPECT_EQ(engine->limits.stall.count(), 6.5);
  EXPECT_EQ(engine->limits.run.count(), 7);
  EXPECT_THAT(engine->space, ElementsAre("pp=1", "tp=1,2"));
  const auto messages = EngineMessages({*engine});
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].name(), "toy");
  EXPECT_EQ(messages[0].version(), "1.0");
  EXPECT_EQ(messages[0].format(), "autocfg");
  EXPECT_EQ(messages[0].space_size(), 2);
}

struct WrongEngine {
  const char* name;
  std::function<void(Json&)> change;
  std::string says;
};

// One line, which names the key and what to do.
TEST(EngineFile, IsRefusedByName) {
  const WrongEngine wrongs[] = {
      {"unknown key", [](Json& j) { j["comand"] = 1; }, "comand"},
      {"no name", [](Json& j) { j.erase("name"); }, "name"},
      {"bad name", [](Json& j) { j["name"] = "../x"; }, "'../x' is no engine's name"},
      {"built-in name", [](Json& j) { j["name"] = "autocfg"; }, "the built-in engine"},
      {"no version", [](Json& j) { j.erase("version"); }, "version"},
      {"version of lines", [](Json& j) { j["version"] = "a\nb"; }, "version: give one line"},
      {"version of an unknown program",
       [](Json& j) {
         j["version"] = {{"command", {Missing("/nonexistent")}}};
       },
       Missing("version: program '/nonexistent' does not exist")},
      {"version of another key",
       [](Json& j) {
         j["version"] = {{"comand", {"/bin/sh"}}};
       },
       "engine: version: command is missing"},
      {"unknown format", [](Json& j) { j["format"] = "megatorn"; }, "unknown target 'megatorn'"},
      {"no command", [](Json& j) { j.erase("command"); }, "command"},
      {"command of a shell", [](Json& j) { j["command"] = "train.py {file}"; }, "command: give a list"},
      {"empty command", [](Json& j) { j["command"] = Json::array(); }, "command: give a list"},
      {"number in command",
       [](Json& j) {
         j["command"] = {"/bin/sh", 1};
       },
       "command: an argument is no text"},
      {"missing program", [](Json& j) { j["command"][0] = Missing("/nonexistent"); },
       Missing("command: program '/nonexistent' does not exist")},
      {"program not in PATH", [](Json& j) { j["command"][0] = "no-such-program"; }, "does not exist in PATH"},
      {"a directory is no program", [](Json& j) { j["command"][0] = "/bin"; }, "program '/bin'"},
      {"missing script", [](Json& j) { j["command"].push_back("{engine_directory}/no_such.py"); },
       "'no_such.py' does not exist in the directory"},
      {"unknown placeholder", [](Json& j) { j["command"].push_back("--x={fille}"); },
       "command: unknown placeholder {fille}"},
      {"rank once per node", [](Json& j) { j["command"].push_back("{rank}"); }, "{rank} is of a command"},
      {"list of a format without flags", [](Json& j) { j["command"].push_back("{arguments}"); },
       "command: {arguments} stands for the flags of format megatron, and the format is autocfg; give "
       "{file}"},
      {"list within a word", [](Json& j) { j["command"].push_back("x{arguments}"); },
       "{arguments} becomes several arguments"},
      {"placeholder in environment", [](Json& j) { j["environment"]["A"] = "{nodse}"; },
       "environment: A: unknown placeholder {nodse}"},
      {"list in environment", [](Json& j) { j["environment"]["A"] = "{arguments}"; }, "{arguments} becomes"},
      {"variable with =", [](Json& j) { j["environment"]["A=B"] = "x"; }, "'A=B' is no name of a variable"},
      {"variable with a blank", [](Json& j) { j["environment"]["A B"] = "x"; },
       "'A B' is no name of a variable; use letters"},
      {"variable of a digit", [](Json& j) { j["environment"]["1A"] = "x"; }, "'1A' is no name of a variable"},
      {"variable that is no text", [](Json& j) { j["environment"]["A"] = 1; }, "environment: A is no text"},
      {"environment of a list", [](Json& j) { j["environment"] = {"A=1"}; }, "environment: give an object"},
      {"unknown start", [](Json& j) { j["start"] = "gpu"; }, "unknown start 'gpu'; expected node or rank"},
      {"limit of 0",
       [](Json& j) {
         j["limits"] = {{"start_s", 0}};
       },
       "engine: limits: start_s is 0"},
      {"unknown limit",
       [](Json& j) {
         j["limits"] = {{"hang_s", 1}};
       },
       "hang_s"},
      {"unknown axis", [](Json& j) { j["space"] = {"pq=1"}; }, "space: "},
      {"value of no option",
       [](Json& j) {
         j["space"] = {"pp=1", "zero=9"};
       },
       "space: zero=9"},
      {"space of a text", [](Json& j) { j["space"] = "pp=1"; }, "space: give a list"},
      {"no log", [](Json& j) { j.erase("log"); }, "log"},
      {"log: unknown key", [](Json& j) { j["log"]["speed"] = 1; }, "speed"},
      {"log: no speed", [](Json& j) { j["log"].erase("step_time"); }, "0 of step_time, samples_per_s"},
      {"log: two speeds",
       [](Json& j) {
         j["log"]["samples_per_s"] = {{"pattern", "(.)"}};
       },
       "2 of step_time"},
      {"log: no unit", [](Json& j) { j["log"]["step_time"].erase("unit"); }, "unit"},
      {"log: wrong unit", [](Json& j) { j["log"]["step_time"]["unit"] = "min"; },
       "unknown unit 'min' of step_time; expected s, ms or us"},
      {"log: invalid pattern", [](Json& j) { j["log"]["loss"]["pattern"] = "loss (\\S+"; },
       "pattern 'loss (\\S+' is invalid: missing )"},
      {"log: no group", [](Json& j) { j["log"]["loss"]["pattern"] = "loss"; }, "has 0 groups; give one"},
      {"log: back reference", [](Json& j) { j["log"]["failure"]["pattern"] = "(a)\\1"; }, "is invalid"},
      {"log: long pattern", [](Json& j) { j["log"]["failure"]["pattern"] = std::string(2000, 'a'); },
       "pattern has 2000 bytes"},
      {"log: status", [](Json& j) { j["log"]["out_of_memory"]["exit_statuses"] = {300}; },
       "exit_statuses has 300"},
      {"log: empty rule", [](Json& j) { j["log"]["failure"] = Json::object(); }, "pattern"},
      {"log: field of text",
       [](Json& j) {
         j["log"]["loss"] = {{"field", "loss"}};
       },
       "pattern"},
      {"log: unknown lines", [](Json& j) { j["log"]["lines"] = "xml"; }, "unknown lines 'xml'"},
      {"log: pattern of JSON", [](Json& j) { j["log"]["lines"] = "json"; }, "field"},
  };
  std::set<std::string> names;
  for (const WrongEngine& wrong : wrongs) {
    SCOPED_TRACE(wrong.name);
    EXPECT_TRUE(names.insert(wrong.name).second);
    const absl::Status status = ParsedStatus(wrong.change);
    ASSERT_FALSE(status.ok());
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr(wrong.says));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_TRUE(ParsedStatus([](Json&) {}).ok());
  EXPECT_THAT(std::string(ParseEngineFile("{\"name\": ", "/").status().message()), HasSubstr("line 1"));
}

TEST(EngineFile, ProgramsAreFoundByPathAndBesideTheFile) {
  const ScratchDirectory home;
  home.Write("run.sh", "#!/bin/sh\n");
  Json json = GoodEngine();
  json["command"] = {"./run.sh"};
  EXPECT_FALSE(ParseEngineFile(json.dump(), home.path()).ok()) << "it is not executable";
  std::filesystem::permissions(home / "run.sh", std::filesystem::perms::owner_all);
  for (const char* name : {"./run.sh", "{engine_directory}/run.sh"}) {
    json["command"] = {name};
    const auto engine = ParseEngineFile(json.dump(), home.path());
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_TRUE(std::filesystem::equivalent(engine->command.front(), home / "run.sh"));
  }
  json["command"] = {"sh"};
  EXPECT_TRUE(ParseEngineFile(json.dump(), home.path())->command.front().ends_with("/sh"));
}

TEST(EngineFiles, AreReadByNameAndRefusedWithTheirFile) {
  const ScratchDirectory home;
  EXPECT_THAT(std::string(LoadEngineFiles(home / "none").status().message()), HasSubstr("is no directory"));
  EXPECT_THAT(std::string(LoadEngineFiles(home.path()).status().message()), HasSubstr("0 files *.json"));
  Json json = GoodEngine();
  home.Write("b.json", json.dump());
  json["name"] = "first";
  home.Write("a.json", json.dump());
  home.Write("notes.txt", "not an engine");
  const auto engines = LoadEngineFiles(home.path());
  ASSERT_TRUE(engines.ok()) << engines.status();
  ASSERT_EQ(engines->size(), 2u);
  EXPECT_EQ((*engines)[0].name, "first");
  const EngineOffer offer{*engines};
  EXPECT_EQ(offer.Find("toy"), &offer.engines[1]);
  EXPECT_EQ(offer.Find("megatron"), nullptr);
  home.Write("c.json", json.dump());
  EXPECT_THAT(std::string(LoadEngineFiles(home.path()).status().message()),
              testing::AllOf(HasSubstr("c.json: name: another file"), HasSubstr("first")));
  home.Write("c.json", "{}");
  EXPECT_THAT(std::string(LoadEngineFiles(home.path()).status().message()), HasSubstr("c.json: engine: "));
  home.Write("c.json", std::string(300 << 10, ' '));
  EXPECT_THAT(std::string(LoadEngineFiles(home.path()).status().message()), HasSubstr("the limit is"));
}

TEST(CommandTemplate, FillsWordsAndLists) {
  const PlaceholderValues values = {
      {"file", "/x/plan"}, {"ranks", "4"}, {"arguments", "--a\n1 2\n--b\n"}, {"nodes", "{ranks}"}};
  EXPECT_THAT(Filled(std::vector<std::string>{"run", "{arguments}", "--n={ranks}:{file}", "{nodes}"}, values),
              ElementsAre("run", "--a", "1 2", "--b", "--n=4:/x/plan", "{ranks}"))
      << "a value is not filled in again";
  EXPECT_EQ(Filled("{\"a\": {1}, {}, {ranks", values), "{\"a\": {1}, {}, {ranks") << "no names in braces";
  EXPECT_TRUE(CheckPlaceholders("{\"a\": 1}", false, false).ok());
  EXPECT_TRUE(CheckPlaceholders("{rank}", true, false).ok());
  for (const Placeholder& each : Placeholders())
    EXPECT_TRUE(CheckPlaceholders("{" + std::string(each.name) + "}", true, true).ok()) << each.name;
}

}  // namespace
}  // namespace autocfg::worker
