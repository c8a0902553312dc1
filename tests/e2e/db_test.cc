// autocfg db check, export, import and prune as a user runs them, on the database of a real search.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Parsed = nlohmann::json;

constexpr const char* kSmallestModel =
    R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})";

class DbTest : public testing::Test {
 protected:
  void SetUp() override {
    const Finished search =
        Run({"search", "--model", home_.Write("model.json", kSmallestModel), "--cluster", "local:1x2",
             "--global-batch", "4", "--db", database_, "--max-trials", "2", "--time-budget", "20s"});
    ASSERT_EQ(search.exit_code, 0) << search.err;
  }

  Finished Run(const std::vector<std::string>& args) const { return RunAutocfg(home_, args); }
  Parsed RunJson(std::vector<std::string> args) const {
    args.emplace_back("--json");
    const Finished finished = Run(args);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.exit_code == 0 ? Parsed::parse(finished.out) : Parsed();
  }
  void ExpectFails(const std::vector<std::string>& args, int exit_code, const std::string& words) const {
    const Finished finished = Run(args);
    EXPECT_EQ(finished.exit_code, exit_code) << finished.err;
    EXPECT_THAT(finished.err, AllOf(testing::StartsWith("autocfg: "), HasSubstr(words)));
    EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1) << finished.err;
  }

  const ScratchDirectory home_;
  const std::string database_ = home_ / "search.db";
};

