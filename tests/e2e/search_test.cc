// Real searches and runs on a model of a few thousand parameters, as a user sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr const char* kModel =
    R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})";

class SearchTest : public testing::Test {
 protected:
  SearchTest() : model_(home_.Write("model.json", kModel)), database_(home_ / "search.db") {}

  std::vector<std::string> SearchArgs(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"search",         "--model", model_, "--cluster", "local:1x2",
                                     "--global-batch", "4",       "--db", database_};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Finished Run(const std::vector<std::string>& args) const { return RunAutocfg(home_, args); }

  Json Trials() const {
    const auto finished = Run({"trials", "--db", database_, "--json"});
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.exit_code == 0 ? Json::parse(finished.out) : Json::array();
  }

  const ScratchDirectory home_;
  const std::string model_;
  const std::string database_;
};

void ExpectOneError(const Finished& finished, int exit_code, const std::vector<std::string>& says) {
  EXPECT_EQ(finished.exit_code, exit_code) << finished.err;
  EXPECT_EQ(finished.out, "");
  for (const auto& part : says)
    EXPECT_NE(finished.err.find(part), std::string::npos) << part << " not in: " << finished.err;
  std::string rest;
  std::istringstream lines(finished.err);
  int errors = 0;
  for (std::string line; std::getline(lines, line);) errors += line.starts_with("autocfg: note:") ? 0 : 1;
  EXPECT_EQ(errors, 1) << finished.err;
}

