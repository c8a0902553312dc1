// Parses written traces: every row is present, nothing overlaps, and each lane is busy or idle at every
// moment of the step.
#include "search/text/chrome_trace.h"

#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/cost/timing/program_timer.h"
#include "search/plan/model_stages.h"
#include "tests/search/schedule/programs.h"

namespace autocfg {
namespace {

using TraceJson = nlohmann::json;
using test::Interleaved;
using test::Make;

TracedStep Simulate(const Program& program) {
  const auto step = TraceProgram(program, [](std::int32_t rank, const Action& action) {
    const double slower = 1 + 0.01 * rank;  // makes all ranks different
    switch (action.kind) {
      case ActionKind::kForward: return 1.1e-4 * slower;
      case ActionKind::kBackward: return 2.3e-4 * slower;
      case ActionKind::kZeroScalars: return 0.0;
      default: return 1e-5 / 3;
    }
  });
  EXPECT_TRUE(step.ok()) << step.status();
  return *step;
}

std::int64_t Nanoseconds(const TraceJson& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

struct Event {
  std::string name;
  std::int64_t begin, end;  // nanoseconds
  TraceJson args;
};

// Returns the events by rank and lane, in text order.
std::map<std::pair<int, int>, std::vector<Event>> Events(const TraceJson& trace) {
  std::map<std::pair<int, int>, std::vector<Event>> events;
  for (const TraceJson& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::int64_t begin = Nanoseconds(event.at("ts"));
    events[{event.at("pid"), event.at("tid")}].push_back(
        {event.at("name"), begin, begin + Nanoseconds(event.at("dur")), event.at("args")});
  }
  return events;
}

void ExpectWhole(const Program& program) {
  const TracedStep step = Simulate(program);
  const TraceJson trace = TraceJson::parse(ChromeTrace(program, step.rows, {}));
  const auto step_ns = std::llround(step.step_time_s * 1e9);
  std::set<std::pair<int, int>> found;  // rank, action
  for (const auto& [where, events] : Events(trace)) {
    const auto& [rank, lane] = where;
    std::int64_t free = 0, busy = 0, idle = 0;
    for (const Event& event : events) {
      EXPECT_GE(event.begin, free) << "rank " << rank << " lane " << lane << ": " << event.name;
      free = event.end;
      if (event.name == "idle") {
        EXPECT_GT(event.end, event.begin);
        idle += event.end - event.begin;
        continue;
      }
      busy += event.end - event.begin;
      const int index = event.args.at("action");
      const Action& action = program.ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)];
      EXPECT_EQ(event.name, ToString(action));
      EXPECT_EQ(event.args.at("kind"), Name(action.kind));
      EXPECT_EQ(event.args.value("stage", -1), action.stage);
      EXPECT_EQ(event.args.value("microbatch", -1), action.microbatch);
      EXPECT_EQ(lane, static_cast<int>(action.lane));
      EXPECT_TRUE(found.insert({rank, index}).second) << event.name << " twice";
    }
    EXPECT_LE(free, step_ns);
    EXPECT_EQ(busy + idle, step_ns) << "rank " << rank << " lane " << lane;
    if (lane != static_cast<int>(Lane::kCompute)) continue;
    EXPECT_NEAR(static_cast<double>(busy), step.compute_busy_s[static_cast<std::size_t>(rank)] * 1e9,
                static_cast<double>(events.size()));
  }
  EXPECT_EQ(found.size(), step.rows.size());
  // The times of each row match to the nanosecond.
  std::map<std::pair<int, int>, const TraceRow*> rows;
  for (const TraceRow& row : step.rows) rows[{row.rank, row.action}] = &row;
  for (const auto& [where, events] : Events(trace)) {
    for (const Event& event : events) {
      if (event.name == "idle") continue;
      const TraceRow& row = *rows.at({where.first, event.args.at("action").get<int>()});
      EXPECT_EQ(event.begin, std::llround(row.start_s * 1e9)) << event.name;
      EXPECT_EQ(event.end, std::llround(row.end_s * 1e9)) << event.name;
    }
  }
}

TEST(ChromeTrace, WholeSteps) {
  ExpectWhole(Make(1, 1, 1, 2));
  ExpectWhole(Make(2, 2, 2, 4, Schedule::kGPipe));
  ExpectWhole(Make(1, 4, 1, 8));
  ExpectWhole(Interleaved(2, 3, 2, 4));
  ExpectWhole(Interleaved(4, 2, 1, 8));
}

TEST(ChromeTrace, NamesOfRanksAndLanes) {
  const Program program = Interleaved(2, 2, 1, 2, 2);
  const TraceJson trace = TraceJson::parse(ChromeTrace(program, Simulate(program).rows, {}));
  std::map<int, std::string> ranks;
  std::map<std::pair<int, int>, std::string> lanes;
  for (const TraceJson& event : trace.at("traceEvents")) {
    if (event.at("ph") != "M") continue;
    const int pid = event.at("pid"), tid = event.at("tid");
    if (event.at("name") == "process_name") ranks[pid] = event.at("args").at("name");
    if (event.at("name") == "thread_name") lanes[{pid, tid}] = event.at("args").at("name");
    if (event.at("name") == "process_sort_index") {
      EXPECT_EQ(event.at("args").at("sort_index"), pid);
    }
  }
  EXPECT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[1], "rank 1 (stages 0, 2)");
  EXPECT_EQ(ranks[2], "rank 2 (stages 1, 3)");
  EXPECT_EQ(lanes.size(), 16u);
  EXPECT_EQ((lanes[{3, 0}]), "compute");
  EXPECT_EQ((lanes[{3, 1}]), "pp_send");
  EXPECT_EQ((lanes[{3, 2}]), "pp_recv");
  EXPECT_EQ((lanes[{3, 3}]), "reduce");
  EXPECT_EQ(trace.at("otherData").at("plan"), "tp=2,pp=2,dp=1,mbs=1,vpp=2");
  const TraceJson one = TraceJson::parse(ChromeTrace(Make(1, 1, 1, 1), Simulate(Make(1, 1, 1, 1)).rows, {}));
  EXPECT_EQ(one.at("traceEvents").at(0).at("args").at("name"), "rank 0 (stage 0)");
}

