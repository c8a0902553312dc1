// Every implementation that moves data, on the one suite.
#include "tests/conformance/communicator_suite.h"
#include "tests/support/facade_world.h"
#include "tests/support/remote_device.h"

namespace autocfg {
namespace {

INSTANTIATE_TEST_SUITE_P(Ucx, CommunicatorSuite, CommunicatorImplementations("ucx", CreateUcxWorld),
                         CommunicatorCaseName);

std::unique_ptr<CommWorld> CreateDelayedUcx(Rendezvous& rendezvous) {
  return CreateDelayedWorld(CreateUcxWorld(rendezvous));
}

INSTANTIATE_TEST_SUITE_P(Delayed, CommunicatorSuite, CommunicatorImplementations("delayed", CreateDelayedUcx),
                         CommunicatorCaseName);

// Owns the log of its rank.
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

}  // namespace
}  // namespace autocfg
