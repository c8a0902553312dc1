// Searches that measure with another engine: a training script in PyTorch (tests/support/torch_engine), and
// the ways in which it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "worker/engines/node_address.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPython = "/usr/bin/python3";
constexpr const char* kTorchModel =
    R"({"name": "smallest", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})";

bool HasTorch() {
  static const bool has =
      std::system("/usr/bin/python3 -c 'import torch, torch.distributed' >/dev/null 2>&1") == 0;
  return has;
}

// Returns the file of the test's engine, started once per rank on one plan of two ranks.
Json TorchEngine() {
  return Json::parse(R"json({
    "name": "torch-gpt",
    "version": {"command": ["/usr/bin/python3", "-c", "import torch; print('torch', torch.__version__)"]},
    "format": "autocfg",
    "start": "rank",
    "command": ["/usr/bin/python3", "-B", "SCRIPT", "--plan", "{file}", "--steps", "{steps}", "--rank", "{rank}",
                "--world", "{ranks}", "--master-address", "{master_address}", "--master-port", "{master_port}"],
    "limits": {"start_s": 120, "stall_s": 60},
    "space": ["pp=1", "sp=0", "zero=0", "recompute=none", "attention=unfused", "tp_overlap=1", "grad_overlap=0",
              "param_overlap=0", "mbs=2"],
    "log": {
      "lines": "json",
      "step": {"field": "step"},
      "step_time": {"field": "step_time_s", "unit": "s"},
      "loss": {"field": "loss"},
      "peak_memory": {"field": "memory.peak_bytes", "unit": "B"},
      "out_of_memory": {"pattern": "can't allocate memory", "exit_statuses": [17]},
      "failure": {"pattern": "^(\\w*Error: .*)"},
      "peer_lost": {"pattern": "Connection (?:closed|reset) by peer"}
    }
  })json");
}

class EngineSearchTest : public testing::Test {
 protected:
  EngineSearchTest() : model_(home_.Write("model.json", kTorchModel)), database_(home_ / "search.db") {
    std::filesystem::create_directory(home_ / "engines");
  }
  void SetUp() override {
    if (!HasTorch()) GTEST_SKIP() << "no PyTorch in " << kPython << " (python3-torch)";
  }

  // Writes the engine's file, with more arguments of its script.
  std::string Engines(Json engine, const std::vector<std::string>& more = {}) const {
    for (auto& word : engine["command"]) {
      if (word == "SCRIPT") word = SourcePath("tests/support/torch_engine/train.py");
    }
    for (const std::string& word : more) engine["command"].push_back(word);
    home_.Write("engines/torch.json", engine.dump());
    return home_ / "engines";
  }
  std::vector<std::string> Args(const std::string& engines, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"search",         "--model",   model_,  "--cluster", "local:1x2",
                                     "--global-batch", "4",         "--db",  database_,   "--engine",
                                     "torch-gpt",      "--engines", engines, "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Json Trials() const {
    const auto finished = RunAutocfg(home_, {"trials", "--db", database_, "--json"});
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.exit_code == 0 ? Json::parse(finished.out) : Json::array();
  }
  // Searches one plan with a fault. Returns its only trial.
  Json FaultyTrial(const std::string& fault, Json engine = TorchEngine(), const std::string& rank = "1") {
    const std::string engines = Engines(std::move(engine), {"--fault", fault, "--fault-rank", rank});
    const auto finished = RunAutocfg(home_, Args(engines, {"--space", "tp=2", "--max-trials", "1"}));
    last_err_ = finished.err;
    const Json trials = Trials();
    EXPECT_GE(trials.size(), 1u) << finished.err;
    return trials.empty() ? Json::object() : trials[0];
  }

  const ScratchDirectory home_;
  const std::string model_;
  const std::string database_;
  std::string last_err_;
};

