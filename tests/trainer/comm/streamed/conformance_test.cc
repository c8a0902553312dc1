// Runs the communicators' suites on streams that run late, over links without buffers.
#include "tests/conformance/communicator_form_suite.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/support/facade_world.h"
#include "tests/support/remote_driver.h"
#include "trainer/comm/streamed/streamed_world.h"

namespace autocfg::trainer {
namespace {

std::unique_ptr<CommWorld> CreateStreamed(Rendezvous& rendezvous) {
  auto device = std::make_unique<RemoteDevice>();
  auto world = CreateStreamedWorld(std::make_unique<RemoteDriver>(*device), CreateUcxWorld(rendezvous));
  return std::make_unique<FacadeWorld>(std::move(device), std::move(world));
}

INSTANTIATE_TEST_SUITE_P(Streamed, CommunicatorSuite, CommunicatorImplementations("streamed", CreateStreamed),
                         CommunicatorCaseName);
INSTANTIATE_TEST_SUITE_P(Streamed, CommunicatorFormSuite,
                         CommunicatorImplementations("streamed", CreateStreamed), CommunicatorCaseName);

}  // namespace
}  // namespace autocfg::trainer
