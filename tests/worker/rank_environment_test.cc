#include "worker/supervisor/rank_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg::worker {
namespace {

using testing::ElementsAre;

TEST(RankEnvironment, RanksInheritWhatTheirLibrariesReadAlone) {
  const char* own[] = {"PATH=/bin",
                       "AWS_SECRET_ACCESS_KEY=x",
                       "NCCL_SOCKET_IFNAME=eth0",
                       "OMP_NUM_THREADS=4",
                       "AUTOCFG_MATMUL=apart",
                       "AUTOCFG_TOKEN_FILE=/t",
                       "NOTIFY_SOCKET=/n",
                       "GITHUB_TOKEN=x",
                       "LC_ALL=C",
                       "NVIDIA_API_KEY=x",
                       "NV_TPS_LAUNCH_TOKEN=x",
                       "UCX_TLS=sm",
                       nullptr};
  EXPECT_THAT(RankEnvironment(own, {"UCX_TLS=tcp", "NEW=1"}, /*foreign=*/false),
              ElementsAre("PATH=/bin", "NCCL_SOCKET_IFNAME=eth0", "OMP_NUM_THREADS=4", "AUTOCFG_MATMUL=apart",
                          "LC_ALL=C", "NV_TPS_LAUNCH_TOKEN=x", "UCX_TLS=tcp", "NEW=1"));
}

TEST(RankEnvironment, OtherEnginesInheritAllButWhatIsTheWorkersAlone) {
  const char* own[] = {"CONDA_PREFIX=/c", "AUTOCFG_TOKEN_FILE=/t", "AUTOCFG_TLS_KEY=/k", "HOME=/h", nullptr};
  EXPECT_THAT(RankEnvironment(own, {"HOME=/tmp"}, /*foreign=*/true),
              ElementsAre("CONDA_PREFIX=/c", "HOME=/tmp"));
}

}  // namespace
}  // namespace autocfg::worker