TEST_F(SearchTest, FindsAndRunsTheBestPlan) {
  const auto best_file = home_ / "best.json";
  const auto finished = Run(SearchArgs({"--max-trials", "4", "--output", best_file, "--json"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer, Json::parse(ReadWhole(best_file)));
  EXPECT_EQ(answer["best"]["provenance"], "measured");
  EXPECT_GT(answer["best"]["measured"]["step_time_s"], 0);
  EXPECT_GT(answer["best"]["measured"]["ci95_s"], 0);
  EXPECT_GT(answer["best"]["predicted"]["step_time_s"], 0);
  EXPECT_EQ(answer["best"]["measured"]["planned_memory_bytes"],
            answer["best"]["predicted"]["memory_bytes"]["total"].get<std::int64_t>() -
                answer["best"]["predicted"]["memory_bytes"]["device_overhead"].get<std::int64_t>())
      << "predicted bytes are reserved bytes";
  const auto& counts = answer["counts"];
  EXPECT_EQ(counts["enumerated"], counts["illegal"].get<int>() + counts["out_of_memory"].get<int>() +
                                      counts["predicted"].get<int>());
  EXPECT_LE(counts["measured"], 4);
  EXPECT_GE(counts["measured"], 1);

  const auto trained = Run({"train", "--input", best_file, "--steps", "3", "--json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json run = Json::parse(trained.out);
  EXPECT_EQ(run["plan"], answer["best"]["plan_text"]);
  EXPECT_EQ(run["losses"].size(), 3u);
  EXPECT_EQ(run["planned_memory_bytes"], answer["best"]["measured"]["planned_memory_bytes"]);

  const auto studies = Run({"studies", "--db", database_, "--json"});
  ASSERT_EQ(studies.exit_code, 0) << studies.err;
  const Json list = Json::parse(studies.out);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["state"], "done");
  EXPECT_EQ(list[0]["study"], answer["study"]);
  EXPECT_FALSE(Trials().empty());
  const auto table = Run({"trials", "--db", database_, "--study", "1"});
  EXPECT_NE(table.out.find(answer["best"]["plan_text"].get<std::string>()), std::string::npos) << table.out;
}

// What was measured of each part of a step comes from the ranks through worker and database to every place
// that shows it.
TEST_F(SearchTest, PartsOfAStepAreShownMeasuredAndPredicted) {
  const auto best_file = home_ / "best.json";
  const auto finished =
      Run(SearchArgs({"--max-trials", "2", "--space", "mbs=1", "--space", "pp=2", "--space", "recompute=full",
                      "--space", "p2p_overlap=0", "--output", best_file, "--json"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json best = Json::parse(finished.out)["best"];
  for (const char* side : {"measured", "predicted"}) {
    SCOPED_TRACE(side);
    const Json& parts = best[side]["breakdown_s"];
    ASSERT_TRUE(parts.is_object()) << best;
    double exposed_s = 0;
    for (const char* part : {"tp_comm", "pp_comm", "dp_comm"}) exposed_s += parts[part].get<double>();
    EXPECT_NEAR(best[side]["exposed_comm_s"], exposed_s, 1e-12);
    for (const char* part : {"compute", "recompute", "pp_comm", "optimizer"})
      EXPECT_GT(parts[part], 0) << part;
    EXPECT_EQ(parts["tp_comm"], 0);
  }
  EXPECT_GE(best["measured"]["hidden_comm_s"], 0);
  const Json trials = Trials();
  ASSERT_FALSE(trials.empty());
  for (const Json& trial : trials) {
    for (const char* side : {"measured", "predicted"}) {
      EXPECT_GT(trial[side]["breakdown_s"]["compute"], 0) << trial;
      EXPECT_TRUE(trial[side]["exposed_comm_s"].is_number()) << trial;
    }
  }
  const auto table = Run({"trials", "--db", database_});
  EXPECT_THAT(table.out, HasSubstr("parts      compute"));
  const auto of_file = Run({"explain", "--input", best_file});
  EXPECT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_THAT(of_file.out, HasSubstr("parts of a step: measured, predicted, difference\n"));
  const auto of_study = Run({"explain", "--study", "1", "--db", database_});
  EXPECT_EQ(of_study.exit_code, 0) << of_study.err;
  EXPECT_THAT(of_study.out, HasSubstr("  recompute "));
  const auto of_trial = Run({"explain", "--study", "1/trials/1", "--db", database_});
  EXPECT_EQ(of_trial.exit_code, 0) << of_trial.err;
  EXPECT_THAT(of_trial.out, HasSubstr(trials[0]["plan_text"].get<std::string>()));
  ExpectOneError(Run({"explain", "--study", "1/trials/99", "--db", database_}), 2,
                 {"--study", "1/trials/99", "autocfg trials"});
}

TEST_F(SearchTest, TextLabelsMeasuredAndPredicted) {
  const auto finished =
      Run(SearchArgs({"--max-trials", "2", "--space", "mbs=1", "--space", "recompute=none"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const std::string next = "next: " + BuildPath("bin/autocfg train");
  for (const char* part :
       {"best plan: ", "(measured)", "predicted", "enumerated", "machine: this one, 2 ranks", next.c_str()}) {
    EXPECT_NE(finished.out.find(part), std::string::npos) << part << " not in\n" << finished.out;
  }
}

// Times the ops of unfused attention, measures plans with it, and predicts their bytes.
TEST_F(SearchTest, MeasuresUnfusedAttentionIfTheSpaceNamesIt) {
  const auto finished = Run(SearchArgs({"--max-trials", "1", "--space", "mbs=1", "--space",
                                        "attention=unfused", "--space", "recompute=selective", "--json"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json best = Json::parse(finished.out)["best"];
  EXPECT_EQ(best["plan"]["attention"], "unfused");
  EXPECT_EQ(best["plan"]["recompute"], "selective");
  EXPECT_EQ(best["provenance"], "measured");
  EXPECT_EQ(best["measured"]["planned_memory_bytes"],
            best["predicted"]["memory_bytes"]["total"].get<std::int64_t>() -
                best["predicted"]["memory_bytes"]["device_overhead"].get<std::int64_t>());
}

// Returns the measured trials, by plan and repeat, with their numbers of attempts.
std::map<std::string, int> Measured(const Json& trials) {
  std::map<std::string, int> measured;
  for (const auto& trial : trials) {
    if (trial["measured"].is_null()) continue;
    measured[trial["plan_text"].get<std::string>() + "#" + std::to_string(trial["repeat"].get<int>())] =
        static_cast<int>(trial["attempts"].size());
  }
  return measured;
}

// Waits until the running search has measured `count` trials. Asks through its socket.
void AwaitMeasured(const ScratchDirectory& home, const std::string& database, const ProgramProcess& search,
                   std::size_t count) {
  for (int i = 0; i < 2000 && search.running(); ++i) {
    if (std::filesystem::exists(database)) {
      const auto trials = RunAutocfg(home, {"trials", "--db", database, "--json"});
      if (trials.exit_code == 0 && Measured(Json::parse(trials.out)).size() >= count) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST_F(SearchTest, KilledSearchResumesFromTheDatabase) {
  const auto args = SearchArgs({"--exhaustive", "--json"});
  std::map<std::string, int> before;
  {
    ProgramProcess search(home_, args);
    AwaitMeasured(home_, database_, search, 2);
    ASSERT_TRUE(search.running()) << "the search was over before it could be killed: " << search.err_so_far();
    const auto ranks = Descendants(search.pid());
    search.Signal(SIGKILL);
    EXPECT_EQ(search.Wait().exit_code, 128 + SIGKILL);
    EXPECT_TRUE(AllEnd(ranks, seconds(10))) << "a rank outlives its launcher";
    before = Measured(Trials());
    ASSERT_GE(before.size(), 2u);
    const auto studies = Run({"studies", "--db", database_, "--json"});
    EXPECT_EQ(Json::parse(studies.out)[0]["state"], "interrupted") << studies.out;
  }
  const auto again = Run(args);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("resuming study 1"), std::string::npos) << again.err;
  EXPECT_EQ(Json::parse(again.out)["study"], "studies/1");
  const auto after = Measured(Trials());
  EXPECT_GE(after.size(), before.size());
  for (const auto& [trial, attempts] : before) {
    ASSERT_TRUE(after.contains(trial)) << trial;
    EXPECT_EQ(after.at(trial), attempts) << trial << " was measured a second time";
  }
}

TEST_F(SearchTest, InterruptedSearchSaysHowToResume) {
  const auto args = SearchArgs({"--exhaustive", "--json"});
  ProgramProcess search(home_, args);
  AwaitMeasured(home_, database_, search, 1);
  ASSERT_TRUE(search.running()) << search.err_so_far();
  search.Signal(SIGINT);
  const auto stopped = search.Wait(seconds(20));
  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_NE(stopped.err.find("the same command resumes it"), std::string::npos) << stopped.err;
  const auto so_far = Json::parse(stopped.out);
  EXPECT_EQ(so_far["best"]["provenance"], "measured") << stopped.out;
  EXPECT_EQ(so_far["search"]["stopped"], "interrupted");
  EXPECT_NE(so_far["notes"].dump().find("the best so far"), std::string::npos) << so_far["notes"];
  const auto studies = Run({"studies", "--db", database_, "--json"});
  ASSERT_EQ(studies.exit_code, 0) << studies.err;
  EXPECT_EQ(Json::parse(studies.out)[0]["end_time_s"], nullptr) << "it is not finished";
  EXPECT_EQ(Json::parse(studies.out)[0]["state"], "interrupted");

  // A different question is answered meanwhile, and the first study waits.
  const auto other =
      Run(SearchArgs({"--space", "mbs=1", "--space", "recompute=none", "--max-trials", "1", "--json"}));
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(Json::parse(other.out)["study"], "studies/2");

  const auto again = Run(args);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(Json::parse(again.out)["study"], "studies/1");
}

TEST_F(SearchTest, SecondSearchOnTheSameDatabaseIsRejected) {
  ProgramProcess first(home_, SearchArgs({"--exhaustive"}));
  AwaitMeasured(home_, database_, first, 1);
  ASSERT_TRUE(first.running()) << first.err_so_far();
  ExpectOneError(Run(SearchArgs()), 2, {database_, std::to_string(first.pid())});
  EXPECT_TRUE(first.running()) << "the first one is not disturbed";
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(seconds(20)).exit_code, 130);
}

// The file contains the answer too, so that the plan of an earlier search is not run instead.
TEST_F(SearchTest, NothingFitsIsAnAnswer) {
  const auto cluster = home_.Write(
      "cluster.json", R"({"device": {"name": "cpu", "memory_bytes": 5000}, "nodes": 1, "gpus_per_node": 2})");
  const auto best_file = home_.Write("best.json", R"({"best": {"plan": "an earlier search's"}})");
  auto args = SearchArgs({"--json", "--output", best_file});
  args[4] = cluster;
  const auto finished = Run(args);
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_NE(finished.err.find("nothing fits: none of the "), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find(" legal plans fits in memory\n"), std::string::npos) << finished.err;
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer, Json::parse(ReadWhole(best_file)));
  EXPECT_TRUE(answer["best"].is_null()) << answer["best"];
  EXPECT_NE(answer["reason"].get<std::string>().find("communication buffers are the largest region ("),
            std::string::npos)
      << answer["reason"];
  EXPECT_EQ(answer["reason"].get<std::string>().find(" bytes"), std::string::npos) << answer["reason"];
  ExpectOneError(Run({"train", "--input", best_file, "--steps", "1"}), 2, {"found no plan that fits"});
}

// A search that ends without an answer leaves the file unchanged.
TEST_F(SearchTest, ErrorKeepsTheOutputFile) {
  const auto best_file = home_.Write("best.json", "kept");
  setenv("AUTOCFG_TRAINER", "/bin/false", 1);
  const auto failed = Run(SearchArgs({"--output", best_file}));
  unsetenv("AUTOCFG_TRAINER");
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_EQ(ReadWhole(best_file), "kept");
}

TEST_F(SearchTest, TrainingThatDoesNotFitNamesSizesAndRegion) {
  // 310 billion parameters on one rank fit no machine that runs this test.
  const auto model = home_.Write(
      "big.json", R"({"layers": 96, "hidden": 16384, "heads": 128, "vocab": 51200, "max_seq_len": 2048})");
  ExpectOneError(Run({"train", "--model", model, "--plan", "tp=1", "--steps", "1"}), 1,
                 {" TiB more than the ", "optimizer states take", "more ranks"});
}

TEST_F(SearchTest, DryRunCountsWithoutComputing) {
  const auto dry =
      Run({"train", "--model", model_, "--plan", "tp=2", "--steps", "1", "--device", "dry", "--json"});
  ASSERT_EQ(dry.exit_code, 0) << dry.err;
  const auto real = Run({"train", "--model", model_, "--plan", "tp=2", "--steps", "1", "--json"});
  ASSERT_EQ(real.exit_code, 0) << real.err;
  EXPECT_EQ(Json::parse(dry.out)["planned_memory_bytes"], Json::parse(real.out)["planned_memory_bytes"]);
  EXPECT_EQ(Json::parse(dry.out)["tokens_per_s"], nullptr);
  EXPECT_EQ(Json::parse(dry.out)["losses"], Json::array());
  const auto table = Run({"train", "--model", model_, "--plan", "tp=2", "--steps", "1", "--device", "dry"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("planned"), std::string::npos) << table.out;
  for (const char* part : {"loss", "measured", "tokens"})
    EXPECT_EQ(table.out.find(part), std::string::npos) << part << " was not there to be seen:\n" << table.out;
}

TEST_F(SearchTest, DivergedRunIsAFailure) {
  const auto finished =
      Run({"train", "--model", model_, "--plan", "dp=2", "--steps", "30", "--lr", "1e6", "--json"});
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  const Json answer = Json::parse(finished.out);
  const auto& losses = answer["losses"];
  std::size_t first = 0;
  while (first < losses.size() && !losses[first].is_null() && !answer["grad_norms"][first].is_null()) ++first;
  ASSERT_LT(first, losses.size()) << "it did not diverge";
  EXPECT_NE(finished.err.find("diverged at step " + std::to_string(first + 1) + ":"), std::string::npos)
      << finished.err;
  EXPECT_EQ(finished.err.find("saved"), std::string::npos) << "nobody asked for that: " << finished.err;
}

// The initial weights are kept and can start the next run.
TEST_F(SearchTest, DivergedRunKeepsTheOldWeights) {
  const auto weights = home_ / "w.safetensors";
  const auto train = [&](const std::string& lr, const std::string& init) {
    std::vector<std::string> args = {"train", "--model", model_, "--plan", "dp=2",  "--steps",
                                     "30",    "--lr",    lr,     "--save", weights, "--json"};
    if (!init.empty()) args.insert(args.end(), {"--init", init});
    return Run(args);
  };
  ASSERT_EQ(train("1e-3", "").exit_code, 0);
  const std::string good = ReadWhole(weights);
  const auto diverged = train("1e6", weights);
  EXPECT_EQ(diverged.exit_code, 1) << diverged.err;
  EXPECT_NE(diverged.err.find(", nothing was saved; use a smaller --lr"), std::string::npos) << diverged.err;
  EXPECT_TRUE(ReadWhole(weights) == good) << "other weights took their place";
  EXPECT_EQ(train("1e-3", weights).exit_code, 0);

  std::string bad = good;  // data follow the header; the last value becomes a NaN
  bad.replace(bad.size() - 4, 4, std::string("\xff\xff\xff\x7f", 4));
  home_.Write("bad.safetensors", bad);
  ExpectOneError(Run({"train", "--model", model_, "--plan", "tp=2", "--steps", "1", "--init",
                      home_ / "bad.safetensors"}),
                 2, {"tensor transformer.", "bad.safetensors holds nan"});
}

TEST_F(SearchTest, FailedCalibrationIsShown) {
  setenv("AUTOCFG_TRAINER", "/bin/false", 1);
  const auto failed = Run(SearchArgs());
  unsetenv("AUTOCFG_TRAINER");
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  const auto trials = Run({"trials", "--db", database_});
  EXPECT_EQ(trials.exit_code, 0) << trials.err;
  EXPECT_NE(trials.err.find("note: the calibration of study 1 failed: "), std::string::npos) << trials.err;
}

TEST_F(SearchTest, ReadersDoNotBlockASearch) {
  ProgramProcess search(home_, SearchArgs({"--exhaustive"}));
  AwaitMeasured(home_, database_, search, 1);
  ASSERT_TRUE(search.running()) << search.err_so_far();
  const auto states = [&] {
    std::vector<std::unique_ptr<ProgramProcess>> readers;
    for (int i = 0; i < 3; ++i)
      readers.push_back(std::make_unique<ProgramProcess>(
          home_, std::vector<std::string>{"studies", "--db", database_, "--json"}));
    std::vector<std::string> found;
    for (auto& reader : readers) {
      const auto finished = reader->Wait();
      EXPECT_EQ(finished.exit_code, 0) << finished.err;
      if (finished.exit_code == 0) found.push_back(Json::parse(finished.out)[0]["state"]);
    }
    return found;
  };
  EXPECT_EQ(states(), std::vector<std::string>(3, "running"));
  search.Signal(SIGKILL);
  search.Wait();
  EXPECT_EQ(states(), std::vector<std::string>(3, "interrupted")) << "at the same time, without a search";
}

TEST_F(SearchTest, BackupBesideASearchIsADatabaseLikeAnyOther) {
  ProgramProcess search(home_, SearchArgs({"--exhaustive"}));
  AwaitMeasured(home_, database_, search, 2);
  const std::string copy = home_ / "copy.db";
  const std::vector<std::string> args = {"db", "backup", "--db", database_, "--output", copy};
  auto in_json = args;
  in_json.emplace_back("--json");
  const auto backup = Run(in_json);
  ASSERT_EQ(backup.exit_code, 0) << backup.err;
  EXPECT_TRUE(search.running()) << search.err_so_far();
  EXPECT_EQ(Json::parse(backup.out)["studies"], 1);
  EXPECT_EQ(Json::parse(backup.out)["bytes"], std::filesystem::file_size(copy));
  const auto trials = Run({"trials", "--db", copy, "--json"});
  ASSERT_EQ(trials.exit_code, 0) << trials.err;
  EXPECT_GE(Json::parse(trials.out).size(), 2u);

  ExpectOneError(Run(args), 2, {copy, "--force"});
  auto forced = args;
  forced.emplace_back("--force");
  const auto again = Run(forced);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("1 study"), std::string::npos) << again.out;
  ExpectOneError(Run({"db", "backup", "--db", copy, "--output", database_, "--force"}), 2,
                 {database_, "in use"});

  // A search goes on from the copy.
  search.Signal(SIGKILL);
  search.Wait();
  const auto resumed = Run({"search", "--model", model_, "--cluster", "local:1x2", "--global-batch", "4",
                            "--db", copy, "--exhaustive", "--json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(Json::parse(resumed.out)["study"], "studies/1");
}

TEST_F(SearchTest, TokenOutsideTheVocabularyIsNamed) {
  const auto data = home_.Write("data.u16", std::string(2000, '\x7f'));  // 0x7f7f
  ExpectOneError(Run({"train", "--model", model_, "--plan", "tp=1", "--steps", "1", "--data", data}), 2,
                 {"32639"});
}

TEST_F(SearchTest, TruncatedWeightsAreRejected) {
  const auto weights = home_ / "w.safetensors";
  ASSERT_EQ(Run({"train", "--model", model_, "--plan", "tp=1", "--steps", "1", "--save", weights, "--json"})
                .exit_code,
            0);
  EXPECT_EQ(Run({"train", "--model", model_, "--plan", "tp=2", "--steps", "1", "--init", weights, "--json"})
                .exit_code,
            0);
  const std::string whole = ReadWhole(weights);
  home_.Write("short.safetensors", whole.substr(0, whole.size() / 2));
  ExpectOneError(Run({"train", "--model", model_, "--plan", "tp=1", "--steps", "1", "--init",
                      home_ / "short.safetensors"}),
                 2, {"--init: ", "short.safetensors is cut off", "copy it again"});
}

TEST_F(SearchTest, InterruptedTrainingEndsItsRanks) {
  ProgramProcess train(home_,
                       {"train", "--model", model_, "--plan", "dp=2", "--steps", "100000000", "--json"});
  const auto limit = std::chrono::steady_clock::now() + seconds(60);
  while (RanksOf(train.pid()).size() < 2 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(seconds(1));  // they most likely train by now
  ASSERT_TRUE(train.running()) << train.err_so_far();
  const auto ranks = Descendants(train.pid());
  EXPECT_GE(RanksOf(train.pid()).size(), 2u);
  train.Signal(SIGINT);
  const auto finished = train.Wait(seconds(20));
  EXPECT_TRUE(AllEnd(ranks, seconds(10))) << "a rank is left behind";
  EXPECT_EQ(finished.exit_code, 130) << finished.err;
  EXPECT_NE(finished.err.find("interrupted"), std::string::npos) << finished.err;
  EXPECT_EQ(finished.out, "");
}

TEST_F(SearchTest, OtherFilesAreNotModified) {
  const std::string text(5000, 'x');
  home_.Write("search.db", text);
  ExpectOneError(Run(SearchArgs()), 2, {database_});
  EXPECT_EQ(ReadWhole(database_), text);
  ExpectOneError(Run({"studies", "--db", database_}), 2, {database_});
}

TEST_F(SearchTest, NewerDatabaseIsNotModified) {
  ASSERT_EQ(Run(SearchArgs({"--max-trials", "1", "--space", "mbs=1", "--space", "recompute=none"})).exit_code,
            0);
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(database_.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "PRAGMA user_version = 9999", nullptr, nullptr, nullptr), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "PRAGMA wal_checkpoint(TRUNCATE)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  const std::string before = ReadWhole(database_);
  ExpectOneError(Run(SearchArgs()), 2, {database_, "newer"});
  ExpectOneError(Run({"trials", "--db", database_}), 2, {database_, "newer"});
  EXPECT_EQ(ReadWhole(database_), before);
}

TEST_F(SearchTest, UnwritableDatabasePath) {
  auto args = SearchArgs();
  args.back() = "/proc/nowhere/search.db";  // not writable by any user, including root
  ExpectOneError(Run(args), 2, {"/proc/nowhere"});
  args.back() = home_.path();
  ExpectOneError(Run(args), 2, {home_.path()});
}

TEST_F(SearchTest, LongDatabasePath) {
  auto args = SearchArgs({"--max-trials", "1", "--space", "mbs=1", "--space", "recompute=none", "--json"});
  const std::string directory = home_ / std::string(150, 'd');
  ASSERT_TRUE(std::filesystem::create_directory(directory));
  args[8] = directory + "/a b.db";
  const auto finished = Run(args);
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
}

}  // namespace
}  // namespace autocfg::cli
