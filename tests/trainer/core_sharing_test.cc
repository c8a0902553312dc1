#include "trainer/backend/core_sharing.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>

#include "base/os/cpus.h"
#include "base/os/host.h"
#include "tests/trainer/thread_ranks.h"

namespace autocfg::trainer {
namespace {

std::vector<bool> Shares(const std::vector<RankCores>& ranks) {
  std::vector<bool> shares;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    shares.push_back(SharesCores(ranks, static_cast<int>(rank)));
  return shares;
}

TEST(CoreSharing, DetectsMoreRanksThanCores) {
  EXPECT_EQ(Shares({{"a", {0}}}), std::vector<bool>{false});
  EXPECT_EQ(Shares({{"a", {0}}, {"a", {1}}}), (std::vector<bool>{false, false}));
  EXPECT_EQ(Shares({{"a", {0}}, {"a", {0}}, {"a", {1}}}), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(Shares({{"a", {0, 1}}, {"a", {0, 1}}}), (std::vector<bool>{false, false})) << "not pinned";
  EXPECT_EQ(Shares({{"a", {0, 1}}, {"a", {0, 1}}, {"a", {0, 1}}}), (std::vector<bool>{true, true, true}));
}

TEST(CoreSharing, CoresOfDifferentMachinesAreDistinct) {
  EXPECT_EQ(Shares({{"a", {0}}, {"b", {0}}}), (std::vector<bool>{false, false}));
  EXPECT_EQ(Shares({{"a", {0}}, {"a", {0}}, {"b", {0}}}), (std::vector<bool>{true, true, false}));
}

// A rendezvous of one machine whose ranks, except the first, claim to be on another machine.
class Elsewhere final : public Rendezvous {
 public:
  explicit Elsewhere(std::unique_ptr<Rendezvous> real) : real_(std::move(real)) {}
  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  std::vector<std::string> AllGather(std::string_view name, std::string_view bytes) override {
    std::string said(bytes);
    if (const auto at = said.find(base::KernelId()); name == "cores" && rank() > 0 && at != std::string::npos)
      said.replace(at, base::KernelId().size(), "another");
    return real_->AllGather(name, said);
  }

 private:
  const std::unique_ptr<Rendezvous> real_;
};

// Returns by rank, as the op timer asks it, whether ranks share cores if all may run only on this process's
// first core.
std::array<bool, 2> OnOneCore(bool elsewhere) {
  auto rendezvous = CreateLocalRendezvous(2);
  for (auto& one : rendezvous) {
    if (elsewhere) one = std::make_unique<Elsewhere>(std::move(one));
  }
  std::array<bool, 2> shares{};
  test::RunThreads(2, [&](int rank) {
    base::RunOnCpus({base::AllowedCpus().front()});
    const Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[rank]);
    shares[rank] = backend.shares_cores();
  });
  return shares;
}

TEST(CoreSharing, ComparesOnlyRanksOfTheSameMachine) {
  EXPECT_EQ(OnOneCore(/*elsewhere=*/false), (std::array{true, true}));
  EXPECT_EQ(OnOneCore(/*elsewhere=*/true), (std::array{false, false}));
}

}  // namespace
}  // namespace autocfg::trainer
