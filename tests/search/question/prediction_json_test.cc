#include "search/question/prediction_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/plan/hardware_flops.h"
#include "search/plan/plan_text.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json Request() {
  return {{"id", "a"},
          {"model", "gpt2-124m"},
          {"cluster", "a100-80gb-sxm:1x8"},
          {"global_batch", 64},
          {"plan", "tp=2,pp=2,dp=2,mbs=2"}};
}

Json Answer(const std::string& line) {
  PredictorCache predictors;
  const AnsweredLine answer = AnswerPredictionLine(line, predictors);
  EXPECT_EQ(answer.text.find('\n'), std::string::npos);
  Json json = Json::parse(answer.text);
  EXPECT_EQ(json.contains("error"), !answer.ok) << answer.text;
  return json;
}
Json Answer(const Json& request) { return Answer(request.dump()); }

// Returns one node of a preset whose host takes no time, so that there are no notes about the host.
Json WithFastHost(const char* device) { return {{"device", device}, {"nodes", 1}, {"host_op_s", 0}}; }

TEST(PredictionJson, HasTheContractsKeysInOrder) {
  Json request = Request();
  request["cluster"] = WithFastHost("a100-80gb-sxm");
  const Json answer = Answer(request);
  std::vector<std::string> keys;
  for (const auto& [key, value] : answer.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"id", "feasible", "reason", "step_time_s", "step_time_low_s",
                                            "step_time_high_s", "tokens_per_s_per_gpu",
                                            "model_flops_per_s_per_gpu", "hardware_flops_per_s_per_gpu",
                                            "mfu", "memory_bytes", "breakdown_s", "exposed_comm_s",
                                            "allocated_bytes_by_pipeline_rank", "parameters", "engine"}))
      << answer.dump();
  EXPECT_EQ(answer["id"], "a");
  EXPECT_EQ(answer["feasible"], true);
  EXPECT_EQ(answer["reason"], "");
  std::int64_t total = 0;
  const Json& memory = answer["memory_bytes"];
  for (const char* region :
       {"parameters", "gradients", "optimizer", "activations", "workspace", "communication"})
    total += memory[region].get<std::int64_t>();
  EXPECT_EQ(memory["allocated"], total);
  total += memory["allocator_reserve"].get<std::int64_t>();
  EXPECT_EQ(memory["reserved"], total);
  total += memory["device_overhead"].get<std::int64_t>();
  EXPECT_EQ(memory["total"], total);
  EXPECT_EQ(memory["total_low"], total) << "our own engine's memory is planned";
  EXPECT_EQ(memory["total_high"], total);
  EXPECT_EQ(memory["capacity"], MemoryCapacity(*PresetCluster("a100-80gb-sxm:1x8")));
  EXPECT_EQ(memory.size(), 14u);
  double step = 0;
  for (const char* part :
       {"compute", "recompute", "tp_comm", "pp_comm", "dp_comm", "bubble", "optimizer", "overhead"})
    step += answer["breakdown_s"][part].get<double>();
  EXPECT_EQ(answer["breakdown_s"].size(), 8u);
  EXPECT_NEAR(step, answer["step_time_s"].get<double>(), 1e-9 * step);
  EXPECT_LT(answer["step_time_low_s"], answer["step_time_s"]);
  EXPECT_GT(answer["step_time_high_s"], answer["step_time_s"]);
}

// The plan fits with the default margin of 5%, and does not with one that it exceeds by its own share.
TEST(PredictionJson, FeasiblePlansLeaveTheMemoryMargin) {
  Json request = Request();
  const Json fits = Answer(request);
  EXPECT_EQ(fits["feasible"], true);
  const double used =
      fits["memory_bytes"]["total"].get<double>() / fits["memory_bytes"]["capacity"].get<double>();
  request["memory_margin"] = 1 - used + 0.01;
  const Json tight = Answer(request);
  EXPECT_EQ(tight["feasible"], false);
  EXPECT_THAT(tight["reason"].get<std::string>(), HasSubstr("the memory margin"));
  EXPECT_EQ(tight["step_time_s"], fits["step_time_s"]);
  request["memory_margin"] = 1 - used - 0.01;
  EXPECT_EQ(Answer(request)["feasible"], true);
  EXPECT_DOUBLE_EQ(ParsePredictionRequest(Request())->memory_margin, 0.05);
  for (const Json& bad : {Json(1), Json(-0.1), Json("5%"), Json(nullptr)}) {
    request["memory_margin"] = bad;
    EXPECT_THAT(Answer(request)["error"].get<std::string>(), HasSubstr("memory_margin is")) << bad;
  }
}

