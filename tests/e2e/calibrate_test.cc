// A cluster is calibrated from measured steps, and its file is what predict takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/cli/one_clear_line.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kHeader =
    "layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,dp,iter_time_ms\n";

// Steps of which each takes half as long again as predicted, on one node.
std::string SlowSteps(const ScratchDirectory& home) {
  std::string requests, rows = kHeader;
  std::vector<std::string> shapes;
  for (const int layers : {8, 16}) {
    for (const int tp : {1, 2, 4}) {
      for (const int micro_batch : {1, 2, 4}) {
        shapes.push_back(fmt::format("{},2048,16,2048,32,{},{},1,{}", layers, micro_batch, tp, 8 / tp));
        requests += fmt::format(
            R"({{"model": {{"layers": {}, "hidden": 2048, "heads": 16, "vocab": 51200}}, "cluster": "a100-80gb-sxm:1x8",)"
            R"("global_batch": 32, "seq_len": 2048, "plan": {{"tp": {}, "dp": {}, "micro_batch": {}}}}})"
            "\n",
            layers, tp, 8 / tp, micro_batch);
      }
    }
  }
  const auto predicted = RunAutocfg(home, {"predict", "--requests", home.Write("steps.jsonl", requests)});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.err;
  std::istringstream lines(predicted.out);
  std::string line;
  for (const std::string& shape : shapes) {
    EXPECT_TRUE(std::getline(lines, line));
    rows += fmt::format("{},{}\n", shape, 1500 * Json::parse(line).at("step_time_s").get<double>());
  }
  return rows;
}

TEST(Calibrate, ItsFileMakesPredictionsAgree) {
  const ScratchDirectory home;
  const std::string rows = SlowSteps(home);
  const std::string output = home / "mine.json";
  const auto fitted = RunAutocfg(
      home, {"calibrate", "--measurements", home.Write("steps.csv", rows + rows.substr(rows.find('\n') + 1)),
             "--cluster", "a100-80gb-sxm:1x8", "--default", "vocab=51200", "--output", output});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  EXPECT_EQ(fitted.err.find("note: note:"), std::string::npos) << fitted.err;
  const auto unknown = RunAutocfg(home, {"calibrate", "--measurements", "none.csv", "--cluster",
                                         "a100-80gb-sxn:1x8", "--output", output});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("autocfg: --cluster: "));
  EXPECT_EQ(unknown.err.find("--cluster: --cluster"), std::string::npos) << unknown.err;
  EXPECT_THAT(fitted.out, AllOf(HasSubstr("fitted to 18 measured steps"), HasSubstr("host_op_s"),
                                HasSubstr("not determined"), HasSubstr("over several nodes: none")));
  EXPECT_EQ(fitted.out.find("inter_node"), std::string::npos) << fitted.out;
  EXPECT_THAT(fitted.err, HasSubstr("18 rows skipped"));
  std::ifstream file(output);
  Json cluster = Json::parse(file);
  EXPECT_EQ(cluster.at("calibration").at("measurements"), 18);
  EXPECT_EQ(cluster.at("name"), "a100-80gb-sxm, calibrated");
  EXPECT_THAT(fitted.out, HasSubstr(fmt::format("wrote {}\n  (a file for --cluster of predict", output)));

  // Another depth and batch on two nodes of the same.
  cluster["nodes"] = 2;
  const std::string larger = home.Write("two.json", cluster.dump());
  const auto ask = [&](const std::string& on) {
    const auto answer = RunAutocfg(
        home,
        {"predict", "--model",
         home.Write("model.json",
                    R"({"layers": 12, "hidden": 2048, "heads": 16, "vocab": 51200, "max_seq_len": 2048})"),
         "--cluster", on, "--global-batch", "64", "--plan", "tp=2,dp=4,mbs=2", "--json"});
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    return Json::parse(answer.out);
  };
  const Json before = ask("a100-80gb-sxm:1x8"), after = ask(larger);
  EXPECT_NEAR(after.at("step_time_s").get<double>() / before.at("step_time_s").get<double>(), 1.5, 0.05);
  const auto width = [](const Json& p) {
    return p.at("step_time_high_s").get<double>() / p.at("step_time_low_s").get<double>();
  };
  EXPECT_LT(width(after), 1.3) << "of 1.6 without measurements";
}

struct CalibrateCase {
  const char* name;
  std::string csv;
  std::vector<std::string> more;
  std::vector<std::string> says;
};
void PrintTo(const CalibrateCase& c, std::ostream* out) { *out << c.name; }

class CalibrateBadInputTest : public testing::TestWithParam<CalibrateCase> {};

TEST_P(CalibrateBadInputTest, OneClearLine) {
  const ScratchDirectory home;
  std::vector<std::string> args = {"calibrate", "--measurements", home.Write("steps.csv", GetParam().csv),
                                   "--output", home / "out.json"};
  args.insert(args.end(), GetParam().more.begin(), GetParam().more.end());
  ExpectOneClearLine(args, 2, GetParam().says);
}

const std::vector<std::string> kOnNode = {"--cluster", "a100-80gb-sxm:1x8", "--default", "vocab=51200"};

INSTANTIATE_TEST_SUITE_P(
    All, CalibrateBadInputTest,
    testing::Values(CalibrateCase{"Empty", "", kOnNode, {"--measurements: it is empty"}},
                    CalibrateCase{"NoRows", kHeader, kOnNode, {"--measurements: it has no rows"}},
                    CalibrateCase{"Unit",
                                  std::string(kHeader) + "24,2048,16,1024,16,4,1,2,2,0.41\n",
                                  kOnNode,
                                  {"--measurements: 1 of 1 steps are faster", "milliseconds"}},
                    CalibrateCase{"NoDp",
                                  "layers,hidden,heads,seq_len,global_batch,micro_batch,tp,pp,iter_time_ms\n"
                                  "24,2048,16,1024,16,4,1,2,410\n",
                                  {"--cluster", "a100-80gb-sxm:1x8"},
                                  {"--measurements: the column dp is missing", "--default"}},
                    CalibrateCase{"Local",
                                  std::string(kHeader) + "24,2048,16,1024,16,4,1,2,2,410\n",
                                  {"--cluster", "local", "--default", "vocab=51200"},
                                  {"--cluster: local has no figures"}},
                    CalibrateCase{"Default",
                                  std::string(kHeader),
                                  {"--cluster", "a100-80gb-sxm:1x8", "--default", "vocab"},
                                  {"--default: \"vocab\" is not COLUMN=VALUE"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace autocfg::cli
