// Runs the conformance suites on every communicator: all suites for those that move data, and the suites that
// do not examine data for the others.
#include "tests/conformance/communicator_form_suite.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/support/facade_world.h"
#include "tests/support/remote_device.h"
#include "trainer/comm/worlds/paced_world.h"

namespace autocfg::trainer {
namespace {

INSTANTIATE_TEST_SUITE_P(Ucx, CommunicatorSuite, CommunicatorImplementations("ucx", CreateUcxWorld),
                         CommunicatorCaseName);

std::unique_ptr<CommWorld> CreateDelayedUcx(Rendezvous& rendezvous) {
  return CreateDelayedWorld(CreateUcxWorld(rendezvous));
}

INSTANTIATE_TEST_SUITE_P(Delayed, CommunicatorSuite, CommunicatorImplementations("delayed", CreateDelayedUcx),
                         CommunicatorCaseName);

// A world that owns the log of its rank.
class LoggedWorld final : public CommWorld {
 public:
  explicit LoggedWorld(std::unique_ptr<CommWorld> inner)
      : world_(CreateRecordingWorld(std::move(inner), log_)) {}
  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    return world_->CreateGroup(name, ranks, staging);
  }

 private:
  OpLog log_;
  std::unique_ptr<CommWorld> world_;
};

std::unique_ptr<CommWorld> CreateRecordingUcx(Rendezvous& rendezvous) {
  return std::make_unique<LoggedWorld>(CreateUcxWorld(rendezvous));
}

INSTANTIATE_TEST_SUITE_P(Recording, CommunicatorSuite,
                         CommunicatorImplementations("recording", CreateRecordingUcx), CommunicatorCaseName);

std::unique_ptr<CommWorld> CreateStagedUcx(Rendezvous& rendezvous) {
  auto device = std::make_unique<RemoteDevice>();
  auto world = CreateStagedWorld(CreateUcxWorld(rendezvous), *device);
  return std::make_unique<FacadeWorld>(std::move(device), std::move(world));
}

INSTANTIATE_TEST_SUITE_P(Staged, CommunicatorSuite, CommunicatorImplementations("staged", CreateStagedUcx),
                         CommunicatorCaseName);

std::unique_ptr<CommWorld> CreateNull(Rendezvous& rendezvous) {
  return CreateNullWorld(rendezvous.rank(), rendezvous.size());
}

// A world that owns the clock of its rank, on which every operation takes a millisecond.
class ClockedWorld final : public CommWorld {
 public:
  explicit ClockedWorld(std::unique_ptr<CommWorld> inner)
      : world_(CreatePacedWorld(std::move(inner), clock_)) {}
  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    return world_->CreateGroup(name, ranks, staging);
  }

 private:
  PacedClock clock_{[](const OpDesc&) { return 1e-3; }};
  std::unique_ptr<CommWorld> world_;
};

std::unique_ptr<CommWorld> CreatePacedUcx(Rendezvous& rendezvous) {
  return std::make_unique<ClockedWorld>(CreateUcxWorld(rendezvous));
}

std::vector<CommunicatorCase> Forms() {
  std::vector<CommunicatorCase> cases;
  for (const auto& [name, factory] : {std::pair<const char*, WorldFactory>("ucx", CreateUcxWorld),
                                      {"delayed", CreateDelayedUcx},
                                      {"recording", CreateRecordingUcx},
                                      {"staged", CreateStagedUcx},
                                      {"null", CreateNull},
                                      {"paced", CreatePacedUcx}}) {
    for (const int size : {1, 2, 5}) cases.push_back({name, factory, size});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Form, CommunicatorFormSuite, testing::ValuesIn(Forms()), CommunicatorCaseName);

}  // namespace
}  // namespace autocfg::trainer