// All fields have different values, so that swapped keys are detected.
TEST(PredictionJson, EachKeyHasItsOwnValue) {
  Prediction prediction;
  prediction.feasible = true;
  prediction.reason = "why";
  prediction.step_time_s = 20;
  prediction.step_time_low_s = 19;
  prediction.step_time_high_s = 21;
  prediction.memory = {.parameters = 1,
                       .gradients = 2,
                       .optimizer = 3,
                       .activations = 4,
                       .workspace = 5,
                       .communication = 6,
                       .allocator_reserve = 8,
                       .device_overhead = 7};
  prediction.memory_low_bytes = 33;
  prediction.memory_high_bytes = 41;
  prediction.capacity_bytes = 100;
  prediction.breakdown = {.compute = 1,
                          .recompute = 2,
                          .tp_comm = 3,
                          .pp_comm = 4,
                          .dp_comm = 5,
                          .bubble = 6,
                          .optimizer = 7,
                          .overhead = 8};
  const Throughput throughput = {.tokens_per_s = 30,
                                 .tokens_per_s_per_gpu = 31,
                                 .model_flops_per_s_per_gpu = 32,
                                 .hardware_flops_per_s_per_gpu = 33,
                                 .mfu = 0.5};
  EXPECT_EQ(PredictionJson(prediction, throughput), Json::parse(R"({
    "feasible": true, "reason": "why", "step_time_s": 20.0, "step_time_low_s": 19.0, "step_time_high_s": 21.0,
    "tokens_per_s_per_gpu": 31.0, "model_flops_per_s_per_gpu": 32.0, "hardware_flops_per_s_per_gpu": 33.0,
    "mfu": 0.5,
    "memory_bytes": {"parameters": 1, "gradients": 2, "optimizer": 3, "activations": 4, "workspace": 5,
                     "communication": 6, "allocator_reserve": 8, "device_overhead": 7, "allocated": 21,
                     "reserved": 29, "total": 36, "total_low": 33, "total_high": 41, "capacity": 100},
    "breakdown_s": {"compute": 1.0, "recompute": 2.0, "tp_comm": 3.0, "pp_comm": 4.0, "dp_comm": 5.0,
                    "bubble": 6.0, "optimizer": 7.0, "overhead": 8.0},
    "exposed_comm_s": 12.0})"));
}

TEST(PredictionJson, RatesMatchTheStepTime) {
  const Json answer = Answer(Request());
  ModelSpec model = *ModelPreset("gpt2-124m");
  FillDefaults(model);
  const double tokens = 64.0 * 1024 / answer["step_time_s"].get<double>() / 8;
  EXPECT_DOUBLE_EQ(answer["tokens_per_s_per_gpu"], tokens);
  EXPECT_DOUBLE_EQ(answer["model_flops_per_s_per_gpu"], ModelFlops(model, tokens, 1024));
  EXPECT_DOUBLE_EQ(answer["mfu"], ModelFlops(model, tokens, 1024) / 312e12);
  EXPECT_EQ(answer["hardware_flops_per_s_per_gpu"], answer["model_flops_per_s_per_gpu"])
      << "nothing is computed twice";
}

TEST(PredictionJson, AcceptsObjectsInPlaceOfNames) {
  Json request = Request();
  const Json by_name = Answer(request);
  request["model"] = ModelJson(*ModelPreset("gpt2-124m"));
  request["cluster"] = ClusterJson(*PresetCluster("a100-80gb-sxm:1x8"));
  request["plan"] = {{"tp", 2}, {"pp", 2}, {"dp", 2}, {"micro_batch", 2}};
  request["seq_len"] = 1024;
  request["precision"] = "bf16";
  EXPECT_EQ(Answer(request), by_name) << "and the defaults are the model's sequence length and bf16";
}

TEST(PredictionJson, IdsAreEchoed) {
  for (const Json& id : {Json("x y"), Json(7), Json(-3), Json(2.5), Json(nullptr), Json("")}) {
    Json request = Request();
    request["id"] = id;
    EXPECT_EQ(Answer(request)["id"].dump(), id.dump());
    request["global_batch"] = 0;
    EXPECT_EQ(Answer(request)["id"].dump(), id.dump()) << "in an error too";
  }
  Json request = Request();
  request.erase("id");
  EXPECT_EQ(Answer(request)["id"], nullptr);
  for (const Json& id : {Json(true), Json::array(), Json::object()}) {
    request["id"] = id;
    const Json answer = Answer(request);
    EXPECT_EQ(answer["id"], nullptr);
    EXPECT_THAT(answer["error"].get<std::string>(),
                HasSubstr("id is " + id.dump() + "; it must be a string, a number or null"));
  }
}

