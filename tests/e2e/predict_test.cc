// Predictions as a user sees them: single plans, files of requests, traces, explanations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> kQuestion = {"--model",        "gpt3-175b", "--cluster", "a100-80gb-sxm:96x8",
                                            "--global-batch", "1536"};
constexpr const char* kFits = "tp=8,pp=12,dp=8,mbs=1,recompute=full";

std::vector<std::string> Ask(const std::string& verb, const std::string& plan,
                             std::vector<std::string> more = {}) {
  std::vector<std::string> args = {verb};
  args.insert(args.end(), kQuestion.begin(), kQuestion.end());
  args.insert(args.end(), {"--plan", plan});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<Json> JsonLines(const std::string& text) {
  std::vector<Json> answers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
  return answers;
}

// Returns requests of which every fifth is broken, each in a different way.
std::string MixedRequests(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string good =
        R"({"id": )" + std::to_string(i) +
        R"(, "model": "gpt2-124m", "cluster": "h100-sxm:1x8", "global_batch": 64, "plan": "tp=2,dp=4,mbs=)" +
        std::to_string(1 << (i % 3)) + R"("})";
    static const std::vector<std::string> kBroken = {
        "", "{\"id\": 3", "no JSON", R"({"id": "x", "model": "gpt2-124m"})", std::string((1 << 20) + 1, 'x')};
    text += i % 5 == 4 ? kBroken[static_cast<std::size_t>(i / 5) % kBroken.size()] : good;
    text += i % 7 == 0 ? "\r\n" : "\n";
  }
  return text;
}

TEST(PredictRequests, BrokenLinesDoNotAffectOthers) {
  const ScratchDirectory home;
  constexpr int kCount = 60;
  const auto file = home.Write("r.jsonl", MixedRequests(kCount));
  const auto finished = RunAutocfg(home, {"predict", "--requests", file});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  const auto answers = JsonLines(finished.out);
  ASSERT_EQ(answers.size(), static_cast<std::size_t>(kCount)) << "one answer a line";
  for (int i = 0; i < kCount; ++i) {
    const Json& answer = answers[static_cast<std::size_t>(i)];
    if (i % 5 == 4) {
      EXPECT_TRUE(answer.contains("error")) << answer;
    } else {
      EXPECT_EQ(answer["id"], i) << "same order";
      EXPECT_GT(answer["step_time_s"], 0);
    }
  }
  EXPECT_THAT(finished.err, HasSubstr("12 of 60 requests"));
  const auto piped = ProgramProcess(home, {"predict", "--requests", "-"}, file).Wait();
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(piped.out, finished.out);
}

TEST(PredictRequests, EmptyInputGivesEmptyOutput) {
  const ScratchDirectory home;
  const auto finished = RunAutocfg(home, {"predict", "--requests", home.Write("r.jsonl", "")});
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.out + finished.err, "");
}

TEST(Predict, JsonEqualsTheRequestsAnswer) {
  const ScratchDirectory home;
  const auto single = RunAutocfg(home, Ask("predict", kFits, {"--json"}));
  ASSERT_EQ(single.exit_code, 0) << single.err;
  Json alone = Json::parse(single.out);
  const Json request = {
      {"model", "gpt3-175b"}, {"cluster", "a100-80gb-sxm:96x8"}, {"global_batch", 1536}, {"plan", kFits}};
  const auto asked = RunAutocfg(home, {"predict", "--requests", home.Write("r.jsonl", request.dump())});
  ASSERT_EQ(asked.exit_code, 0) << asked.err;
  const Json answer = JsonLines(asked.out).at(0);
  for (const auto& [key, value] : answer.items()) {
    if (key == "id") continue;
    EXPECT_EQ(alone[key], value) << key;
  }
  EXPECT_EQ(alone["plan_text"], kFits);
  EXPECT_EQ(alone["notes"], Json::array());
}

// Texts with units are repeated as they were read.
TEST(Predict, TakesInputsAsPeopleWriteThem) {
  const ScratchDirectory home;
  const auto cluster = home.Write("c.json", R"({"device": "h100-sxm", "nodes": 2, "gpus_per_node": 8,
      "intra_node_bytes_per_s": "450GB/s", "inter_node_bytes_per_s": "400Gb/s"})");
  const auto ask = [&](const std::string& file, const std::string& seq_len) {
    return RunAutocfg(home, {"predict", "--model", "llama3-8b", "--cluster", file, "--global-batch", "64",
                             "--plan", "tp=8,dp=2", "--json", "--seq-len", seq_len});
  };
  const auto written = ask(cluster, "8k");
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const Json answer = Json::parse(written.out);
  EXPECT_THAT(answer["notes"].get<std::vector<std::string>>(),
              testing::IsSupersetOf({"--seq-len: 8k is 8,192 tokens",
                                     "inter_node_bytes_per_s: 400Gb/s is 50 GB/s a GPU and direction",
                                     "intra_node_bytes_per_s: 450GB/s is 450 GB/s a GPU and direction"}));
  const auto numbers = home.Write("n.json", R"({"device": "h100-sxm", "nodes": 2, "gpus_per_node": 8,
      "intra_node_bytes_per_s": 450e9, "inter_node_bytes_per_s": 50e9})");
  EXPECT_EQ(Json::parse(ask(numbers, "8192").out)["step_time_s"], answer["step_time_s"]);
}

