#include <algorithm>
#include <array>
#include <cstring>

#include "trainer/comm/reduce.h"
#include "trainer/comm/ucx/collectives.h"

namespace autocfg::trainer {
namespace {

// Number of slots in the staging buffer, and of pieces in flight in each direction.
constexpr int kSlots = 4;

// The work is a sequence of units, one per step of the ring and piece of a segment. Unit u sends a piece to
// the right and receives one from the left. The first steps reduce, the others pass results on; step k + 1
// sends what step k received. The first segment that a rank sends is its own, or, where its own has to be
// reduced last, the one before.
class Ring final : public CollectiveTask {
 public:
  Ring(UcxGroup& group, const CollectiveCall& call, const Tensor& staging)
      : group_(group),
        tensor_(call.whole),
        part_(call.part),
        op_(call.op),
        first_(FormOf(call.kind).to_part ? 1 : 0),
        staging_(static_cast<char*>(staging.data)),
        size_(group.size()),
        element_bytes_(SizeOf(tensor_.dtype)),
        slot_elements_(staging.Bytes() / kSlots / element_bytes_) {
    const std::int64_t longest = (tensor_.Elements() + size_ - 1) / size_;
    pieces_ = (longest + slot_elements_ - 1) / slot_elements_;
    const std::int64_t once_around = (size_ - 1) * pieces_;
    const CollectiveForm form = FormOf(call.kind);
    reducing_ = form.reduces ? once_around : 0;
    units_ = form.HasPart() ? once_around : 2 * once_around;
    if (form.from_part && !IsInPlace())
      std::memcpy(Own(), part_.data, static_cast<std::size_t>(part_.Bytes()));
  }

  bool done() const override { return sent_ == units_ && received_ == units_; }

  bool Step() override {
    bool moved = false;
    for (bool again = true; again;) {
      again = false;
      while (CanReceive()) {
        PostReceive();
        again = true;
      }
      while (CanSend()) {
        PostSend();
        again = true;
      }
      while (sent_ < sends_posted_ && sends_[sent_ % kSlots].Done()) {
        ++sent_;
        again = true;
      }
      while (received_ < receives_posted_ && receives_[received_ % kSlots].Done()) {
        TakeReceived();
        again = true;
      }
      moved = moved || again;
    }
    return moved;
  }

 private:
  struct Piece {
    char* data;
    std::int64_t elements;
    std::size_t bytes;
  };

  // Returns this rank's part in the whole tensor. Requires a part.
  char* Own() const { return tensor_.As<char>() + group_.rank() * part_.Bytes(); }
  bool IsInPlace() const { return !part_.IsPresent() || part_.As<char>() == Own(); }

  // Returns the piece of unit `unit` in the segment `shift` before this rank's own.
  Piece PieceOf(std::int64_t unit, std::int64_t shift) const {
    const std::int64_t segment = ((group_.rank() - shift) % size_ + size_) % size_;
    const std::int64_t n = tensor_.Elements();
    const std::int64_t begin = n * segment / size_;
    const std::int64_t length = n * (segment + 1) / size_ - begin;
    const std::int64_t piece = unit % pieces_;
    const std::int64_t first = length * piece / pieces_;
    const std::int64_t elements = length * (piece + 1) / pieces_ - first;
    return {static_cast<char*>(tensor_.data) + (begin + first) * element_bytes_, elements,
            static_cast<std::size_t>(elements * element_bytes_)};
  }
  Piece Sent(std::int64_t unit) const { return PieceOf(unit, first_ + unit / pieces_); }
  Piece Received(std::int64_t unit) const { return PieceOf(unit, first_ + unit / pieces_ + 1); }
  char* Slot(std::int64_t unit) const { return staging_ + unit % kSlots * slot_elements_ * element_bytes_; }

  // A received result overwrites a piece that this rank sent for reduction one round earlier, if it did.
  bool CanReceive() const {
    return receives_posted_ < units_ && receives_posted_ < received_ + kSlots &&
           (reducing_ == 0 || receives_posted_ < reducing_ || receives_posted_ - reducing_ < sent_);
  }
  bool CanSend() const {
    return sends_posted_ < units_ && sends_posted_ < sent_ + kSlots && sends_posted_ < received_ + pieces_;
  }

  void PostReceive() {
    const std::int64_t unit = receives_posted_++;
    const Piece piece = Received(unit);
    void* target = unit < reducing_ ? Slot(unit) : piece.data;
    receives_[unit % kSlots] =
        group_.Recv((group_.rank() + size_ - 1) % size_, kCollectiveChannel, target, piece.bytes);
  }

  void PostSend() {
    const std::int64_t unit = sends_posted_++;
    const Piece piece = Sent(unit);
    sends_[unit % kSlots] =
        group_.Send((group_.rank() + 1) % size_, kCollectiveChannel, piece.data, piece.bytes);
  }

  void TakeReceived() {
    const std::int64_t unit = received_++;
    if (unit >= reducing_) return;
    const Piece piece = Received(unit);
    ReduceInto(tensor_.dtype, op_, ReduceOrder::kOtherFirst, piece.data, Slot(unit), piece.elements);
    // The last round of a reduce-scatter reduces the own part.
    if (!IsInPlace() && unit >= reducing_ - pieces_)
      std::memcpy(part_.As<char>() + (piece.data - Own()), piece.data, piece.bytes);
  }

  UcxGroup& group_;
  const Tensor tensor_;
  const Tensor part_;  // absent: of an all-reduce
  const ReduceOp op_;
  const std::int64_t first_;
  char* const staging_;
  const int size_;
  const std::int64_t element_bytes_;
  const std::int64_t slot_elements_;
  std::int64_t pieces_ = 0;    // per segment
  std::int64_t reducing_ = 0;  // units that reduce
  std::int64_t units_ = 0;
  std::int64_t sends_posted_ = 0, sent_ = 0;
  std::int64_t receives_posted_ = 0, received_ = 0;
  std::array<UcxRequest, kSlots> sends_;
  std::array<UcxRequest, kSlots> receives_;
};

}  // namespace

std::unique_ptr<CollectiveTask> CreateRing(UcxGroup& group, const CollectiveCall& call,
                                           const Tensor& staging) {
  return std::make_unique<Ring>(group, call, staging);
}

}  // namespace autocfg::trainer