TEST(PredictionJson, PlansThatDoNotFitAreTimed) {
  Json request = Request();
  request["model"] = "gpt3-175b";
  request["plan"] = "tp=8,mbs=1";
  const Json answer = Answer(request);
  EXPECT_EQ(answer["feasible"], false);
  EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr(" GiB more than the 80.0 GiB a rank has; "));
  EXPECT_GT(answer["step_time_s"], 0);
  EXPECT_GT(answer["memory_bytes"]["total"], answer["memory_bytes"]["capacity"]);
}

TEST(PredictionJson, HasNotesIfAny) {
  Json request = Request();
  request["plan"] = "tp=2,sp=0,dp=4,pp=1,schedule=gpipe,mbs=2";
  EXPECT_THAT(Answer(request)["notes"][0].get<std::string>(),
              HasSubstr("schedule=gpipe has nothing to act on"));
  request["plan"] = "tp=2,pp=4,mbs=2,split=auto";
  EXPECT_THAT(Answer(request)["notes"][0].get<std::string>(), HasSubstr("split=auto is "));
}

TEST(PredictionJson, NotesLaunchBoundOps) {
  Json request = Request();
  const Json unknown = Answer(request);
  EXPECT_THAT(unknown["notes"].dump(), HasSubstr("launch-bound: "));
  request["cluster"] = WithFastHost("a100-80gb-sxm");
  const Json fast = Answer(request);
  EXPECT_EQ(fast["step_time_s"], unknown["step_time_s"]);
  EXPECT_EQ(fast["step_time_low_s"], unknown["step_time_low_s"]);
  EXPECT_LT(fast["step_time_high_s"], unknown["step_time_high_s"]);
  EXPECT_FALSE(fast.contains("notes"));
  request["cluster"]["host_op_s"] = 1e-3;
  EXPECT_GT(Answer(request)["step_time_s"], 2 * fast["step_time_s"].get<double>());
  request["cluster"]["host_op_s"] = -1e-3;
  EXPECT_THAT(Answer(request)["error"].get<std::string>(),
              HasSubstr("host_op_s is -0.001; it must be a finite number, not negative"));
}

TEST(PredictionJson, DefaultPrecisionFollowsTheDevice) {
  Json request = Request();
  request["cluster"] = WithFastHost("v100-32gb-sxm");
  const Json answer = Answer(request);
  EXPECT_THAT(answer["notes"][0].get<std::string>(), HasSubstr("fp16, since v100-32gb-sxm has no bf16"));
  request["precision"] = "fp16";
  Json asked = Answer(request);
  EXPECT_FALSE(asked.contains("notes"));
  EXPECT_EQ(asked["step_time_s"], answer["step_time_s"]);
  request["precision"] = "bf16";
  EXPECT_THAT(Answer(request)["error"].get<std::string>(), HasSubstr("bf16"))
      << "who asks for it by name is told";
}

TEST(PredictionJson, TakesASequenceLengthWithAUnit) {
  Json request = Request();
  request["seq_len"] = 1024;
  const Json number = Answer(request);
  request["seq_len"] = "1k";
  Json text = Answer(request);
  std::vector<std::string> notes = text["notes"];
  EXPECT_EQ(notes.back(), "seq_len: 1k is 1,024 tokens");
  text["notes"].erase(notes.size() - 1);
  if (text["notes"].empty()) text.erase("notes");
  EXPECT_EQ(text, number);
}