TEST(Predict, SearchesRangesAndRepeatsThem) {
  const ScratchDirectory home;
  const auto search = [&](std::vector<std::string> space) {
    std::vector<std::string> args = {"search",
                                     "--predict-only",
                                     "--model",
                                     "gpt2-124m",
                                     "--cluster",
                                     "h100-sxm:1x8",
                                     "--global-batch",
                                     "16",
                                     "--tokens",
                                     "1T",
                                     "--price-per-gpu-hour",
                                     "$2.10",
                                     "--json"};
    args.insert(args.end(), space.begin(), space.end());
    const auto finished = RunAutocfg(home, args);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return Json::parse(finished.out);
  };
  const Json ranges = search({"--space", "tp<=2", "--space", "mbs=1-4", "--space", "recompute=full:*"});
  EXPECT_THAT(ranges["notes"].get<std::vector<std::string>>(),
              testing::IsSupersetOf({"--space: tp<=2 is tp=1,2", "--space: mbs=1-4 is mbs=1,2,4",
                                     "--space: recompute=full:* is recompute=full:1,full:2,...,full",
                                     "--tokens: 1T is 1,000,000,000,000 tokens",
                                     "--price-per-gpu-hour: $2.10 is 2.10 a GPU-hour, in any currency"}));
  EXPECT_EQ(ranges["training"]["tokens"], 1e12);
  EXPECT_EQ(ranges["training"]["price_per_gpu_hour"], 2.1);
  std::string recompute = "recompute=full";
  for (int layers = 1; layers <= 11; ++layers) recompute += fmt::format(",full:{}", layers);
  const Json listed = search({"--space", "tp=1,2", "--space", "mbs=1,2,4", "--space", recompute});
  EXPECT_EQ(ranges["best"]["plan"], listed["best"]["plan"]);
  EXPECT_EQ(ranges["counts"]["predicted"], listed["counts"]["predicted"]);
}

TEST(Predict, TextFitsOneScreen) {
  const ScratchDirectory home;
  const auto finished = RunAutocfg(home, Ask("predict", kFits));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  for (const char* part : {"plan: tp=8,pp=12,dp=8,mbs=1,recompute=full  (predicted)", "fits: ", "step time",
                           "90% interval", "tokens per second", "MFU", "where the time goes",
                           "worst rank's memory", "activations", "bubble", "model: gpt3-175b", "768 ranks"}) {
    EXPECT_THAT(finished.out, HasSubstr(part));
  }
  EXPECT_THAT(finished.out, testing::Not(HasSubstr("measured")));
  EXPECT_LE(std::count(finished.out.begin(), finished.out.end(), '\n'), 24) << "one screen";
}

TEST(Predict, PlanThatDoesNotFitExitsWithOne) {
  const ScratchDirectory home;
  const auto finished = RunAutocfg(home, Ask("predict", "tp=1,mbs=1"));
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.out, HasSubstr("does not fit: needs")) << "and is timed all the same";
  EXPECT_THAT(finished.out, HasSubstr("step time"));
  EXPECT_EQ(finished.err,
            "autocfg: --plan: tp=1,pp=1,dp=1,mbs=1 does not fit: optimizer states take 1.9 TiB; use more "
            "ranks\n");
  const auto noted = RunAutocfg(home, Ask("predict", "tp=1,mbs=1,schedule=gpipe"));
  EXPECT_EQ(noted.exit_code, 1);
  EXPECT_EQ(std::count(noted.err.begin(), noted.err.end(), '\n'), 1) << "the error alone: " << noted.err;
  EXPECT_THAT(noted.out, HasSubstr("note: schedule=gpipe has nothing to act on"));
  const auto json = RunAutocfg(home, Ask("predict", "tp=1,mbs=1", {"--json"}));
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(Json::parse(json.out)["feasible"], false);
}

