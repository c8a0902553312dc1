// `autocfg report` as a user runs it. tests/browser opens the pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "search/plan/plan_text.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string WholePage(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(ReportVerb, WritesAPageAboutAStudy) {
  const ScratchDirectory home;
  const std::string page = home / "report.html";
  const Finished none = RunAutocfg(home, {"report", "--output", page});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no studies found"));
  const Finished search =
      RunAutocfg(home, {"search", "--model", "llama3-8b", "--cluster", "h100-sxm:1x8", "--global-batch", "64",
                        "--seq-len", "4096", "--predict-only", "--save"});
  ASSERT_EQ(search.exit_code, 0) << search.err;
  const Finished newest = RunAutocfg(home, {"report", "--output", page});
  ASSERT_EQ(newest.exit_code, 0) << newest.err;
  EXPECT_EQ(newest.out, "wrote " + page + "\n");
  const std::string text = WholePage(page);
  EXPECT_THAT(text, AllOf(HasSubstr("<title>Study 1: llama3-8b on h100-sxm, 8 ranks</title>"),
                          HasSubstr("\"provenance\":\"predicted\"")));
  const Finished named = RunAutocfg(home, {"report", "--study", "1", "--output", page});
  ASSERT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(WholePage(page), text);
  const Finished missing = RunAutocfg(home, {"report", "--study", "7", "--output", page});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("--study"), HasSubstr("autocfg studies lists what there is")));
  EXPECT_EQ(WholePage(page), text) << "an error leaves the file";
}

// The data of a page.
nlohmann::json DataOf(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(ReportVerb, ASearchOnCpusHasPredictedAndMeasuredTimelines) {
  const ScratchDirectory home;
  const std::string page = home / "report.html";
  const Finished search =
      RunAutocfg(home, {"search",        "--model",      "gpt2-tiny", "--global-batch", "8",
                        "--seq-len",     "32",           "--space",   "pp=2",           "--space",
                        "dp=1",          "--space",      "mbs=2",     "--space",        "schedule=1f1b,gpipe",
                        "--space",       "split=even",   "--space",   "recompute=none", "--space",
                        "p2p_overlap=0", "--max-trials", "2"});
  ASSERT_EQ(search.exit_code, 0) << search.err;
  const Finished made = RunAutocfg(home, {"report", "--output", page});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const nlohmann::json data = DataOf(WholePage(page));
  ASSERT_EQ(data["timelines"].size(), 2u);
  int measured = 0;
  for (const nlohmann::json& timeline : data["timelines"]) {
    ASSERT_EQ(timeline["ranks"].size(), 2u);
    if (timeline["measured"].is_null()) continue;
    ++measured;
    ASSERT_EQ(timeline["measured"]["note"], "");
    ASSERT_EQ(timeline["measured"]["ranks"].size(), 2u);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::string predicted = timeline["ranks"][rank]["kinds"];
      std::string recorded = timeline["measured"]["ranks"][rank]["kinds"];
      std::sort(predicted.begin(), predicted.end());
      std::sort(recorded.begin(), recorded.end());
      EXPECT_EQ(recorded, predicted) << "the same actions";
    }
    EXPECT_GT(timeline["measured"]["step_s"], 0);
  }
  EXPECT_EQ(measured, 2);
}

TEST(ReportVerb, OfTheFileOfASearchNeedsNoDatabase) {
  const ScratchDirectory home;
  const std::string page = home / "report.html", best = home / "best.json";
  const Finished search =
      RunAutocfg(home, {"search", "--model", "llama3-8b", "--cluster", "h100-sxm:1x8", "--global-batch", "64",
                        "--seq-len", "4096", "--predict-only", "--output", best});
  ASSERT_EQ(search.exit_code, 0) << search.err;
  const Finished made = RunAutocfg(home, {"report", "--input", best, "--output", page});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, "wrote " + page + "\n");
  const nlohmann::json data = DataOf(WholePage(page)), answer = nlohmann::json::parse(WholePage(best));
  EXPECT_EQ(data["title"], "Search: llama3-8b on h100-sxm, 8 ranks");
  EXPECT_EQ(data["from_file"], true);
  EXPECT_EQ(data["answer"]["best"]["plan_text"],
            WithShortSplit(answer["best"]["plan_text"].get<std::string>()));
  EXPECT_EQ(data["answer"]["best"]["predicted"], answer["best"]["predicted"]);
  for (const char* part :
       {"model", "cluster", "workload", "engine", "memory_margin", "counts", "rejected", "search"})
    EXPECT_EQ(data["answer"][part], answer[part]) << part;
  ASSERT_EQ(data["answer"]["runners_up"].size(), answer["runners_up"].size());
  EXPECT_EQ(data["plans"]["count"], 1 + answer["runners_up"].size());
  EXPECT_EQ(data["plans"]["in_all"], answer["counts"]["predicted"]);
  EXPECT_EQ(data["answer"]["pareto_memory"].size(), answer["pareto_memory"].size());
  EXPECT_EQ(data["answer"]["why"]["matters_most"]["because"], answer["why"]["matters_most"]["because"]);
  EXPECT_TRUE(data["timelines"].empty());
}