TEST(PredictionJson, ErrorsNameTheField) {
  struct Wrong {
    const char* field;
    Json value;  // null removes the field
    const char* says;
  };
  const Wrong wrong[] = {
      {"model", nullptr, "model is missing"},
      {"cluster", nullptr, "cluster is missing"},
      {"global_batch", nullptr, "global_batch is missing"},
      {"plan", nullptr, "plan is missing"},
      {"model", "gpt2-124k", "did you mean gpt2-124m"},
      {"model", 3, "model"},
      {"model", {{"layers", 2}}, "hidden is missing"},
      {"cluster", "a100:1x8", "no preset"},
      {"cluster", "a100-80gb-sxl:1x8", "a100-80gb-sxm"},
      {"cluster", "local", "local has no figures to predict from"},
      {"cluster", "local:1x2", "local has no figures to predict from"},
      {"global_batch", 0, "global_batch is 0; it must be at least 1"},
      {"global_batch", "many", "global_batch is \"many\"; it must be a whole number"},
      {"global_batch", 1e18, "global_batch"},
      {"seq_len", 2048, "learned positions"},
      {"seq_len", -1, "seq_len"},
      {"seq_len", "512",
       "seq_len is \"512\"; it must be a number, or a text with a unit: 8192 or 8k (k is 1024)"},
      {"seq_len", "1q", "seq_len: invalid value '1q': unknown unit 'q'"},
      {"seq_len", "0.3k", "seq_len is \"0.3k\", which is 307.2 tokens; it must be a whole number"},
      {"precision", "fp4",
       "unknown precision 'fp4'; expected fp64, fp32, bf16, fp16, fp8, fp8_block, mxfp8 or nvfp4"},
      {"precision", 16, "precision is 16; it must be a string"},
      {"precision", "",
       "unknown precision ''; expected fp64, fp32, bf16, fp16, fp8, fp8_block, mxfp8 or nvfp4, or leave it "
       "out"},
      {"plan", "", "it is empty"},
      {"model",
       {{"model_type", "llama"}, {"hidden_size", 64}},
       "model: it is a Hugging Face config.json, which `--model FILE` reads"},
      {"plan", "tp=8,pp=8,dp=8", "illegal plan"},
      {"plan", "tpp=8", "tpp"},
      {"plan", {{"tp", "two"}}, "tp must be a whole number, not \"two\""},
      {"plan", {{"pp", 2}, {"split", "5+6"}}, "add up to 12"},
      {"batch", 3, "unknown field batch"}};
  for (const auto& [field, value, says] : wrong) {
    Json request = Request();
    if (value.is_null()) {
      request.erase(field);
    } else {
      request[field] = value;
    }
    const Json answer = Answer(request);
    EXPECT_EQ(answer["id"], "a");
    EXPECT_EQ(answer.size(), 2u) << answer;
    EXPECT_THAT(answer.value("error", ""), HasSubstr(says)) << request;
  }
}

TEST(PredictionJson, BrokenLinesGetAnErrorAnswer) {
  for (const char* line :
       {"", "   ", "\r", "{", "{]", "[1]", "3", "null", "\"text\"", "{\"id\": 1} x", "{\"id\": 1, \"id\": 2}",
        "\xff\xfe", "{\"id\": \"\xc3\x28\"}", "{\"id\": 1e999}"}) {
    const Json answer = Answer(std::string(line));
    EXPECT_EQ(answer["id"], nullptr) << line;
    EXPECT_FALSE(answer["error"].get<std::string>().empty());
  }
  EXPECT_THAT(Answer(std::string("{]"))["error"].get<std::string>(), testing::Not(HasSubstr("line 1")))
      << "which would be taken for the file's";
  for (const char* cut : {"{\"id\":1", "{\"id\": 1, \"mod", "{\"id\":", "[1, 2", "{\"a\": {\"b\": true"})
    EXPECT_THAT(Answer(std::string(cut))["error"].get<std::string>(), HasSubstr(": the text ends too early"))
        << cut;
  EXPECT_THAT(Answer(std::string("{\"id\": 1 x}"))["error"].get<std::string>(), HasSubstr("unexpected \""));
  EXPECT_EQ(Answer(Request().dump() + "\r"), Answer(Request()));
  EXPECT_THAT(
      Answer(std::string(
          "{\"id\": 1, \"model\": \"\\u0007\", \"cluster\": \"\", \"global_batch\": 1, \"plan\": \"\"}"))
          ["error"]
              .get<std::string>(),
      HasSubstr("model"));
}

// Errors point at the position and quote its text.
TEST(PredictionJson, SyntaxErrorsNameThePosition) {
  for (const auto& [line, says] :
       {std::pair<const char*, const char*>{R"({"plan":"tp=4"} trailing)",
                                            R"(at column 17: unexpected "trailing")"},
        {R"({"layers": 1024,})", R"(at column 17: unexpected "}")"},
        {R"({"a": 1 "b": 2})", R"(at column 9: unexpected ""b"")"},
        {R"({"a": "b\"c" "d\"e"})", R"(at column 14: unexpected ""d\"e"")"},
        {R"({"a": nulls})", R"(at column 7: unexpected "nulls")"},
        {R"({"a": 01})", R"(at column 7: unexpected "01")"},
        {"[}", R"(at column 2: unexpected "}")"}}) {
    EXPECT_THAT(Answer(std::string(line))["error"].get<std::string>(), HasSubstr(says)) << line;
  }
}