// By hand: "ZERO 0F0 0B0 0F1 0B1 SCALARS OPT" of one rank, with rows in any order.
TEST(ChromeTrace, GapsAndOverlapsByHand) {
  const Program program = Make(1, 1, 1, 2);
  const std::vector<TraceRow> rows = {
      {0, Lane::kCompute, 2, 3e-6, 5e-6},  // 0B0
      {0, Lane::kCompute, 1, 1e-6, 2e-6},  // 0F0
      {0, Lane::kCompute, 3, 4e-6, 6e-6},  // 0F1, issued while 0B0 still ran
      {0, Lane::kReduce, 5, 6e-6, 9e-6},   // SCALARS
  };
  const TraceJson trace = TraceJson::parse(ChromeTrace(program, rows, {}));
  std::string text;
  for (const auto& [where, events] : Events(trace)) {
    for (const Event& event : events)
      text += fmt::format("{}: {} {}-{}\n", where.second, event.name, event.begin, event.end);
  }
  EXPECT_EQ(text,
            "0: idle 0-1000\n0: 0F0 1000-2000\n0: idle 2000-3000\n0: 0B0 3000-5000\n0: 0F1 5000-6000\n0: "
            "idle 6000-9000\n"
            "3: idle 0-6000\n3: SCALARS 6000-9000\n");
}

TEST(ChromeTrace, RecordsTheOriginOfItsTimes) {
  const Program program = Make(2, 2, 1, 2);
  const std::vector<TraceRow> rows = Simulate(program).rows;
  const auto labels = [](const TraceJson& trace) {
    std::set<std::string> found;
    for (const TraceJson& event : trace.at("traceEvents")) {
      if (event.at("name") == "process_labels")
        found.insert(event.at("args").at("labels").get<std::string>());
    }
    return found;
  };
  const TraceJson predicted = TraceJson::parse(ChromeTrace(program, rows,
                                                           {.kind = TraceKind::kPredicted,
                                                            .device = std::nullopt,
                                                            .cluster = "my \"best\"\n",
                                                            .slice = std::nullopt}));
  EXPECT_EQ(predicted.at("otherData"), (TraceJson{{"plan", "tp=2,pp=2,dp=1,mbs=1"},
                                                  {"kind", "predicted"},
                                                  {"device", nullptr},
                                                  {"cluster", "my \"best\"\n"},
                                                  {"slice", nullptr}}));
  EXPECT_EQ(labels(predicted), std::set<std::string>{"predicted"});
  const TraceJson slice = TraceJson::parse(ChromeTrace(
      program, rows,
      {.kind = TraceKind::kEmulated, .device = EngineDevice::kPaced, .cluster = "a100", .slice = {{1, 0}}}));
  EXPECT_EQ(slice.at("otherData").at("kind"), "emulated");
  EXPECT_EQ(slice.at("otherData").at("device"), "paced");
  EXPECT_EQ(slice.at("otherData").at("slice"), (TraceJson{{"tensor", 1}, {"pipeline", 0}}));
  EXPECT_EQ(labels(slice), std::set<std::string>{"emulated, a slice: it ran alone"});
  const TraceJson measured = TraceJson::parse(ChromeTrace(
      program, rows,
      {.kind = TraceKind::kMeasured, .device = EngineDevice::kCpu, .cluster = "", .slice = std::nullopt}));
  EXPECT_EQ(measured.at("otherData").at("kind"), "measured");
  EXPECT_EQ(measured.at("otherData").at("cluster"), nullptr);
}

TEST(ChromeTrace, RowsOfSomeRanks) {
  const Program program = Make(1, 4, 1, 4);
  std::vector<TraceRow> rows = Simulate(program).rows;
  std::erase_if(rows, [](const TraceRow& row) { return row.rank != 2; });
  for (const auto& [where, events] : Events(TraceJson::parse(ChromeTrace(program, rows, {}))))
    EXPECT_EQ(where.first, 2);
  EXPECT_TRUE(TraceJson::parse(ChromeTrace(program, {}, {})).at("traceEvents").empty());
}

TEST(ChromeTrace, RejectsRowsOfAnotherProgram) {
  const std::vector<TraceRow> rank = {{1, Lane::kCompute, 0, 0, 1}}, action = {{0, Lane::kCompute, 99, 0, 1}};
  EXPECT_THROW(ChromeTrace(Make(1, 1, 1, 1), rank, {}), std::out_of_range);
  EXPECT_THROW(ChromeTrace(Make(1, 1, 1, 1), action, {}), std::out_of_range);
}

}  // namespace
}  // namespace autocfg
