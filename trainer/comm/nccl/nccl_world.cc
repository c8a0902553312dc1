#include "trainer/comm/nccl/nccl_world.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/comm/nccl/nccl_api.h"
#include "trainer/comm/nccl/nccl_driver.h"
#include "trainer/comm/streamed/streamed_world.h"

namespace autocfg::trainer {
namespace {

// NCCL reads its environment variables at its first call in the process.
void ShareGpuIfAsked(int rank) {
  const char* asked = std::getenv("AUTOCFG_NCCL_SHARE_GPU");
  if (asked == nullptr || std::string_view(asked) != "1") return;
  setenv("NCCL_HOSTID", fmt::format("autocfg-rank-{}", rank).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  setenv("NCCL_NET", "Socket", 0);    // not InfiniBand, which loopback is not part of
  setenv("NCCL_RAS_ENABLE", "0", 0);  // every "host" would request its single port of the machine
}

}  // namespace

std::unique_ptr<CommWorld> CreateNcclWorld(Rendezvous& rendezvous) {
  if (rendezvous.size() == 1) return CreateNullWorld(0, 1);
  ShareGpuIfAsked(rendezvous.rank());
  std::unique_ptr<StreamDriver> driver = CreateNcclDriver(Nccl());  // throws at once if NCCL is missing
  return CreateStreamedWorld(std::move(driver), CreateUcxWorld(rendezvous));
}

}  // namespace autocfg::trainer
