#include "fmt/format.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/group.h"

namespace autocfg::trainer {
namespace {

class NullWorld final : public CommWorld {
 public:
  NullWorld(int rank, int size, Rendezvous* copies)
      : rank_(rank), size_(size), copies_(copies != nullptr && copies->size() > 1 ? copies : nullptr) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor&) override {
    return CreateNullCommunicator(GroupPosition(ranks, rank_, size_), static_cast<int>(ranks.size()), name,
                                  copies_);
  }

 private:
  const int rank_;
  const int size_;
  Rendezvous* const copies_;
};

}  // namespace

std::unique_ptr<CommWorld> CreateNullWorld(int rank, int size, Rendezvous* copies) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw CommError(fmt::format("rank {} is outside a world of {} ranks", rank, size));
  }
  return std::make_unique<NullWorld>(rank, size, copies);
}

}  // namespace autocfg::trainer