TEST(ReportVerb, OfAFileShowsWhatWasMeasured) {
  const ScratchDirectory home;
  const std::string page = home / "report.html", best = home / "best.json";
  const Finished search = RunAutocfg(home, {"search", "--model", "gpt2-tiny", "--cluster", "h100-sxm:1x4",
                                            "--device", "paced", "--global-batch", "16", "--seq-len", "64",
                                            "--max-trials", "2", "--space", "pp=2", "--output", best});
  ASSERT_EQ(search.exit_code, 0) << search.err;
  ASSERT_EQ(RunAutocfg(home, {"report", "--input", best, "--output", page}).exit_code, 0);
  const nlohmann::json data = DataOf(WholePage(page));
  const nlohmann::json measured = nlohmann::json::parse(WholePage(best))["best"]["measured"];
  EXPECT_EQ(data["answer"]["best"]["measured"], measured);
  EXPECT_EQ(data["answer"]["device"], "paced");
  EXPECT_EQ(data["plans"]["kinds"].get<std::string>().front(), 'm');
  EXPECT_EQ(data["title"], "Study 1: gpt2-tiny on h100-sxm, 4 ranks");
}

TEST(ReportVerb, NamesWhatAFileLacks) {
  const ScratchDirectory home;
  const std::string page = home / "report.html", best = home / "best.json";
  ASSERT_EQ(RunAutocfg(home, {"search", "--model", "gpt2-tiny", "--cluster", "h100-sxm:1x4", "--global-batch",
                              "16", "--seq-len", "64", "--predict-only", "--output", best})
                .exit_code,
            0);
  const nlohmann::json answer = nlohmann::json::parse(WholePage(best));
  const auto refused = [&](const std::function<void(nlohmann::json&)>& edit, const std::string& what) {
    nlohmann::json bad = answer;
    edit(bad);
    const Finished made =
        RunAutocfg(home, {"report", "--input", home.Write("bad.json", bad.dump()), "--output", page});
    EXPECT_NE(made.exit_code, 0) << what;
    EXPECT_THAT(made.err, HasSubstr(what));
    EXPECT_EQ(std::count(made.err.begin(), made.err.end(), '\n'), 1) << made.err;
    EXPECT_FALSE(std::filesystem::exists(page));
  };
  const char* give = "; give a file that autocfg search --output wrote";
  for (const char* part : {"model", "workload", "best", "cluster", "counts", "rejected", "search",
                           "runners_up", "pareto_memory", "memory_margin", "why"})
    refused([&](auto& j) { j.erase(part); }, give);
  refused(
      [](auto& j) {
        j.erase("counts");
        j.erase("search");
      },
      "does not hold the answer of a search");
  refused([](auto& j) { j["best"] = nullptr; }, "found no plan that fits");
  refused([](auto& j) { j["best"].erase("predicted"); }, "best: predicted: ");
  refused([](auto& j) { j["best"]["predicted"].erase("step_time_low_s"); },
          "best: predicted: 'step_time_low_s' is missing");
  refused([](auto& j) { j["best"]["predicted"]["memory_bytes"]["optimizer"] = -1; },
          "best: predicted: memory_bytes: 'optimizer' is -1, not a whole number >= 0");
  refused([](auto& j) { j["best"]["measured"] = 3; }, "best: measured: ");
  refused([](auto& j) { j["runners_up"][0]["plan"]["tp"] = "two"; }, "runners_up: 1: plan: ");
  refused([](auto& j) { j["runners_up"] = 1; }, "'runners_up' is 1, not a list");
  refused([](auto& j) { j["pareto_memory"][0] = 1; }, "pareto_memory: 1: ");
  refused([](auto& j) { j["counts"]["illegal"] = "many"; },
          "counts: 'illegal' is \"many\", not a whole number");
  refused([](auto& j) { j["rejected"]["x"] = -1; }, "rejected: 'x' is -1, not a whole number");
  refused([](auto& j) { j["device"] = "abacus"; }, "'device' is \"abacus\"");
  refused([](auto& j) { j["cluster"]["nodes"] = 0; }, "cluster");
  refused([](auto& j) { j["search"]["wall_s"] = nullptr; }, "search: 'wall_s' is missing");
  const std::string script = home.Write("run.sh", "python pretrain_gpt.py --micro-batch-size 4\n");
  const Finished framework = RunAutocfg(home, {"report", "--input", script, "--output", page});
  EXPECT_EQ(framework.exit_code, 2);
  EXPECT_THAT(framework.err, HasSubstr("is a file of megatron; give"));
  EXPECT_FALSE(std::filesystem::exists(page));
}

}  // namespace
}  // namespace autocfg::cli
