// Tests which choices of the ops a rank logs, and when.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trainer/thread_ranks.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

using ::testing::UnorderedElementsAre;

// While alive, captures the log of this thread and others.
class CapturedLog {
 public:
  CapturedLog() {
    auto logger =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l: %v");
    logger->set_level(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    std::istringstream in(text_.str());
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

// Each choice is logged once, whenever it was made: those that ranks share by one of them, a rank's own by
// that rank. The usual ones are for those who ask.
TEST(Train, LogsEachChoiceOnce) {
  TrainConfig c = test::SmallConfig();
  c.lr.steps = 3;
  c.untimed_steps = 1;
  c.plan = {{.tp = 2}};
  const CapturedLog log;
  auto rendezvous = CreateLocalRendezvous(2);
  test::RunThreads(2, [&](int rank) {
    Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[static_cast<std::size_t>(rank)]);
    backend.choices = [rank, asked = 0]() mutable {
      std::vector<OpChoice> choices = {{"usual"}, {"shared", false}};
      if (++asked > 1) choices.push_back({fmt::format("rank {}'s own", rank), false, true});
      return choices;
    };
    Train(c, rank, 2, backend, {});
  });
  std::vector<std::string> lines;
  for (const std::string& line : log.Lines()) {
    if (line.find("op choice: ") != std::string::npos) lines.push_back(line);
  }
  EXPECT_THAT(lines, UnorderedElementsAre("debug: op choice: usual", "info: op choice: shared",
                                          "info: op choice: rank 0's own", "info: op choice: rank 1's own"));
}

}  // namespace
}  // namespace autocfg::trainer
