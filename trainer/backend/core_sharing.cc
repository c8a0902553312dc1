#include "trainer/backend/core_sharing.h"

#include <algorithm>
#include <utility>

#include "base/os/cpus.h"
#include "base/os/host.h"
#include "trainer/comm/communicator.h"

namespace autocfg::trainer {

bool SharesCores(std::span<const RankCores> ranks, int rank) {
  const RankCores& mine = ranks[rank];
  double load = 0;
  for (const RankCores& other : ranks) {
    if (other.kernel != mine.kernel) continue;
    const auto common = std::count_if(other.cores.begin(), other.cores.end(), [&](int core) {
      return std::binary_search(mine.cores.begin(), mine.cores.end(), core);
    });
    load += static_cast<double>(common) / static_cast<double>(other.cores.size());
  }
  return load > static_cast<double>(mine.cores.size()) * 1.01;
}

bool SharesCores(Rendezvous& rendezvous) {
  const std::string own = base::KernelId() + " " + base::CpuListText(base::AllowedCpus());
  std::vector<RankCores> ranks;
  for (const std::string& said : rendezvous.AllGather("cores", own)) {
    const auto space = said.rfind(' ');
    auto cores = base::ParseCpuList(std::string_view(said).substr(space + 1));
    if (space == std::string::npos || !cores || cores->empty())
      throw CommError("a rank reported invalid cores \"" + said + "\"");
    ranks.push_back({said.substr(0, space), *std::move(cores)});
  }
  return SharesCores(ranks, rendezvous.rank());
}

}  // namespace autocfg::trainer