TEST_F(EngineSearchTest, MeasuresAndRecommendsWithItsProvenance) {
  const std::string best_file = home_ / "best.json";
  const auto finished =
      RunAutocfg(home_, Args(Engines(TorchEngine()), {"--max-trials", "2", "--output", best_file}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("engine torch-gpt runs pp=1, sp=0"));
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["engine"], "torch-gpt");
  const Json& best = answer["best"];
  EXPECT_EQ(best["provenance"], "measured");
  EXPECT_EQ(best["measured"]["engine"], "torch-gpt");
  EXPECT_THAT(best["measured"]["engine_version"].get<std::string>(), HasSubstr("torch "));
  EXPECT_GT(best["measured"]["step_time_s"], 0);
  EXPECT_GT(best["measured"]["peak_memory_bytes"], 10 << 20) << "of the whole process";
  EXPECT_EQ(best["plan"]["pp"], 1);
  EXPECT_GT(best["predicted"]["step_time_s"], 0);
  EXPECT_TRUE(best.contains("corrected") || best["corrected"].is_null());
  for (const Json& trial : Trials()) {
    EXPECT_EQ(trial["state"], "measured") << trial.dump(2);
    EXPECT_EQ(trial["measured"]["engine"], "torch-gpt");
  }
  const auto exported = RunAutocfg(home_, {"export", "--input", best_file, "--to", "autocfg"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("torch-gpt torch "));
}

// The same losses under each layout: what is measured is one training.
TEST_F(EngineSearchTest, EveryLayoutTrainsTheSame) {
  const auto losses = [&](int tp, int dp) {
    Json plan = Json::parse(R"({"workload": {"global_batch": 4, "seq_len": 16, "precision": "fp64"},
      "best": {"plan": {"pp": 1, "micro_batch": 2, "sequence_parallel": false, "zero_stage": 0,
                        "recompute": "none"}}})");
    plan["model"] = Json::parse(kTorchModel);
    for (const auto& [name, value] : std::map<std::string, Json>{{"kv_heads", 2},
                                                                 {"ffn_hidden", 128},
                                                                 {"activation", "gelu"},
                                                                 {"norm", "layernorm"},
                                                                 {"position", "learned"}})
      plan["model"][name] = value;
    plan["best"]["plan"]["tp"] = tp;
    plan["best"]["plan"]["dp"] = dp;
    const std::string file = home_.Write("plan.json", plan.dump());
    const std::string command = "/usr/bin/python3 -B " + SourcePath("tests/support/torch_engine/train.py") +
                                " --spawn " + std::to_string(tp * dp) + " --world " +
                                std::to_string(tp * dp) + " --master-port " +
                                std::to_string(worker::FreePort::Take()->number()) + " --plan " + file +
                                " --steps 5 >" + (home_ / "log") + " 2>" + (home_ / "err");
    EXPECT_EQ(std::system(command.c_str()), 0) << ReadWhole(home_ / "err");
    std::vector<double> found;
    std::istringstream lines(ReadWhole(home_ / "log"));
    for (std::string line; std::getline(lines, line);) found.push_back(Json::parse(line)["loss"]);
    return found;
  };
  const std::vector<double> one = losses(1, 1);
  ASSERT_EQ(one.size(), 5u);
  EXPECT_LT(one.back(), one.front() - 0.01) << "it learns";
  for (const auto& [tp, dp] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
    const std::vector<double> other = losses(tp, dp);
    ASSERT_EQ(other.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], 1e-9) << tp << " " << dp;
  }
}

TEST_F(EngineSearchTest, ACrashIsTheRanksOwnError) {
  const Json trial = FaultyTrial("crash");
  EXPECT_EQ(trial["state"], "failed");
  EXPECT_EQ(trial["message"], "rank 1: RuntimeError: injected crash of the test engine");
  EXPECT_EQ(trial["attempts"].size(), 1u) << "it would crash again";
}

TEST_F(EngineSearchTest, AKilledRankIsTriedAgain) {
  const Json trial = FaultyTrial("killed");
  EXPECT_EQ(trial["state"], "failed");
  EXPECT_THAT(trial["message"].get<std::string>(), HasSubstr("rank 1: killed by signal 9"));
  EXPECT_EQ(trial["attempts"].size(), 3u);
}

