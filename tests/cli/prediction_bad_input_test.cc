// Bad input to `predict` and `explain`, as a user sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/cli/one_clear_line.h"
#include "tests/support/missing_path.h"

namespace autocfg::cli {
namespace {

// Returns the arguments with one option changed or added; an empty value removes the option.
std::vector<std::string> Ask(const std::string& verb, const std::string& option = "",
                             const std::string& value = "") {
  std::vector<std::pair<std::string, std::string>> options = {{"--model", "gpt2-124m"},
                                                              {"--cluster", "a100-80gb-sxm:1x8"},
                                                              {"--global-batch", "64"},
                                                              {"--plan", "tp=2,pp=2,dp=2,mbs=2"}};
  bool found = option.empty();
  for (auto& [name, text] : options) {
    if (name == option) text = value, found = true;
  }
  if (!found) options.emplace_back(option, value);
  std::vector<std::string> args = {verb};
  for (const auto& [name, text] : options) {
    if (!text.empty()) args.insert(args.end(), {name, text});
  }
  return args;
}

struct PredictionCase {
  const char* name;
  const char* option;
  std::string value;
  std::vector<std::string> says;
};
void PrintTo(const PredictionCase& c, std::ostream* out) { *out << c.name; }

class PredictionBadInputTest : public testing::TestWithParam<std::tuple<const char*, PredictionCase>> {};

TEST_P(PredictionBadInputTest, OneClearLine) {
  const auto& [verb, bad] = GetParam();
  ExpectOneClearLine(Ask(verb, bad.option, bad.value), 2, bad.says);
}

INSTANTIATE_TEST_SUITE_P(
    All, PredictionBadInputTest,
    testing::Combine(
        testing::Values("predict", "explain"),
        testing::Values(
            PredictionCase{"NoModel", "--model", "", {"--model is missing"}},
            PredictionCase{"NoCluster", "--cluster", "", {"--cluster is missing", "preset"}},
            PredictionCase{"NoBatch", "--global-batch", "", {"--global-batch is missing"}},
            PredictionCase{"NoPlan", "--plan", "", {"--plan is missing"}},
            PredictionCase{
                "Local",
                "--cluster",
                "local",
                {"--cluster: ", "op times of this machine",
                 "autocfg search --predict-only --model gpt2-124m --cluster local --global-batch 64"}},
            PredictionCase{"LocalSized", "--cluster", "local:1x4", {"--cluster: ", "--cluster local:1x4"}},
            PredictionCase{"LocalNodes", "--cluster", "local:2x2", {"--cluster: local:2x2", "one node"}},
            PredictionCase{"UnknownModel", "--model", "gpt2-124k", {"--model", "gpt2-124m"}},
            PredictionCase{"UnknownCluster", "--cluster", "a100-80gb:1x8", {"--cluster", "a100-80gb-sxm"}},
            PredictionCase{"BadSize", "--cluster", "a100-80gb-sxm:8", {"--cluster", "NODESxRANKS"}},
            PredictionCase{"ZeroNodes", "--cluster", "a100-80gb-sxm:0x8", {"--cluster", "0x8"}},
            PredictionCase{"IllegalHeads", "--plan", "tp=7", {"illegal plan tp=7", "heads"}},
            PredictionCase{"TooManyRanks", "--plan", "dp=64", {"more than the 8 ranks"}},
            PredictionCase{"Split", "--plan", "pp=2,split=6+5", {"split", "add up to 12"}},
            PredictionCase{"IllegalBatch", "--global-batch", "63", {"63", "not divisible"}},
            PredictionCase{"HugeBatch", "--global-batch", "99999999999", {"--global-batch"}},
            PredictionCase{"LongSequence", "--seq-len", "2048", {"2048", "1024", "learned positions"}},
            PredictionCase{"WholeMargin", "--memory-margin", "100%", {"--memory-margin", "'100%'", "below"}},
            PredictionCase{"WrongMargin", "--memory-margin", "five", {"--memory-margin", "'five'", "5%"}},
            PredictionCase{"UnknownPrecision", "--precision", "fp4", {"--precision", "fp4", "bf16"}},
            PredictionCase{"Fp64OnAGpu", "--precision", "fp64", {"--cluster", "fp64 is for CPUs only"}})),
    [](const auto& info) { return std::string(std::get<0>(info.param)) + std::get<1>(info.param).name; });

// An empty value is rejected for every verb, not treated as a missing option.
TEST(PredictionBadInput, RejectsEmptyValues) {
  for (const std::string verb : {"predict", "explain"}) {
    for (const std::string option : {"--model", "--cluster", "--global-batch", "--plan", "--seq-len",
                                     "--precision", "--memory-margin"}) {
      std::vector<std::string> args = {verb, option, ""};
      const auto rest = Ask(verb, option, "");  // the other options
      args.insert(args.end(), rest.begin() + 1, rest.end());
      ExpectOneClearLine(args, 2, {option + ": it is empty"});
    }
  }
  auto trace = Ask("predict");
  trace.insert(trace.end(), {"--trace", ""});
  ExpectOneClearLine(trace, 2, {"--trace: it is empty"});
}

TEST(PredictionBadInput, RejectsOptionsOfOtherVerbs) {
  ExpectOneClearLine(Ask("explain", "--against", "tp=7"), 2, {"--against: illegal plan tp=7"});
  ExpectOneClearLine(Ask("explain", "--against", "best"), 2, {"--against: 'best'"});
  ExpectOneClearLine(Ask("predict", "--trace", Missing("/nonexistent/t.json")), 2,
                     {Missing("--trace: /nonexistent/t.json")});
  ExpectOneClearLine({"predict", "--requests", "r.jsonl", "--model", "gpt2-tiny"}, 2,
                     {"--requests", "--model"});
  ExpectOneClearLine({"predict", "--requests", "r.jsonl", "--trace", "t.json"}, 2, {"--requests", "--trace"});
  ExpectOneClearLine({"predict", "--requests", ""}, 2, {"--requests: it is empty"});
  auto against_nothing = Ask("explain");
  against_nothing.insert(against_nothing.end(), {"--against", ""});
  ExpectOneClearLine(against_nothing, 2, {"--against: it is empty"});
  ExpectOneClearLine({"predict", "--requests", Missing("/nonexistent/r.jsonl")}, 2,
                     {Missing("--requests: /nonexistent/r.jsonl")});
  ExpectOneClearLine({"predict", "--requests", "/tmp"}, 2, {"--requests: /tmp", "directory"});
  ExpectOneClearLine({"predict", "--requests", "/dev/zero"}, 2, {"--requests: /dev/zero", "regular file"});
  ExpectOneClearLine({"doctor", "--all"}, 2, {"--all"});
}

TEST(PredictionBadInput, EvidenceIsOfOneSource) {
  const ScratchDirectory home;
  const std::string empty = home.Write("best.json", "{}");
  ExpectOneClearLine({"explain", "--input", empty, "--study", "1"}, 2,
                     {"--input", "--study", "exclude each other"});
  ExpectOneClearLine({"explain", "--input", empty, "--db", "x.db"}, 2, {"--input", "--db", "exclude"});
  ExpectOneClearLine(Ask("explain", "--db", "x.db"), 2, {"--db is for a stored study", "--study"});
  ExpectOneClearLine({"explain", "--input", empty}, 2, {"--input: " + empty, "is missing; give a file"});
  ExpectOneClearLine({"explain", "--input", home / "none.json"}, 2, {"--input: ", "none.json"});
  ExpectOneClearLine({"explain", "--study", "soon", "--db", home / "none.db"}, 2, {"none.db"});
}

TEST(PredictionBadInput, ModelFilesNameTheField) {
  const ScratchDirectory home;
  const std::pair<std::string, std::vector<std::string>> wrong[] = {
      {R"("depth": 3)", {"unknown field depth"}},
      {R"("kv_heads": 3)", {"kv_heads", "heads"}},
      {R"("residual_scale": -0.5)", {"residual_scale"}},
      {R"("norm": "batchnorm")", {"norm", "batchnorm", "rmsnorm"}},
      {R"("head_dim": 15, "position": "rope")", {"head_dim", "even"}},
      {R"("layer_kinds": [{"layers": 3, "window": 0}, {"layers": 1}])",
       {"layer_kinds[0]", "window is 0; it must be at least 1"}},
      {R"("layer_kinds": [{"layers": 3, "window": 8}, {"layers": 2}])",
       {"layer_kinds has runs of 5 layers in all, but layers is 4"}},
      {R"("layer_kinds": [{"layers": 4, "experts": true}])",
       {"layer_kinds[0]", "experts true", "not supported yet"}},
      {R"("layer_kinds": [{"layers": 4, "window": 8}], "sliding_window": 8)",
       {"sliding_window and layer_kinds are both given"}},
      {R"("max_seq_len": 32, "position": "rope", "max_seq_len": 64)", {"max_seq_len", "twice"}}};
  for (const auto& [fields, says] : wrong) {
    const auto file =
        home.Write("m.json", R"({"layers": 4, "hidden": 64, "heads": 4, "vocab": 512, )" + fields + "}");
    auto parts = says;
    parts.emplace_back("m.json");
    ExpectOneClearLine(Ask("predict", "--model", file), 2, parts);
  }
}

// A scaling without its parameters is predicted, with a note; the engine does not run it.
TEST(PredictionBadInput, NamesOfScalingsArePredictedOnly) {
  const ScratchDirectory home;
  const auto file = home.Write("model.json",
                               R"({"layers": 2, "hidden": 64, "heads": 4, "vocab": 512, "max_seq_len": 64,
                               "position": "rope", "rope_scaling": "llama3"})");
  const auto predicted = RunAutocfg(home, {"predict", "--model", file, "--cluster", "a100-80gb-sxm:1x8",
                                           "--global-batch", "8", "--plan", "dp=8", "--json"});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_NE(predicted.err.find("rope_scaling llama3 changes neither time nor memory"), std::string::npos)
      << predicted.err;
  EXPECT_NE(predicted.out.find("rope_scaling llama3"), std::string::npos) << predicted.out;
  ExpectOneClearLine({"train", "--model", file, "--plan", "tp=1", "--steps", "1"}, 2,
                     {"model.json", "rope_scaling llama3 is a name alone"});
  ExpectOneClearLine({"search", "--model", file, "--cluster", "local:1x1", "--global-batch", "1"}, 2,
                     {"model.json", "rope_scaling llama3 is a name alone"});
}

TEST(PredictionBadInput, ClusterFilesNameTheFigure) {
  const ScratchDirectory home;
  const std::string rates =
      R"("overhead_bytes": 0, "flops_per_s": {"bf16": 3e14}, "efficiency": {"matmul": 0.8, "attention_forward": 0.4,
      "attention_backward": 0.4, "memory": 0.8, "intra_node": 0.8, "inter_node": 0.8, "overlap_contention": 0, "op_overhead_s": 0})";
  const std::string links =
      R"("intra_node_bytes_per_s": 3e11, "intra_node_latency_s": 1e-6, "inter_node_bytes_per_s": 2.5e10, "inter_node_latency_s": 1e-5, "host_op_s": 0)";
  const auto write = [&](const std::string& device, const std::string& fields) {
    return home.Write(
        "c.json", R"({"device": {"name": "d", "memory_bytes": 80000000000, "memory_bytes_per_s": 2e12, )" +
                      device + R"(}, "nodes": 1, "gpus_per_node": 8, )" + fields + "}");
  };
  const auto fine = RunAutocfg(home, Ask("predict", "--cluster", write(rates, links)));
  EXPECT_EQ(fine.exit_code, 0) << fine.err;
  EXPECT_EQ(fine.err, "");
  // Missing figures that users rarely know get defaults, with a note.
  const auto assumed =
      RunAutocfg(home, Ask("predict", "--cluster",
                           write(R"("flops_per_s": {"bf16": 3e14})", R"("intra_node_bytes_per_s": 3e11)")));
  EXPECT_EQ(assumed.exit_code, 0) << assumed.err;
  EXPECT_THAT(assumed.err,
              testing::AllOf(testing::HasSubstr("note: "), testing::HasSubstr("of a100-80gb-sxm are assumed"),
                             testing::HasSubstr("efficiency.matmul 0.78"),
                             testing::HasSubstr("efficiency.overlap_contention 0.6"),
                             testing::HasSubstr("overhead_bytes 2147483648"),
                             testing::HasSubstr("intra_node_latency_s 2.5e-06"),
                             testing::Not(testing::HasSubstr("inter_node"))));
  struct Wrong {
    std::string device, fields;
    std::vector<std::string> says;
  };
  const Wrong wrong[] = {
      {R"("kind": "cuda", "flops_per_s": {"fp32": 2e13})", links, {"bf16"}},
      {rates, R"("intra_node_latency_s": 1e-6)", {"c.json", "intra_node_bytes_per_s is missing"}},
      {rates, R"("intra_node_bytes_per_s": 1e-300)", {"c.json", "intra_node_bytes_per_s"}},
      {rates, R"("intra_node_bytes_per_s": -1)", {"c.json", "intra_node_bytes_per_s"}},
      {rates, R"("intra_node_bytes_per_s": 1e300)", {"c.json", "intra_node_bytes_per_s"}},
      {rates,
       R"("intra_node_bytes_per_s": 3e11, "host_op_s": -1)",
       {"c.json", "host_op_s is -1; it must be a finite number, not negative"}},
      {rates, R"("intra_node_bytes_per_s": 3e11, "host_op_s": NaN)", {"c.json"}},
      {rates, links + R"(, "gpus": 8)", {"c.json", "unknown field gpus"}},
      {rates + R"(, "memory": 3)", links, {"c.json", "unknown field memory"}}};
  for (const auto& [device, fields, says] : wrong)
    ExpectOneClearLine(Ask("predict", "--cluster", write(device, fields)), 2, says);
}

}  // namespace
}  // namespace autocfg::cli