TEST_F(DbTest, ChecksIntactDamagedAndForeignFiles) {
  const Finished intact = Run({"db", "check", "--db", database_});
  EXPECT_EQ(intact.exit_code, 0) << intact.err;
  EXPECT_THAT(intact.out, AllOf(HasSubstr(database_ + ": intact: 1 study, "), HasSubstr("trials")));
  {
    const auto used = server::OpenSqliteStore(database_);
    ASSERT_TRUE(used.ok()) << used.status();
    EXPECT_EQ(RunJson({"db", "check", "--db", database_}).at("intact"), true) << "while it is in use";
  }
  const std::string damaged = home_ / "damaged.db";
  std::filesystem::copy_file(database_, damaged);
  {
    std::fstream file(damaged, std::ios::binary | std::ios::in | std::ios::out);
    for (const int page : {5, 8, 11}) {
      file.seekp(page * 4096);
      file.write(std::string(4096, '\x5a').data(), 4096);
    }
  }
  const Finished broken = Run({"db", "check", "--db", damaged});
  EXPECT_EQ(broken.exit_code, 1) << broken.err;
  EXPECT_THAT(broken.out, HasSubstr(damaged + ": damaged\n"));
  EXPECT_THAT(broken.err, HasSubstr("restore a backup"));
  const std::string lying = home_ / "lying.db";
  std::filesystem::copy_file(database_, lying);
  SQLite::Database(lying, SQLite::OPEN_READWRITE).exec("DELETE FROM measurements");
  const Finished lies = Run({"db", "check", "--db", lying});
  EXPECT_EQ(lies.exit_code, 1) << lies.err;
  EXPECT_THAT(lies.out, HasSubstr("its state and its measurement do not agree"));
  const std::string newer = home_ / "newer.db";
  std::filesystem::copy_file(database_, newer);
  SQLite::Database(newer, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 77");
  for (const char* verb : {"check", "prune"}) ExpectFails({"db", verb, "--db", newer}, 2, "version 77");
  const std::string text = home_.Write("text.db", std::string(5000, 't'));
  for (const char* verb : {"check", "prune"})
    ExpectFails({"db", verb, "--db", text}, 2, "is not a database of autocfg");
}

TEST_F(DbTest, StudiesArePausedResumedAndDeletedInTheFile) {
  {
    const auto store = server::OpenSqliteStore(database_);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto first = (*store)->GetStudy(1);
    ASSERT_TRUE(first.ok()) << first.status();
    v1::Study study;
    *study.mutable_spec() = first->spec();
    study.set_state(v1::STUDY_STATE_CREATED);
    ASSERT_TRUE((*store)->CreateStudy("", study, 1).ok());
  }
  const auto expect_answer = [&](const char* verb, const char* study, const std::string& answer) {
    const Finished finished = Run({verb, study, "--db", database_});
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_EQ(finished.out, answer);
  };
  expect_answer("pause", "2", "study 2 paused\n");
  expect_answer("resume", "2", "study 2 resumed: it goes on once a server has the database\n");
  EXPECT_EQ(RunJson({"studies", "--db", database_})[0].at("state"), "interrupted");
  const std::string interrupted = "studies/2 is interrupted; cancel it first, or run its search again";
  ExpectFails({"delete", "2", "--db", database_}, 2, interrupted);
  ExpectFails({"db", "export", "--db", database_, "--study", "2", "--output", home_ / "no"}, 2, interrupted);
  expect_answer("pause", "2", "study 2 paused\n");
  ExpectFails({"db", "export", "--db", database_, "--study", "2", "--output", home_ / "no"}, 2,
              "studies/2 has not ended; wait for its end, or cancel it");
  const Finished weighed = Run({"update", "2", "--weight", "2.5", "--db", database_});
  EXPECT_EQ(weighed.out, "study 2 has weight 2.5\n") << weighed.err;
  EXPECT_EQ(RunJson({"studies", "--db", database_})[0].at("weight"), 2.5);
  ExpectFails({"update", "1", "--weight", "2", "--db", database_}, 2, "DONE and cannot be updated");
  expect_answer("delete", "2", "study 2 deleted\n");
  ExpectFails({"delete", "2", "--db", database_}, 2, "studies/2");
  ExpectFails({"pause", "1", "--db", database_}, 2, "cannot be paused");
  ExpectFails({"resume", "1", "--db", database_}, 2, "cannot be resumed");
  EXPECT_EQ(RunJson({"studies", "--db", database_}).size(), 1u);
}

TEST_F(DbTest, TokensAreMadeInAFileThatOnlyItsOwnerReads) {
  const std::string text = home_ / "ci.token";
  const Finished made =
      Run({"token", "create", "ci", "--role", "worker", "--db", database_, "--output", text});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, "tokens/ci has the role worker; its text is in " + text + "\n");
  EXPECT_THAT(ReadWhole(text), testing::MatchesRegex("autocfg_[0-9a-f]+\n"));
  EXPECT_EQ(std::filesystem::status(text).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ExpectFails({"token", "create", "two", "--role", "read", "--db", database_, "--output", text}, 2,
              "File exists");
  EXPECT_EQ(RunJson({"token", "list", "--db", database_}).size(), 1u);
  ExpectFails({"token", "delete", "nobody", "--db", database_}, 2, "autocfg token list shows all");
  ExpectFails({"token", "list", "--db", home_ / "nope.db"}, 2, "there is no such file");
  EXPECT_FALSE(std::filesystem::exists(home_ / "nope.db"));
}

TEST_F(DbTest, AStudyMovesToAnotherDatabase) {
  const std::string file = home_ / "study.jsonl", other = home_ / "other.db";
  const Finished written = Run({"db", "export", "--db", database_, "--study", "1", "--output", file});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr(file + ": study 1, "));
  ExpectFails({"db", "export", "--db", database_, "--study", "1", "--output", file}, 2, "--force");
  ExpectFails({"db", "export", "--db", database_, "--study", "7", "--output", home_ / "no"}, 2, "studies/7");
  EXPECT_EQ(
      RunJson({"db", "export", "--db", database_, "--study", "1", "--output", file, "--force"}).at("study"),
      1);

  EXPECT_EQ(RunJson({"db", "import", file, "--db", other}).at("study"), 1);
  const Finished again = Run({"db", "import", file, "--db", other});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("study 2: done, "));
  const auto trials = [&](const std::string& database, const char* study) {
    Parsed list = RunJson({"trials", "--db", database, "--study", study});
    std::string text = list.dump();
    for (std::size_t at = 0; (at = text.find("studies/2", at)) != std::string::npos;) text[at + 8] = '1';
    return text;
  };
  EXPECT_EQ(trials(other, "2"), trials(database_, "1"));
  const auto report = [&](const std::string& database) {
    const std::string page = home_ / "page.html";
    const Finished made = Run({"report", "--db", database, "--study", "1", "--output", page});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return ReadWhole(page);
  };
  EXPECT_THAT(report(database_), testing::Not(HasSubstr("the study was imported")));
  EXPECT_THAT(report(other), HasSubstr("the study was imported")) << "timelines stay behind";
  const auto best = [&](const std::string& database) {
    return Run({"export", "--db", database, "--study", "1", "--to", "autocfg"}).out;
  };
  EXPECT_NE(best(database_), "");
  EXPECT_EQ(best(other), best(database_));
  EXPECT_EQ(Run({"db", "check", "--db", other}).exit_code, 0);

  const std::string text = ReadWhole(file);
  const std::string cut = home_.Write("cut.jsonl", text.substr(0, text.size() / 2));
  ExpectFails({"db", "import", cut, "--db", other}, 2, "cut off");
  ExpectFails({"db", "import", database_, "--db", other}, 2, database_);
  ExpectFails({"db", "import", file, "--db", home_ / "nosuch/x.db"}, 2, "nosuch is not a directory");
  EXPECT_FALSE(std::filesystem::exists(home_ / "nosuch"));
  EXPECT_EQ(RunJson({"studies", "--db", other}).size(), 2u);
  const auto used = server::OpenSqliteStore(other);
  ASSERT_TRUE(used.ok()) << used.status();
  ExpectFails({"db", "import", file, "--db", other}, 2, fmt::format("process {}", ::getpid()));
}