TEST(Predict, TraceContainsEveryRank) {
  const ScratchDirectory home;
  const auto file = home / "trace.json";
  const auto finished =
      RunAutocfg(home, {"predict", "--model", "gpt2-124m", "--cluster", "a100-80gb-sxm:1x8", "--global-batch",
                        "16", "--plan", "tp=2,pp=2,dp=2,vpp=2,mbs=2", "--trace", file});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  std::set<int> ranks;
  double end_us = 0;
  const Json trace = Json::parse(ReadWhole(file));
  EXPECT_EQ(trace["otherData"], (Json{{"plan", "tp=2,pp=2,dp=2,mbs=2,vpp=2"},
                                      {"kind", "predicted"},
                                      {"device", nullptr},
                                      {"cluster", "a100-80gb-sxm:1x8"},
                                      {"slice", nullptr}}));
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ranks.insert(event["pid"].get<int>());
    end_us = std::max(end_us, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(ranks.size(), 8u);
  EXPECT_GT(end_us, 0);
}

TEST(Explain, OneAndTwoPlans) {
  const ScratchDirectory home;
  const auto one = RunAutocfg(home, Ask("explain", kFits));
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("the ranks of the pipeline"));
  EXPECT_THAT(one.out, HasSubstr("####"));
  EXPECT_THAT(one.out, HasSubstr("of the step"));
  const auto two =
      RunAutocfg(home, Ask("explain", kFits, {"--against", "tp=8,pp=12,dp=8,mbs=1,vpp=4,recompute=full"}));
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_THAT(two.out, HasSubstr("second: tp=8,pp=12,dp=8,mbs=1,vpp=4,recompute=full"));
  EXPECT_THAT(two.out, HasSubstr("The first takes"));
  const auto noted = RunAutocfg(home, {"explain", "--model", "gpt2-124m", "--cluster", "a100-80gb-sxm:1x8",
                                       "--global-batch", "64", "--plan", "dp=8,schedule=gpipe"});
  EXPECT_EQ(noted.exit_code, 0) << noted.err;
  EXPECT_THAT(noted.err, HasSubstr("note: schedule=gpipe has nothing to act on"));
}

TEST(Explain, JsonHasThePredictionsAndTheirDifference) {
  const ScratchDirectory home;
  const std::string second = "tp=8,pp=12,dp=8,mbs=1,vpp=4,recompute=full";
  const auto of = [&](const char* verb, const std::string& plan, std::vector<std::string> more) {
    more.emplace_back("--json");
    const auto finished = RunAutocfg(home, Ask(verb, plan, more));
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return Json::parse(finished.out);
  };
  const Json one = of("explain", kFits, {});
  Json other = of("predict", second, {});
  Json predicted = of("predict", kFits, {});
  EXPECT_TRUE(predicted.at("hidden_comm_s").is_null()) << "predict does not time the pipeline";
  EXPECT_TRUE(one.at("hidden_comm_s").is_number());
  predicted["hidden_comm_s"] = one["hidden_comm_s"];
  EXPECT_EQ(one, predicted);
  const Json two = of("explain", kFits, {"--against", second});
  EXPECT_EQ(two["first"], one);
  other["hidden_comm_s"] = two["second"]["hidden_comm_s"];
  EXPECT_EQ(two["second"], other);
  double sum = 0;
  for (const auto& [part, seconds] : one["breakdown_s"].items()) {
    const double more = two["difference_s"][part];
    EXPECT_NEAR(more, seconds.get<double>() - other["breakdown_s"][part].get<double>(), 1e-9) << part;
    sum += more;
  }
  EXPECT_NEAR(two["difference_s"]["total"], sum, 1e-9);
  EXPECT_EQ(two["difference_s"].size(), one["breakdown_s"].size() + 1);
}

// The exit status is that of the first plan.
TEST(Explain, PlanThatDoesNotFitExitsWithOne) {
  const ScratchDirectory home;
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--against", kFits}}) {
    const auto finished = RunAutocfg(home, Ask("explain", "tp=1,mbs=1,schedule=gpipe", more));
    EXPECT_EQ(finished.exit_code, 1);
    EXPECT_THAT(Unwrapped(finished.out), HasSubstr("more memory than a rank has"));
    EXPECT_THAT(finished.out, HasSubstr("note: schedule=gpipe has nothing to act on"));
    EXPECT_EQ(finished.err,
              "autocfg: --plan: tp=1,pp=1,dp=1,mbs=1 does not fit: optimizer states take 1.9 TiB; use more "
              "ranks\n");
  }
  EXPECT_EQ(RunAutocfg(home, Ask("explain", kFits, {"--against", "tp=1,mbs=1"})).exit_code, 0);
}