TEST_F(EngineSearchTest, OutOfMemoryIsAnAnswer) {
  Json trial = FaultyTrial("oom");
  EXPECT_EQ(trial["state"], "infeasible") << trial.dump(2);
  EXPECT_THAT(trial["message"].get<std::string>(), HasSubstr("can't allocate memory"));
  std::filesystem::remove(database_);
  trial = FaultyTrial("oom-status", TorchEngine(), "0");
  EXPECT_EQ(trial["state"], "infeasible") << trial.dump(2);
  EXPECT_THAT(trial["message"].get<std::string>(), HasSubstr("rank 0: out of memory: exit status 17"));
}

TEST_F(EngineSearchTest, HangsTimeOutAndNothingIsLeft) {
  Json engine = TorchEngine();
  engine["limits"]["stall_s"] = 3;
  Json trial = FaultyTrial("stubborn", engine, "0");
  EXPECT_EQ(trial["state"], "timed_out") << trial.dump(2);
  EXPECT_THAT(trial["message"].get<std::string>(), HasSubstr("no step and no end within stall_s, 3 s"));
  EXPECT_TRUE(std::system(fmt::format("pgrep -f '{}.*stubborn' >/dev/null",
                                      SourcePath("tests/support/torch_engine/trai[n].py"))
                              .c_str()) != 0)
      << "a rank is left";
  std::filesystem::remove(database_);
  engine["limits"] = {{"start_s", 8}};
  trial = FaultyTrial("never", engine, "1");
  EXPECT_EQ(trial["state"], "timed_out") << trial.dump(2);
  EXPECT_THAT(trial["message"].get<std::string>(),
              HasSubstr("no step within start_s, 8 s; ranks 0, 1 wrote nothing to their log"));
}

TEST_F(EngineSearchTest, GarbageInTheLogDoesNotMatter) {
  const Json trial = FaultyTrial("garbage", TorchEngine(), "0");
  EXPECT_EQ(trial["state"], "measured") << trial.dump(2);
  EXPECT_LT(trial["measured"]["step_time_s"], 100);
}

TEST_F(EngineSearchTest, ALogThatMatchesNothingFailsTheTrialWithItsEnd) {
  Json engine = TorchEngine();
  engine["log"]["step_time"]["field"] = "seconds";
  const Json trial = FaultyTrial("garbage", engine, "1");
  EXPECT_EQ(trial["state"], "failed") << trial.dump(2);
  EXPECT_THAT(trial["message"].get<std::string>(),
              testing::AllOf(HasSubstr("its log tells of no timed step"), Not(HasSubstr("autocfg trials")),
                             HasSubstr("last line: {\"step\": ")));
  EXPECT_THAT(last_err_, HasSubstr("see autocfg trials --db " + database_ + " --study 1 --log 1"));
  const auto log = RunAutocfg(home_, {"trials", "--db", database_, "--log", "studies/1/trials/1"});
  EXPECT_EQ(log.exit_code, 0) << log.err;
  EXPECT_THAT(log.out, testing::AllOf(HasSubstr("attempt 1, failed on workers/"), HasSubstr("rank 0:\n"),
                                      HasSubstr("{\"step\": ")));
}

TEST_F(EngineSearchTest, WrongOptionsAreRefused) {
  struct Wrong {
    std::vector<std::string> args;
    const char* says;
  };
  const std::string engines = Engines(TorchEngine());
  const std::vector<std::string> base = {"search", "--model", model_,   "--global-batch",
                                         "4",      "--db",    database_};
  for (const Wrong& wrong :
       {Wrong{{"--cluster", "local:1x2", "--engine", "megatron"},
              "give the directory of its file with --engines; to predict it, add --predict-only"},
        {{"--cluster", "local:1x2", "--engine", "foo"},
         "no engine of the name foo is known here; to measure it, give the directory of its file with "
         "--engines"},
        {{"--cluster", "local:1x2", "--engine", "megatron", "--engines", engines},
         "--engines has no file of megatron; expected torch-gpt"},
        {{"--cluster", "local:1x2", "--engine", "a b", "--engines", engines}, "'a b' is no engine's name"},
        {{"--cluster", "local:1x2", "--engines", home_ / "none"}, "is no directory"},
        {{"--cluster", "local:1x2", "--engine", "megatron", "--predict-only"},
         "only autocfg is predicted on"},
        {{"--cluster", "h100-sxm:1x2", "--engine", "torch-gpt", "--engines", engines},
         "measures whole plans"},
        {{"--cluster", "h100-sxm:1x2", "--predict-only", "--engines", engines},
         "--predict-only runs no engine"},
        {{"--coordinator", "unix:" + (home_ / "none"), "--engines", engines}, ""}}) {
    std::vector<std::string> args = base;
    if (wrong.args[0] == "--coordinator") args = {args.begin(), args.end() - 2};
    args.insert(args.end(), wrong.args.begin(), wrong.args.end());
    const auto finished = RunAutocfg(home_, args);
    EXPECT_THAT(finished.exit_code, AnyOf(2, 3)) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(wrong.says));
  }
  Json engine = TorchEngine();
  engine["command"].push_back("{rnak}");
  const auto finished = RunAutocfg(home_, Args(Engines(engine)));
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.err, HasSubstr("torch.json: engine: command: unknown placeholder {rnak}"));
}

