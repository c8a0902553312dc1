// Every implementation that moves data, on the one suite.
#include "tests/conformance/communicator_suite.h"

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

}  // namespace
}  // namespace autocfg