TEST_F(DbTest, ExportNeverReplacesTheDatabase) {
  const auto expect_refused = [&](const std::string& output, const std::string& words) {
    ExpectFails({"db", "export", "--db", database_, "--study", "1", "--output", output, "--force"}, 2, words);
  };
  expect_refused(database_, database_ + ": is the database itself; name another file");
  expect_refused(database_ + "-wal", "belongs to the database");
  expect_refused("/dev/null", "/dev/null: is not a regular file; name one");
  EXPECT_EQ(RunJson({"studies", "--db", database_}).size(), 1u);
}

TEST_F(DbTest, PrunesWhatIsOld) {
  const std::string trials = Run({"trials", "--db", database_, "--json"}).out;
  {
    const auto used = server::OpenSqliteStore(database_);
    ASSERT_TRUE(used.ok()) << used.status();
    ExpectFails({"db", "prune", "--db", database_}, 2, fmt::format("process {}", ::getpid()));
  }
  Parsed pruned = RunJson({"db", "prune", "--db", database_, "--older-than", "1d"});
  EXPECT_EQ(pruned.at("reduced"), Parsed::array()) << "it is young";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  pruned = RunJson({"db", "prune", "--db", database_, "--older-than", "1s", "--dry-run"});
  EXPECT_EQ(pruned.at("reduced"), Parsed::array({1}));
  const Finished shown = Run({"db", "prune", "--db", database_, "--older-than", "1s", "--dry-run"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("nothing was changed"), HasSubstr("details of their trials: 1\n")));
  EXPECT_EQ(RunJson({"db", "prune", "--db", database_, "--older-than", "1s"}).at("reduced"),
            Parsed::array({1}));
  EXPECT_EQ(RunJson({"db", "prune", "--db", database_, "--older-than", "1s"}).at("reduced"), Parsed::array());
  EXPECT_EQ(Run({"trials", "--db", database_, "--json"}).out, trials) << "the evidence is kept";
  pruned = RunJson({"db", "prune", "--db", database_, "--max-bytes", "1kB"});
  EXPECT_EQ(pruned.at("deleted"), Parsed::array({1}));
  EXPECT_LT(pruned.at("bytes_after"), pruned.at("bytes_before"));
  EXPECT_EQ(RunJson({"studies", "--db", database_}), Parsed::array());
  const Parsed check = RunJson({"db", "check", "--db", database_});
  EXPECT_EQ(check.at("intact"), true);
  EXPECT_EQ(check.at("unused_bytes"), 0) << "given back";
}

}  // namespace
}  // namespace autocfg::cli