// The ID is echoed exactly as written, in answers and in errors.
TEST(PredictionJson, IdsAreEchoedVerbatim) {
  PredictorCache predictors;
  for (const char* id :
       {"12345678901234567890123", "1e2", "-0", "0.10", "1E+05", "7", "\"a, \\\"id\\\": 3\"", "null"}) {
    Json request = Request();
    request.erase("id");
    request["model"] = {{"name", "\"id\": 5"}, {"layers", 2}, {"hidden", 64}, {"heads", 2}, {"vocab", 128}};
    for (const bool right : {true, false}) {
      if (!right) request["batch"] = 3;
      const std::string rest = request.dump().substr(1);
      const std::string without = rest.substr(0, rest.size() - 1);
      for (const std::string& line :
           {fmt::format("{{\"id\" : {},{}", id, rest), fmt::format("{{{},\"id\":{}}}", without, id)}) {
        const AnsweredLine answer = AnswerPredictionLine(line, predictors);
        EXPECT_EQ(answer.text.substr(0, answer.text.find(id) + std::string(id).size() + 1),
                  std::string("{\"id\":") + id + ",")
            << line;
        EXPECT_EQ(Json::parse(answer.text).contains("error"), !right);
      }
    }
  }
}

// Without a kind and a rate in a two-byte type, the device may be a CPU or a GPU; a note states the
// assumption.
TEST(PredictionJson, NotesAnAssumedDeviceKind) {
  Json request = Request();
  request["cluster"] = {{"device",
                         {{"name", "toy"},
                          {"memory_bytes", 80'000'000'000},
                          {"memory_bytes_per_s", 1e12},
                          {"flops_per_s", {{"fp32", 1e13}}}}},
                        {"nodes", 1},
                        {"gpus_per_node", 8},
                        {"intra_node_bytes_per_s", 1e11}};
  const auto notes = [&] { return Answer(request).value("notes", Json::array()).dump(); };
  EXPECT_THAT(notes(), HasSubstr("predicted in fp32: toy is taken for a CPU, since it has no rate in bf16 or "
                                 "fp16; give kind cuda if it is a GPU"));
  request["cluster"]["device"]["kind"] = "cpu";
  EXPECT_THAT(notes(), testing::Not(HasSubstr("taken for a CPU")));
  request["cluster"]["device"].erase("kind");
  request["precision"] = "fp32";
  EXPECT_THAT(notes(), testing::Not(HasSubstr("taken for a CPU")));
  request.erase("precision");
  request["cluster"]["device"]["kind"] = "cuda";
  EXPECT_THAT(Answer(request).value("error", ""), HasSubstr("flops_per_s.bf16 is missing"));
  request["cluster"]["device"].erase("kind");
  request["cluster"]["device"].erase("flops_per_s");
  EXPECT_THAT(Answer(request).value("error", ""),
              HasSubstr("device.flops_per_s is missing, which predictions need; give its bf16"));
}

// Each rank of a described cluster has a core or GPU of its own.
TEST(PredictionJson, RejectsRanksThatShareACore) {
  Json request = Request();
  request["cluster"] = {{"device", "a100-80gb-sxm"}, {"nodes", 1}, {"ranks_per_core", 1}};
  EXPECT_TRUE(Answer(request).contains("step_time_s"));
  request["cluster"]["ranks_per_core"] = 4;
  EXPECT_THAT(
      Answer(request).value("error", ""),
      HasSubstr("ranks_per_core is 4, but each rank of a described cluster has a core or GPU of its own"));
}

TEST(PredictorCache, RepeatsAnswersAfterEviction) {
  PredictorCache predictors;
  std::vector<std::string> first, second;
  for (auto* answers : {&first, &second}) {
    for (int i = 0; i < 40; ++i) {  // more questions than the cache holds
      Json request = Request();
      request["global_batch"] = 8 * (1 + i);
      request["plan"] = i % 2 == 0 ? "tp=2,dp=2,pp=2" : "tp=4,dp=2,recompute=full";
      answers->push_back(AnswerPredictionLine(request.dump(), predictors).text);
    }
  }
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace autocfg
