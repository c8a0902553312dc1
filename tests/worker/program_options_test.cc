#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/os/host.h"
#include "tests/support/missing_path.h"
#include "tests/support/scoped_variable.h"
#include "worker/program/program.h"

namespace autocfg::worker {
namespace {

std::variant<ProgramOptions, ProgramEnd> Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "autocfg-worker");
  return ParseProgramOptions(static_cast<int>(words.size()), words.data());
}

ProgramOptions Good(std::vector<const char*> words) {
  auto parsed = Parse(std::move(words));
  if (const auto* end = std::get_if<ProgramEnd>(&parsed)) {
    ADD_FAILURE() << end->message;
    return {};
  }
  return std::get<ProgramOptions>(parsed);
}

TEST(ProgramOptions, ParsesOptionsAndDefaults) {
  const ProgramOptions few = Good({"--coordinator", "unix:/run/a.sock"});
  EXPECT_EQ(few.coordinator.target, "unix:/run/a.sock");
  EXPECT_EQ(few.devices, "auto");
  EXPECT_EQ(few.slots, 0);
  EXPECT_TRUE(few.name.starts_with("workers/") && few.name.size() > 8) << few.name;
  EXPECT_FALSE(few.insecure);
  EXPECT_EQ(few.wait_s, 60);
  EXPECT_TRUE(few.files.data_dirs.empty());
  EXPECT_TRUE(few.files.save_dirs.empty());
  const ProgramOptions all = Good({"--coordinator=node1:7010", "--insecure", "--devices", "cpu:0", "--slots",
                                   "3", "--name", "a.b-c_1", "--wait", "1.5m"});
  EXPECT_EQ(all.coordinator.target, "node1:7010");
  EXPECT_EQ(all.devices, "cpu:0");
  EXPECT_EQ(all.slots, 3);
  EXPECT_EQ(all.name, "workers/a.b-c_1");
  EXPECT_EQ(all.wait_s, 90);
  EXPECT_EQ(Good({"--coordinator", "localhost:1", "--wait", "0"}).wait_s, 0);
  EXPECT_EQ(few.engine_files, "");
  EXPECT_EQ(few.address, "");
  const ProgramOptions engines =
      Good({"--coordinator", "localhost:1", "--engines", "/etc/engines", "--address", "10.0.0.3"});
  EXPECT_EQ(engines.engine_files, "/etc/engines");
  EXPECT_EQ(engines.address, "10.0.0.3");
  EXPECT_EQ(engines.interface, "");
  EXPECT_EQ(Good({"--coordinator", "localhost:1", "--interface", "eth1"}).interface, "eth1");
  EXPECT_EQ(few.allowance.processes, 0);
  EXPECT_EQ(few.allowance.memory_bytes, 0);
  const ProgramOptions limits =
      Good({"--coordinator", "localhost:1", "--job-processes", "50", "--job-memory", "2.5GB"});
  EXPECT_EQ(limits.allowance.processes, 50);
  EXPECT_EQ(limits.allowance.memory_bytes, 2'500'000'000);
  const ProgramOptions files =
      Good({"--coordinator", "localhost:1", "--data-dir", "/usr", "--save-dir=/tmp", "--data-dir", "/dev"});
  EXPECT_EQ(files.files.data_dirs, (std::vector<std::string>{"/usr", "/dev"}));
  EXPECT_EQ(files.files.save_dirs, (std::vector<std::string>{"/tmp"}));
}

TEST(ProgramOptions, TheEndOfItsTimeIsGivenOrSlurms) {
  const char* const variable = "SLURM_JOB_END_TIME";
  const double now_s = base::SystemClock()();
  const std::string at = std::to_string(static_cast<std::int64_t>(now_s) + 5000);
  {
    const ScopedVariable slurm(variable, at);
    EXPECT_EQ(Good({"--coordinator", "localhost:1"}).departure.at_s, std::stod(at));
    const auto given =
        Good({"--coordinator", "localhost:1", "--until", "1h", "--until-grace", "5s", "--until-file", "/n"});
    EXPECT_NEAR(given.departure.at_s.value_or(0), now_s + 3600, 60);
    EXPECT_EQ(given.departure.grace_s, 5);
    EXPECT_EQ(given.departure.file, "/n");
  }
  for (const char* none : {"", "0"}) {
    const ScopedVariable slurm(variable, none);
    EXPECT_EQ(Good({"--coordinator", "localhost:1"}).departure.at_s, std::nullopt);
    EXPECT_EQ(Good({"--coordinator", "localhost:1"}).departure.grace_s, 30);
  }
  const ScopedVariable slurm(variable, "1600000000");
  const auto parsed = Parse({"--coordinator", "localhost:1"});
  ASSERT_TRUE(std::holds_alternative<ProgramEnd>(parsed));
  EXPECT_EQ(std::get<ProgramEnd>(parsed).message,
            "SLURM_JOB_END_TIME: '1600000000' has passed; give a later time");
}

TEST(ProgramOptions, ErrorsAreOneLineAndNameTheOption) {
  const std::string missing = Missing("/nonexistent");
  const std::string long_name(101, 'a');
  const std::vector<std::pair<std::vector<const char*>, std::string>> mistakes = {
      {{}, "--coordinator"},
      {{"--coordinator", "localhost"}, "--coordinator: address localhost: the port is missing"},
      {{"--coordinator", "node1:7010"}, "--insecure"},
      {{"--coordinator", ""}, "--coordinator"},
      {{"--coordinator", "localhost:1", "--until", "soon"}, "--until: 'soon' is no time"},
      {{"--coordinator", "localhost:1", "--until", "2020-01-01T00:00:00Z"},
       "--until: '2020-01-01T00:00:00Z' has passed"},
      {{"--coordinator", "localhost:1", "--until-grace", "soon"}, "--until-grace"},
      {{"--coordinator", "localhost:1", "--until-file", ""}, "--until-file"},
      {{"--coordinator", "localhost:1", "--log-format", "xml"}, "--log-format"},
      {{"--coordinator", "localhost:1", "--log-keep", "2"}, "--log-keep: only a file is rotated"},
      {{"--coordinator"}, "--coordinator"},
      {{"--coordinator", "localhost:1", "--slots", "0"}, "--slots: '0'"},
      {{"--coordinator", "localhost:1", "--slots", "1025"}, "--slots: '1025'"},
      {{"--coordinator", "localhost:1", "--slots", "two"}, "--slots: 'two'"},
      {{"--coordinator", "localhost:1", "--job-processes", "0"}, "--job-processes: '0'"},
      {{"--coordinator", "localhost:1", "--job-processes", "4194305"}, "--job-processes: '4194305'"},
      {{"--coordinator", "localhost:1", "--job-processes", "many"}, "--job-processes: 'many'"},
      {{"--coordinator", "localhost:1", "--job-processes", ""}, "--job-processes"},
      {{"--coordinator", "localhost:1", "--job-memory", "1000"},
       "--job-memory: '1000' is not a size from 1.0 MiB to 1.0 PiB"},
      {{"--coordinator", "localhost:1", "--job-memory", "4e15"}, "--job-memory: '4e15'"},
      {{"--coordinator", "localhost:1", "--job-memory", "some"}, "--job-memory: 'some'"},
      {{"--coordinator", "localhost:1", "--name", "a/b"}, "--name"},
      {{"--coordinator", "localhost:1", "--name", long_name.c_str()}, "--name"},
      {{"--coordinator", "localhost:1", "--name", ""}, "--name"},
      {{"--coordinator", "localhost:1", "--wait", "soon"}, "--wait: 'soon'"},
      {{"--coordinator", "localhost:1", "--wait", "-1"}, "--wait"},
      {{"--coordinator", "localhost:1", "--wait", "1e999"}, "--wait"},
      {{"--coordinator", "localhost:1", "--data-dir", missing.c_str()},
       Missing("--data-dir: /nonexistent: No such file or directory")},
      {{"--coordinator", "localhost:1", "--data-dir", "/dev/null"},
       "--data-dir: /dev/null is not a directory"},
      {{"--coordinator", "localhost:1", "--save-dir", "."}, "--save-dir: . is a relative path"},
      {{"--coordinator", "localhost:1", "--save-dir", ""}, "--save-dir"},
      {{"--coordinator", "localhost:1", "--save-dir", "/usr", "/tmp"}, "/tmp"},
      {{"--coordinator", "localhost:1", "--address", "-x"}, "--address"},
      {{"--coordinator", "localhost:1", "--address=a b"}, "--address: 'a b' is no address"},
      {{"--coordinator", "localhost:1", "--engines", ""}, "--engines"},
      {{"--coordinator", "localhost:1", "--interface", ""}, "--interface"},
      {{"--coordinator", "localhost:1", "--no-such"}, "--no-such"},
      {{"--coordinator", "localhost:1", "stray"}, "stray"},
      {{"--coordinator", "localhost:1", "--slots", "1", "--slots", "2"}, "--slots"}};
  for (const auto& [words, says] : mistakes) {
    const auto parsed = Parse(words);
    const auto* end = std::get_if<ProgramEnd>(&parsed);
    ASSERT_NE(end, nullptr) << says;
    EXPECT_EQ(end->exit_code, 2) << says;
    EXPECT_NE(end->message.find(says), std::string::npos) << end->message;
    EXPECT_EQ(end->message.find('\n'), std::string::npos) << end->message;
  }
}

TEST(WorkerIdOf, IsValidForTheCoordinator) {
  EXPECT_EQ(WorkerIdOf("node-1.example.org"), "node-1.example.org");
  EXPECT_EQ(WorkerIdOf("host name/\xc3\xbc"), "host-name---");
  EXPECT_EQ(WorkerIdOf(""), "worker");
  EXPECT_EQ(WorkerIdOf(std::string(200, 'a')), std::string(100, 'a'));
}

}  // namespace
}  // namespace autocfg::worker
