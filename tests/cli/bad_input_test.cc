// Bad input, as a user sees it: one line of error with the problem and its place, the right exit code, and
// nothing on standard output.
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"
#include "tests/cli/one_clear_line.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

struct Case {
  const char* name;
  std::vector<std::string> args;
  int exit_code;
  std::vector<std::string> says;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<std::string> Search(std::vector<std::string> more) {
  std::vector<std::string> args = {"search", "--model", "gpt2-tiny", "--global-batch", "8"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<std::string> Train(const std::string& plan, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"train", "--model", "gpt2-tiny", "--steps", "2", "--plan", plan};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"NoVerb", {}, 2, {"no verb; give one of search, predict"}},
      {"UnknownVerb",
       {"serach"},
       2,
       {"unknown verb 'serach'; expected search, predict", "or version; did you mean search?"}},
      {"UnknownOption", Search({"--modle", "x"}), 2, {"--modle", "--model"}},
      {"MissingValue", {"search", "--model"}, 2, {"--model has no value; give it one"}},
      {"OptionTwice", Search({"--model", "gpt2-124m"}), 2, {"--model is given more than once; give it once"}},
      {"StrayWord", Search({"now"}), 2, {"now"}},
      {"GpusOfASearch",
       Search({"--gpus", "8"}),
       2,
       {"unexpected '--gpus'", "--cluster: local:1x8", "h100-sxm:1x8 (--nodes replaces the nodes)"}},
      {"GpusOfAPrediction",
       {"predict", "--model", "gpt2-tiny", "--num-gpus=4"},
       2,
       {"unexpected '--num-gpus=4'", "h100-sxm:1x4;"}},
      {"GpusOfARun", Train("tp=1", {"--gpus"}), 2, {"unexpected '--gpus'", "tp*pp*dp of --plan"}},
      {"GpusOfAList", {"studies", "--gpus", "2"}, 2, {"unexpected '--gpus'"}},
      {"NoModel", {"search", "--global-batch", "8"}, 2, {"--model is missing"}},
      {"NoBatch", {"search", "--model", "gpt2-tiny"}, 2, {"--global-batch is missing"}},
      {"UnknownModel",
       {"search", "--model", "gpt2-tinny", "--global-batch", "8"},
       2,
       {"gpt2-tinny", "gpt2-tiny"}},
      {"MissingModelFile", {"search", "--model", "./none.json", "--global-batch", "8"}, 2, {"none.json"}},
      {"ZeroBatch", {"search", "--model", "gpt2-tiny", "--global-batch", "0"}, 2, {"--global-batch", "'0'"}},
      {"NegativeBatch",
       {"search", "--model", "gpt2-tiny", "--global-batch", "-8"},
       2,
       {"--global-batch", "'-8'"}},
      {"HugeBatch",
       {"search", "--model", "gpt2-tiny", "--global-batch", "99999999999999999999"},
       2,
       {"--global-batch"}},
      {"FractionalBatch",
       {"search", "--model", "gpt2-tiny", "--global-batch", "1.5"},
       2,
       {"--global-batch", "'1.5'"}},
      {"BatchOfWords",
       {"search", "--model", "gpt2-tiny", "--global-batch", "many"},
       2,
       {"--global-batch", "'many'"}},
      {"NanBatch", {"search", "--model", "gpt2-tiny", "--global-batch", "nan"}, 2, {"--global-batch"}},
      {"LongSequence", Search({"--seq-len", "65"}), 2, {"65", "64"}},
      {"ZeroSequence", Search({"--seq-len", "0"}), 2, {"--seq-len"}},
      {"UnknownCluster", Search({"--cluster", "locall"}), 2, {"locall", "did you mean local"}},
      {"ZeroRanks", Search({"--cluster", "local:1x0"}), 2, {"--cluster"}},
      {"HugeCluster", Search({"--cluster", "local:1x1000000000"}), 2, {"--cluster"}},
      {"TwoNodes", Search({"--cluster", "local:2x2"}), 2, {"one node"}},
      {"GpuCluster",
       Search({"--cluster", "h100-sxm:2x8"}),
       2,
       {"h100-sxm:2x8", "--predict-only", "--device paced"}},
      {"UnknownAxis", Search({"--space", "tpp=1"}), 2, {"--space", "tpp"}},
      {"BadAxisValue", Search({"--space", "schedule=fast"}), 2, {"--space", "fast"}},
      {"NoAxisValue", Search({"--space", "tp="}), 2, {"--space"}},
      {"ZeroTrials", Search({"--max-trials", "0"}), 2, {"--max-trials"}},
      {"FreshPredictionByFigures",
       Search({"--predict-only", "--fresh", "--cluster", "h100-sxm:1x8"}),
       2,
       {"--fresh", "leave it out"}},
      {"ZeroWeight", Search({"--weight", "0"}), 2, {"--weight", "0.01"}},
      {"WeightOfOwnWorkers", Search({"--weight", "2"}), 2, {"--weight", "give --coordinator"}},
      {"WeightOfAPrediction", Search({"--predict-only", "--weight", "2"}), 2, {"--predict-only", "--weight"}},
      {"BadBudget",
       Search({"--time-budget", "soon"}),
       2,
       {"--time-budget", "soon", "or a number with the unit ms, s, m, h or d"}},
      {"BatchBeyondTheBound",
       {"search", "--model", "gpt2-tiny", "--global-batch", "2147483647"},
       2,
       {"--global-batch: invalid value '2147483647'; expected a whole number from 1 to 1000000000"}},
      {"LongestSequence",
       Search({"--seq-len", "2147483647"}),
       2,
       {"--seq-len: invalid value '2147483647'; expected a whole number from 1 to 100000000"}},
      {"TraceOverSave",
       Train("tp=1", {"--trace", "t.out", "--save", "./t.out"}),
       2,
       {"--trace: t.out is also the file of --save"}},
      {"NegativeBudget", Search({"--time-budget=-3m"}), 2, {"--time-budget"}},
      {"Bf16", Search({"--precision", "bf16"}), 2, {"bf16", "not supported yet"}},
      {"UnknownPrecision", Search({"--precision", "fp31"}), 2, {"fp31", "fp32"}},
      {"Cuda", Search({"--device", "cuda"}), 2, {"--device: cuda: no GPU: ", "give cpu"}},
      {"CudaTrain", Train("tp=1", {"--device", "cuda"}), 2, {"--device: cuda: no GPU: ", "give cpu"}},
      {"UnknownDevice",
       Search({"--device", "gpu"}),
       2,
       {"--device: unknown device 'gpu'", "auto, cpu, cuda or paced"}},
      {"PacedLocal", Search({"--device", "paced"}), 2, {"--cluster: local has no figures", "preset"}},
      {"NegativeMargin", Search({"--memory-margin", "-1%"}), 2, {"--memory-margin", "'-1%'", "from 0"}},
      {"RejectedToNowhere",
       Search({"--rejected", Missing("/nonexistent/rejected.csv")}),
       2,
       {Missing("--rejected: /nonexistent/rejected.csv")}},
      {"RejectedToADevice",
       Search({"--rejected", "/dev/null"}),
       2,
       {"--rejected: /dev/null", "regular file"}},
      {"RejectedOverOutput",
       Search({"--rejected", "answer.out", "--output", "./answer.out"}),
       2,
       {"--rejected: answer.out is also the file of --output"}},
      {"EmptyMargin", Search({"--memory-margin", ""}), 2, {"--memory-margin: it is empty"}},
      {"PredictOnlyExhaustive",
       Search({"--predict-only", "--exhaustive"}),
       2,
       {"--predict-only", "--exhaustive"}},
      {"PredictOnlyTrials",
       Search({"--predict-only", "--max-trials", "3"}),
       2,
       {"--predict-only", "--max-trials"}},
      {"PredictOnlyBudget",
       Search({"--predict-only", "--time-budget", "3m"}),
       2,
       {"--predict-only", "--time-budget"}},
      {"PredictOnlyPaced",
       Search({"--predict-only", "--device", "paced"}),
       2,
       {"--predict-only", "--device"}},
      {"CoordinatorNotThere",
       Search({"--coordinator", "localhost:1"}),
       3,
       {"localhost:1: no coordinator answers there"}},
      {"CoordinatorSocketNotThere",
       {"studies", "--coordinator", Missing("unix:/nonexistent/s.sock")},
       3,
       {Missing("unix:/nonexistent/s.sock: no coordinator answers")}},
      {"WorkersOfNone",
       {"workers", "--coordinator", "localhost:1"},
       3,
       {"localhost:1: no coordinator answers there"}},
      {"TrialsOfNone",
       {"trials", "--study", "1", "--coordinator", "localhost:1"},
       3,
       {"localhost:1: no coordinator answers there"}},
      {"WatchOfNone",
       {"watch", "--study", "1", "--coordinator", "localhost:1"},
       3,
       {"localhost:1: no coordinator answers there"}},
      {"CancelOfNone",
       {"cancel", "--study", "1", "--coordinator", "localhost:1"},
       3,
       {"localhost:1: no coordinator answers there"}},
      {"CoordinatorAndDb",
       Search({"--coordinator", "localhost:1", "--db", "x.db"}),
       2,
       {"--coordinator and --db exclude each other", "; leave one of them out"}},
      {"CoordinatorElsewhere",
       Search({"--coordinator", "gpu-head:5000"}),
       2,
       {"--coordinator: gpu-head:5000", "--insecure"}},
      {"CoordinatorNoAddress",
       {"workers", "--coordinator", "gpu-head"},
       2,
       {"--coordinator: address gpu-head: the port is missing", "HOST:PORT"}},
      {"InsecureAlone", Search({"--insecure"}), 2, {"--insecure", "--coordinator"}},
      {"CancelOfNothing", {"cancel"}, 2, {"--study"}},
      {"PauseOfNothing", {"pause"}, 2, {"--study"}},
      {"ResumeOfNone", {"resume", "1", "--coordinator", "localhost:1"}, 3, {"no coordinator answers there"}},
      {"UpdateOfNothing", {"update", "1"}, 2, {"--weight"}},
      {"UpdateToNoWeight", {"update", "1", "--weight", "0"}, 2, {"--weight", "0.01"}},
      {"UpdateOfNone",
       {"update", "1", "--weight", "2", "--coordinator", "localhost:1"},
       3,
       {"no coordinator answers there"}},
      {"DeleteOfNone", {"delete", "1", "--coordinator", "localhost:1"}, 3, {"no coordinator answers there"}},
      {"DeleteOfWords", {"delete", "first"}, 2, {"first"}},
      {"TokensOfNoDatabase", {"token", "list", "--db", "nope.db"}, 2, {"nope.db: there is no such file"}},
      {"RejectedToNoFile", Search({"--rejected", "-"}), 2, {"--rejected: - is no file", "regular file"}},
      {"TokenAlone", {"token"}, 2, {"token: no verb; give one of"}},
      {"TokenWithoutRole", {"token", "create", "ci"}, 2, {"--role is missing; give read, submit"}},
      {"TokenOfNoRole", {"token", "create", "ci", "--role", "root"}, 2, {"--role: unknown role 'root'"}},
      {"TokenToAFileThatIsThere",
       {"token", "create", "ci", "--role", "read", "--db", "new.db", "--output", "/dev/null"},
       2,
       {"--output: /dev/null: cannot be written"}},
      {"TokenOfThePast",
       {"token", "create", "ci", "--role", "read", "--expires", "1s"},
       2,
       {"--expires", "1s"}},
      {"TlsWithoutCoordinator", Search({"--tls"}), 2, {"--tls", "--coordinator"}},
      {"TlsOfNoFile",
       {"workers", "--coordinator", "gpu-head:1", "--tls-ca", Missing("/nonexistent/ca.pem")},
       2,
       {Missing("--tls-ca: /nonexistent/ca.pem: cannot be read")}},
      {"TlsOfASocket",
       {"workers", "--coordinator", "unix:/run/a.sock", "--tls"},
       2,
       {"unix:/run/a.sock", "uses no certificates"}},
      {"TokenOfNoFile",
       {"workers", "--coordinator", "localhost:1", "--token-file", Missing("/nonexistent/t")},
       2,
       {Missing("--token-file: /nonexistent/t: cannot be read")}},
      {"LogOfNoFormat",
       Train("tp=1", {"--log", "file"}),
       2,
       {"--log: 'file' does not end in .csv or .jsonl"}},
      {"PredictOfNoFile", {"predict", "--input=no-such.json"}, 2, {"--input", "no-such.json"}},
      {"WatchMissingDb", {"watch", "--db", Missing("/nonexistent/x.db")}, 2, {Missing("/nonexistent/x.db")}},
      {"TraceNowhere",
       Train("tp=1", {"--trace", Missing("/nonexistent/t.json")}),
       2,
       {"--trace", Missing("/nonexistent/t.json")}},
      {"TraceOfDry", Train("tp=1", {"--trace", "t.json", "--device", "dry"}), 2, {"--trace", "dry"}},
      {"SliceOfWords", Train("tp=1", {"--slice", "first"}), 2, {"--slice", "first"}},
      {"SliceHalf", Train("tp=1", {"--slice", "0,"}), 2, {"--slice: pipeline coordinate: invalid value ''"}},
      {"SliceOfThree",
       Train("tp=1", {"--slice", "0,0,0"}),
       2,
       {"--slice: invalid value '0,0,0'; expected T,P"}},
      {"SliceOutside",
       Train("tp=2", {"--slice", "2,0"}),
       2,
       {"--slice: tensor coordinate: invalid value '2'", "0 to 1"}},
      {"SliceBelow",
       Train("tp=2", {"--slice", "0,-1"}),
       2,
       {"--slice: pipeline coordinate: invalid value '-1'"}},
      {"SaveOfSlice", Train("tp=2", {"--slice", "0,0", "--save", "w.safetensors"}), 2, {"--save", "slice"}},
      {"SaveOfPaced",
       Train("tp=1", {"--device", "paced", "--save", "w.safetensors"}),
       2,
       {"--save", "paced"}},
      {"ClusterOfCpu", Train("tp=1", {"--cluster", "a100-80gb-sxm:1x8"}), 2, {"--cluster", "--device paced"}},
      {"PacedUnknown",
       Train("tp=1", {"--device", "paced", "--cluster", "a100-80gb-sxl:1x8"}),
       2,
       {"--cluster", "a100-80gb-sxm"}},
      {"PacedTooSmall",
       Train("dp=4", {"--device", "paced", "--cluster", "a100-80gb-sxm:1x2"}),
       2,
       {"dp=4", "2 ranks"}},
      {"SplitTooShort", Train("pp=2,split=1+2"), 2, {"split", "add up to"}},
      {"SplitOfWords", Train("pp=2,split=front"), 2, {"--plan", "split=front"}},
      {"InterleavedAlone", Train("pp=2,schedule=interleaved"), 2, {"vpp"}},
      {"UnknownAttention", Train("tp=1,attention=unfusd"), 2, {"attention=unfusd", "did you mean unfused"}},
      {"OutputInNoDirectory",
       Search({"--output", Missing("/nonexistent/dir/best.json")}),
       2,
       {"--output", Missing("/nonexistent/dir")}},
      {"OutputIsNoFile", Search({"--output", "-"}), 2, {"--output: - is no file", "/dev/stdout"}},
      {"DbInNoDirectory",
       Search({"--db", Missing("/nonexistent/x.db")}),
       2,
       {Missing("--db: /nonexistent/x.db: /nonexistent is not a directory")}},
      {"OutputIsDirectory", Search({"--output", "/tmp"}), 2, {"--output", "directory"}},
      {"NoPlan", {"train", "--model", "gpt2-tiny", "--steps", "2"}, 2, {"--plan is missing"}},
      {"NoSteps", {"train", "--model", "gpt2-tiny", "--plan", "tp=1"}, 2, {"--steps is missing"}},
      {"ZeroSteps", {"train", "--model", "gpt2-tiny", "--plan", "tp=1", "--steps", "0"}, 2, {"--steps"}},
      {"PlanOfWords", Train("fast"), 2, {"--plan", "fast"}},
      {"UnknownPlanOption", Train("tpp=2"), 2, {"tpp", "did you mean"}},
      {"ZeroTp", Train("tp=0"), 2, {"tp"}},
      {"HugeTp",
       Train("tp=99999999999999999999"),
       2,
       {"tp=99999999999999999999 is not valid; it must be a whole number from 1"}},
      {"IllegalHeads", Train("tp=3"), 2, {"heads", "tp=3"}},
      {"IllegalLayers", Train("pp=3"), 2, {"layers", "pp=3"}},
      {"IllegalBatch", Train("dp=2,mbs=4", {"--global-batch", "9"}), 2, {"9"}},
      {"TooManyRanks", Train("dp=100000"), 2, {"100000"}},
      {"MissingData",
       Train("tp=1", {"--data", Missing("/nonexistent/data.u16")}),
       2,
       {"--data", Missing("/nonexistent/data.u16")}},
      {"MissingInit",
       Train("tp=1", {"--init", Missing("/nonexistent/w.safetensors")}),
       2,
       {"--init", Missing("/nonexistent/w.safetensors")}},
      {"SaveNowhere",
       Train("tp=1", {"--save", Missing("/nonexistent/w.safetensors")}),
       2,
       {"--save", Missing("/nonexistent/w.safetensors")}},
      {"CheckpointNowhere",
       Train("tp=1", {"--checkpoint", Missing("/nonexistent/a/b")}),
       2,
       {Missing("--checkpoint: /nonexistent/a/b"), Missing("/nonexistent/a is not a directory")}},
      {"FileAsCheckpoint", Train("tp=1", {"--checkpoint", "/dev/null"}), 2, {"--checkpoint: /dev/null"}},
      {"MissingResume",
       Train("tp=1", {"--resume", Missing("/nonexistent/ckpt")}),
       2,
       {Missing("--resume: /nonexistent/ckpt: is not there")}},
      {"FileAsResume",
       Train("tp=1", {"--resume", "/dev/null"}),
       2,
       {"--resume: /dev/null: is not a directory"}},
      {"EmptyResume",
       Train("tp=1", {"--resume", "/proc/self/task"}),
       2,
       {"/proc/self/task holds no checkpoint"}},
      {"SaveEveryAlone", Train("tp=1", {"--save-every", "2"}), 2, {"--save-every", "--checkpoint DIR"}},
      {"SaveEveryZero",
       Train("tp=1", {"--checkpoint", "ckpt", "--save-every", "0"}),
       2,
       {"--save-every", "'0'"}},
      {"ResumeAndInit", Train("tp=1", {"--resume", "/tmp", "--init", "w"}), 2, {"--init", "--resume"}},
      {"CheckpointOfDry",
       Train("tp=1", {"--device", "dry", "--checkpoint", "ckpt"}),
       2,
       {"--checkpoint: the dry device computes no weights"}},
      {"ResumeOfSlice",
       Train("tp=2", {"--slice", "0,0", "--resume", "/tmp"}),
       2,
       {"--resume: a slice has the weights of one rank alone"}},
      {"MissingInput",
       {"train", "--input", Missing("/nonexistent/best.json"), "--steps", "2"},
       2,
       {Missing("/nonexistent/best.json")}},
      {"BadLr", Train("tp=1", {"--lr", "nan"}), 2, {"--lr"}},
      {"NegativeLr", Train("tp=1", {"--lr=-1"}), 2, {"--lr"}},
      {"MinLrAboveLr",
       Train("tp=1", {"--lr", "1e-4", "--min-lr", "1e-3", "--lr-schedule", "cosine"}),
       2,
       {"--min-lr: 1e-3 is above --lr 1e-4", "give no more than --lr"}},
      {"BadBeta", Train("tp=1", {"--beta1", "1"}), 2, {"--beta1"}},
      {"BadSchedule",
       Train("tp=1", {"--lr-schedule", "cosin"}),
       2,
       {"unknown schedule 'cosin'; expected constant or cosine"}},
      {"BadSeed", Train("tp=1", {"--seed", "-1"}), 2, {"--seed"}},
      {"HugeTrainBatch",
       Train("tp=1", {"--global-batch", "1000000000"}),
       2,
       {"--global-batch", "microbatches"}},
      {"HugeDryBatch",
       Train("tp=1", {"--global-batch", "1000000000", "--device", "dry"}),
       2,
       {"--global-batch", "microbatches"}},
      {"LargeSearchBatch",
       {"search", "--model", "gpt2-tiny", "--global-batch", "65537", "--cluster", "local:1x1"},
       2,
       {"--global-batch: 65537"}},
      {"HugeSearchProgram",
       {"search", "--model", "gpt2-tiny", "--global-batch", "65536", "--cluster", "local:1x8"},
       2,
       {"--global-batch", "8 ranks"}},
      {"DeviceAsData", Train("tp=1", {"--data", "/dev/zero"}), 2, {"--data: /dev/zero", "regular file"}},
      {"DeviceAsInit", Train("tp=1", {"--init", "/dev/null"}), 2, {"--init: /dev/null", "regular file"}},
      {"DeviceAsModel",
       {"search", "--model", "/dev/zero", "--global-batch", "8"},
       2,
       {"--model: /dev/zero", "regular file"}},
      {"DeviceAsSave", Train("tp=1", {"--save", "/dev/null"}), 2, {"--save: /dev/null", "regular file"}},
      {"SaveOfDry", Train("tp=1", {"--save", "w.safetensors", "--device", "dry"}), 2, {"--save", "dry"}},
      {"PlanKeyTwice", Train(R"({"tp": 1, "tp": 2})"), 2, {"--plan", "tp", "twice"}},
      {"PlanNoJson", Train("{tp}"), 2, {"--plan: not valid JSON"}},
      {"HugeClip", Train("tp=1", {"--clip-norm", "1e20"}), 2, {"--clip-norm", "1e20"}},
      {"HugeWarmup", Train("tp=1", {"--warmup-steps", "2000000000"}), 2, {"--warmup-steps", "2000000000"}},
      {"SearchDry", Search({"--device", "dry"}), 2, {"dry computes nothing"}},
      {"IllegalWithNotes", Train("tp=1,sp=1,pp=3,zero=1"), 2, {"layers", "pp=3"}},
      {"MissingDatabase",
       {"trials", "--db", Missing("/nonexistent/a.db")},
       2,
       {Missing("/nonexistent/a.db")}},
      {"BadStudy", {"trials", "--study", "first"}, 2, {"--study", "first"}},
      {"ZeroStudy", {"trials", "--study", "0"}, 2, {"--study"}},
      {"NoStudyYet", {"trials"}, 2, {"no studies"}},
  };
  for (const char* option : {"--plan", "--input", "--global-batch", "--seq-len", "--precision", "--data",
                             "--device", "--cluster", "--init", "--save", "--checkpoint", "--save-every",
                             "--resume", "--seed", "--trace", "--slice", "--lr", "--lr-schedule"}) {
    cases.push_back({option,
                     {"train", "--model", "gpt2-tiny", "--steps", "2", option, ""},
                     2,
                     {std::string(option) + ": it is empty"}});
  }
  for (const char* option : {"--cluster", "--seq-len", "--precision", "--space", "--max-trials",
                             "--time-budget", "--device", "--db", "--output", "--weight"})
    cases.push_back({option, Search({option, ""}), 2, {std::string(option) + ": it is empty"}});
  cases.push_back({"TrialsOfNothing", {"trials", "--study", ""}, 2, {"--study: it is empty"}});
  cases.push_back({"ReportWithoutOutput", {"report"}, 2, {"--output", "required"}});
  cases.push_back({"ReportIntoNoDirectory",
                   {"report", "--output", Missing("/nonexistent/r.html")},
                   2,
                   {"--output", Missing("/nonexistent")}});
  cases.push_back({"ReportOfAStudyAndAFile",
                   {"report", "--study", "1", "--input", "best.json", "--output", "r.html"},
                   2,
                   {"--study is for a stored study", "--input"}});
  cases.push_back({"ReportOfADatabaseAndAFile",
                   {"report", "--db", "a.db", "--input", "best.json", "--output", "r.html"},
                   2,
                   {"--db is for a stored study"}});
  cases.push_back({"ReportOfNoFile",
                   {"report", "--input", Missing("/nonexistent/best.json"), "--output", "r.html"},
                   2,
                   {"--input", Missing("/nonexistent/best.json")}});
  cases.push_back({"ReportOfNoStudy", {"report", "--study", "x", "--output", "r.html"}, 2, {"--study", "x"}});
  return cases;
}