// Two workers as two nodes of a plan: its ranks meet at the first one's address. The log of the last rank
// tells of the steps, so the first worker's own log tells nothing.
class EngineGangTest : public EngineSearchTest {
 protected:
  std::unique_ptr<ProgramProcess> Start(const std::string& program, const std::vector<std::string>& args) {
    return std::make_unique<ProgramProcess>(home_, args, "/dev/null", program);
  }
  std::unique_ptr<ProgramProcess> Worker(const std::string& name, const std::string& engines) {
    std::vector<std::string> args = {"--coordinator", address_, "--name",  name,
                                     "--devices",     "cpu",    "--slots", "1"};
    if (!engines.empty()) args.insert(args.end(), {"--engines", engines});
    return Start("autocfg-worker", args);
  }
  static Json NodeEngine() {
    Json engine = TorchEngine();
    engine["start"] = "node";
    engine["command"] = Json::parse(R"json(["/bin/sh", "-c", "echo node $1 of $2; shift 2; exec \"$@\"", "sh",
      "{node_rank}", "{nodes}", "/usr/bin/python3", "-B", "SCRIPT", "--spawn", "{ranks_per_node}",
      "--rank", "{first_rank}", "--world", "{ranks}", "--master-address", "{master_address}",
      "--master-port", "{master_port}", "--plan", "{file}", "--steps", "{steps}", "--log", "text",
      "--log-rank", "-1"])json");
    engine["log"] = Json::parse(R"json({
      "step": {"pattern": "step (\\d+)/"},
      "step_time": {"pattern": "time ([\\d.,]+) ms", "unit": "ms"},
      "loss": {"pattern": "loss (\\S+)"},
      "peak_memory": {"pattern": "peak ([\\d.,]+) MiB", "unit": "MiB"},
      "failure": {"pattern": "^(\\w*Error: .*)"},
      "peer_lost": {"pattern": "Connection (?:closed|reset) by peer"}
    })json");
    return engine;
  }
  std::vector<std::string> RemoteArgs(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {
        "search", "--model",  model_,      "--global-batch", "4", "--space", "tp=2", "--coordinator",
        address_, "--engine", "torch-gpt", "--max-trials",   "1", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  const std::string address_ = "unix:" + (home_ / "server.sock");
  std::unique_ptr<ProgramProcess> server_ =
      Start("autocfg-server", {"--listen", address_, "--db", home_ / "server.db"});
};

TEST_F(EngineGangTest, TwoWorkersAreTwoNodes) {
  const std::string engines = Engines(NodeEngine());
  const auto one = Worker("one", engines);
  const auto two = Worker("two", engines);
  Finished listed;
  for (int i = 0; i < 600; ++i) {
    listed = RunAutocfg(home_, {"workers", "--coordinator", address_, "--json"});
    if (listed.exit_code == 0 && Json::parse(listed.out).size() == 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  const Json workers = Json::parse(listed.out);
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(workers[0]["engines"][0]["name"], "torch-gpt");
  EXPECT_THAT(workers[0]["engines"][0]["version"].get<std::string>(), HasSubstr("torch "));
  const auto finished = RunAutocfg(home_, RemoteArgs());
  ASSERT_EQ(finished.exit_code, 0) << finished.err << one->err_so_far() << two->err_so_far();
  const Json answer = Json::parse(finished.out);
  EXPECT_EQ(answer["best"]["provenance"], "measured") << finished.err << one->err_so_far();
  EXPECT_EQ(answer["best"]["measured"]["engine"], "torch-gpt");
  EXPECT_GT(answer["best"]["measured"]["peak_memory_bytes"], 10 << 20);
  const auto trials = RunAutocfg(home_, {"trials", "--coordinator", address_, "--json"});
  EXPECT_EQ(Json::parse(trials.out)[0]["attempts"][0]["workers"].size(), 2u) << trials.out;
}

TEST_F(EngineGangTest, ACrashOnOneNodeIsAttributedToItsWorker) {
  const std::string engines = Engines(NodeEngine(), {"--fault", "crash", "--fault-rank", "1"});
  const auto one = Worker("one", engines);
  const auto two = Worker("two", engines);
  for (int i = 0; i < 600; ++i) {
    const auto listed = RunAutocfg(home_, {"workers", "--coordinator", address_, "--json"});
    if (listed.exit_code == 0 && Json::parse(listed.out).size() == 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  RunAutocfg(home_, RemoteArgs());
  const auto trials = RunAutocfg(home_, {"trials", "--coordinator", address_, "--json"});
  ASSERT_EQ(trials.exit_code, 0) << trials.err;
  const Json trial = Json::parse(trials.out)[0];
  EXPECT_EQ(trial["state"], "failed") << trial.dump(2);
  EXPECT_THAT(trial["message"].get<std::string>(),
              HasSubstr("RuntimeError: injected crash of the test engine"));
  const auto log = RunAutocfg(home_, {"trials", "1", "--log", "1", "--coordinator", address_, "--json"});
  ASSERT_EQ(log.exit_code, 0) << log.err;
  EXPECT_THAT(Json::parse(log.out)[0]["log"].get<std::string>(),
              testing::AllOf(HasSubstr("node 0 of 2"), HasSubstr("node 1 of 2"),
                             HasSubstr("RuntimeError: injected crash of the test engine")));
}

TEST_F(EngineGangTest, WaitsForAWorkerThatOffersTheEngine) {
  const auto plain = Worker("plain", "");
  for (int i = 0; i < 600; ++i) {
    const auto listed = RunAutocfg(home_, {"workers", "--coordinator", address_, "--json"});
    if (listed.exit_code == 0 && Json::parse(listed.out).size() == 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const ProgramProcess search(
      home_, {"search", "--model", model_, "--global-batch", "4", "--coordinator", address_, "--engine",
              "torch-gpt", "--max-trials", "1", "--space", "mbs=4"});
  const std::string says = "no running cpu worker offers engine torch-gpt; start one with --engines DIR";
  for (int i = 0; i < 600 && search.err_so_far().find(says) == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_THAT(search.err_so_far(), HasSubstr(says));
  // Before anything is measured.
  const std::string first =
      "--engine: no worker of " + address_ +
      " offers torch-gpt (they offer no engine beside autocfg); the study measures op times";
  EXPECT_LT(search.err_so_far().find(first), search.err_so_far().find("study 1 of ")) << search.err_so_far();
}

TEST_F(EngineGangTest, AMistypedEngineIsSaidFirst) {
  const auto one = Worker("one", Engines(NodeEngine()));
  for (int i = 0; i < 600; ++i) {
    const auto listed = RunAutocfg(home_, {"workers", "--coordinator", address_, "--json"});
    if (listed.exit_code == 0 && Json::parse(listed.out).size() == 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const ProgramProcess search(
      home_, {"search", "--model", model_, "--global-batch", "4", "--coordinator", address_, "--engine",
              "torch-gtp", "--max-trials", "1", "--space", "mbs=4"});
  const std::string says = "offers torch-gtp (they offer torch-gpt; did you mean torch-gpt?)";
  for (int i = 0; i < 600 && search.err_so_far().find(says) == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_THAT(search.err_so_far(), HasSubstr(says));
}

}  // namespace
}  // namespace autocfg::cli