// A described cluster without a name takes the name of its file.
TEST(Predict, ClusterTakesItsFilesName) {
  const ScratchDirectory home;
  const auto file =
      home.Write("our-pod.json", R"({"device": "a100-80gb-sxm", "nodes": 1, "gpus_per_node": 8})");
  const std::vector<std::string> ask = {"--model", "gpt2-124m", "--global-batch", "16", "--cluster", file};
  std::vector<std::string> predict = {"predict", "--plan", "tp=2,dp=4"},
                           search = {"search", "--predict-only", "--json"};
  predict.insert(predict.end(), ask.begin(), ask.end());
  search.insert(search.end(), ask.begin(), ask.end());
  EXPECT_THAT(RunAutocfg(home, predict).out, HasSubstr("cluster: our-pod, 8 ranks"));
  const auto found = RunAutocfg(home, search);
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_EQ(Json::parse(found.out)["cluster"]["name"], "our-pod");
}

// A prediction leaves no study, takes no lock, and its file asks the next question.
TEST(Predict, AsksWhatASearchAnswered) {
  const ScratchDirectory home;
  const std::string database = home / "a.db", file = home / "best.json";
  const std::vector<std::string> search = {"search",         "--predict-only",
                                           "--model",        "gpt2-124m",
                                           "--cluster",      "a100-80gb-sxm:1x8",
                                           "--global-batch", "64",
                                           "--db",           database,
                                           "--output",       file,
                                           "--json"};
  const auto found = RunAutocfg(home, search);
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_FALSE(std::filesystem::exists(database));
  const Json answer = Json::parse(found.out);
  EXPECT_TRUE(answer["study"].is_null());
  const double step_s = answer["best"]["predicted"]["step_time_s"];

  const auto predicted = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "predict");
    args.emplace_back("--json");
    const auto finished = RunAutocfg(home, args);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.exit_code == 0 ? Json::parse(finished.out) : Json();
  };
  EXPECT_DOUBLE_EQ(predicted({"--input", file})["step_time_s"], step_s);
  const double twice_s = predicted({"--input", file, "--global-batch", "128"})["step_time_s"];
  EXPECT_GT(twice_s, 1.5 * step_s) << "an option takes the place of a part";
  const auto explained = RunAutocfg(home, {"explain", "--input", file});
  ASSERT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("compute"));
  const auto json_of = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"explain", "--input", file, "--json"});
    const auto finished = RunAutocfg(home, args);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.exit_code == 0 ? Json::parse(finished.out) : Json();
  };
  EXPECT_DOUBLE_EQ(json_of({})["step_time_s"], step_s);
  EXPECT_DOUBLE_EQ(json_of({"--global-batch", "128"})["step_time_s"], twice_s) << "as predict";
  EXPECT_EQ(json_of({"--engine", "megatron"})["engine"], "megatron");
  EXPECT_TRUE(json_of({})["hidden_comm_s"].is_number()) << "explain times what is hidden";
  const Json compared = json_of({"--against", "tp=1,pp=1,dp=1,mbs=1"});
  EXPECT_TRUE(compared["second"]["hidden_comm_s"].is_number());
  EXPECT_EQ(predicted({"--input", file}).at("hidden_comm_s"), nullptr);
  EXPECT_DOUBLE_EQ(json_of({"--against", "tp=1,pp=1,dp=1,mbs=1"})["first"]["step_time_s"], step_s);

  // The margin of the search is part of its question.
  const auto none_fits = RunAutocfg(home, {"predict", "--input", file, "--memory-margin", "95%", "--json"});
  EXPECT_EQ(none_fits.exit_code, 1) << "the plan of the other margin takes more than a twentieth";
  const std::string margin_file = home.Write("margin.json", [&] {
    Json with = answer;
    with["memory_margin"] = 0.95;
    return with.dump();
  }());
  EXPECT_EQ(RunAutocfg(home, {"predict", "--input", margin_file, "--json"}).exit_code, 1);
  EXPECT_EQ(RunAutocfg(home, {"predict", "--input", margin_file, "--memory-margin", "0", "--json"}).exit_code,
            0);

  std::vector<std::string> kept = search;
  kept.emplace_back("--save");
  ASSERT_EQ(RunAutocfg(home, kept).exit_code, 0);
  EXPECT_DOUBLE_EQ(predicted({"--study", "1", "--db", database})["step_time_s"], step_s);
  // Searches that are started together wait for the database.
  std::vector<std::thread> together;
  for (int i = 0; i < 3; ++i) together.emplace_back([&] { EXPECT_EQ(RunAutocfg(home, kept).exit_code, 0); });
  for (std::thread& search_too : together) search_too.join();
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"predict", "--study", "7", "--db", database},
                                             {"predict", "--study", "1/trials/3", "--db", database},
                                             {"predict", "--study", "1", "--input", file},
                                             {"predict", "--input", home / "none.json"},
                                             {"predict", "--db", database},
                                             {"predict", "--requests", file, "--input", file}}) {
    const auto refused = RunAutocfg(home, wrong);
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
}

}  // namespace
}  // namespace autocfg::cli