class BadInputTest : public testing::TestWithParam<Case> {};

TEST_P(BadInputTest, OneClearLine) {
  ExpectOneClearLine(GetParam().args, GetParam().exit_code, GetParam().says);
}

TEST(BadInput, PipesWithoutWriterDoNotBlock) {
  const ScratchDirectory home;
  const auto pipe = home / "pipe.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<std::vector<std::string>> commands = {Train("tp=1", {"--data", pipe}),
                                                          Train("tp=1", {"--init", pipe}),
                                                          {"train", "--input", pipe, "--steps", "1"},
                                                          {"search", "--model", pipe, "--global-batch", "8"},
                                                          Search({"--cluster", pipe}),
                                                          {"studies", "--db", pipe}};
  for (const auto& command : commands) {
    const auto finished = ProgramProcess(home, command).Wait(std::chrono::seconds(8));
    EXPECT_EQ(finished.exit_code, 2) << finished.err;
    EXPECT_NE(finished.err.find("pipe.json"), std::string::npos) << finished.err;
  }
}

TEST(BadInput, DuplicateKeysInFiles) {
  const ScratchDirectory home;
  const auto model =
      home.Write("m.json", R"({"layers": 2, "layers": 4, "hidden": 32, "heads": 2, "vocab": 100})");
  const auto best = home.Write("best.json", R"({"model": {}, "model": {}, "workload": {}, "best": null})");
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"search", "--model", model, "--global-batch", "8"}, {"train", "--input", best, "--steps", "1"}}) {
    const auto finished = RunAutocfg(home, command);
    EXPECT_EQ(finished.exit_code, 2) << finished.err;
    EXPECT_NE(finished.err.find("named twice"), std::string::npos) << finished.err;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadInputTest, testing::ValuesIn(Cases()), [](const auto& info) {
  std::string name = info.param.name;
  if (!name.starts_with("--")) return name;
  name = info.param.args.front() + name + "Empty";
  std::erase(name, '-');
  return name;
});

TEST(GoodInput, VersionAndHelp) {
  const ScratchDirectory home;
  const auto version = RunAutocfg(home, {"version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(version.out.starts_with("autocfg 0.")) << version.out;
  EXPECT_EQ(version.err, "");
  const auto json = RunAutocfg(home, {"version", "--json"});
  EXPECT_NE(json.out.find("\"build_id\""), std::string::npos) << json.out;
  const auto help = RunAutocfg(home, {"search", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("--global-batch"), std::string::npos);
  EXPECT_NE(help.out.find("--coordinator"), std::string::npos);
  EXPECT_EQ(RunAutocfg(home, {"help", "search"}).out, help.out);
  EXPECT_EQ(RunAutocfg(home, {"help"}).out, RunAutocfg(home, {"--help"}).out);
  const auto unknown = RunAutocfg(home, {"help", "serach"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("did you mean search"), std::string::npos) << unknown.err;
}

TEST(GoodInput, PresetsAreListed) {
  const ScratchDirectory home;
  const auto models = RunAutocfg(home, {"models"});
  EXPECT_EQ(models.exit_code, 0) << models.err;
  for (const char* word : {"qwen3-8b", "8.19 B", "config.json", "seed_oss"})
    EXPECT_NE(models.out.find(word), std::string::npos) << word;
  const auto json = nlohmann::json::parse(RunAutocfg(home, {"models", "--json"}).out);
  EXPECT_EQ(json["presets"].size(), ModelPresetNames().size());
  EXPECT_EQ(json["presets"][0]["name"], ModelPresetNames()[0]);
  EXPECT_GT(json["presets"][0]["parameters"], 0);
  EXPECT_GT(json["config_types"].size(), 45);
  const auto clusters = RunAutocfg(home, {"clusters"});
  EXPECT_EQ(clusters.exit_code, 0) << clusters.err;
  for (const char* word : {"mi300x", "gb300", "h100-sxm:16x8"})
    EXPECT_NE(clusters.out.find(word), std::string::npos) << word;
  EXPECT_EQ(nlohmann::json::parse(RunAutocfg(home, {"clusters", "--json"}).out).size(),
            DevicePresetNames().size());
  EXPECT_EQ(RunAutocfg(home, {"models", "llama3-8b"}).exit_code, 2);
}

TEST(GoodInput, StudiesWithoutADatabase) {
  const ScratchDirectory home;
  const auto finished = RunAutocfg(home, {"studies", "--json"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished.out, "[]\n");
  EXPECT_FALSE(std::filesystem::exists(home / "autocfg")) << "reading made a database";
}

}  // namespace
}  // namespace autocfg::cli
