// Communicators that pass through host memory. The host waits for the stream when data is copied out, so a
// step includes host waits: this world is for ranks that share a device, not for speed. Reductions run in
// pieces, one after another within a group, in the order in which every rank issues them.
#include <algorithm>
#include <deque>
#include <utility>

#include "trainer/comm/comm_world.h"
#include "trainer/comm/group.h"
#include "trainer/comm/waiting.h"

namespace autocfg::trainer {
namespace {

// Size of the pieces of a reduction. It limits the host memory that a large tensor needs.
constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;

// A pool of the device's host memory. The buffer of an abandoned message is never reused.
class HostBuffers {
 public:
  struct Buffer {
    void* data = nullptr;
    std::int64_t bytes = 0;
    bool taken = false;
  };

  explicit HostBuffers(Device& device) : device_(device) {}
  ~HostBuffers() {
    for (const Buffer& buffer : buffers_) device_.FreeHost(buffer.data, buffer.bytes);
  }
  HostBuffers(const HostBuffers&) = delete;
  HostBuffers& operator=(const HostBuffers&) = delete;

  // Returns the smallest free buffer that is large enough. Its address is stable, and it remains taken until
  // the caller clears `taken`.
  Buffer& Take(std::int64_t bytes) {
    bytes = std::max<std::int64_t>(bytes, 1);
    Buffer* best = nullptr;
    for (Buffer& buffer : buffers_) {
      if (!buffer.taken && buffer.bytes >= bytes && (best == nullptr || buffer.bytes < best->bytes))
        best = &buffer;
    }
    if (best == nullptr)
      best = &buffers_.emplace_back(Buffer{.data = device_.AllocateHost(bytes), .bytes = bytes});
    best->taken = true;
    return *best;
  }

 private:
  Device& device_;
  std::deque<Buffer> buffers_;
};

// One in-flight operation.
class StagedOperation {
 public:
  virtual ~StagedOperation() = default;
  virtual bool done() const = 0;
  virtual void Step() {}  // does what can be done now; empty if the group advances it, in order of issue
};

// The in-flight reductions of a group.
class StagedReductions {
 public:
  virtual ~StagedReductions() = default;
  virtual void StepReductions() = 0;
};

// State shared by the communicators of a world.
struct Staging {
  explicit Staging(Device& on) : device(on), buffers(on) {}

  void StepReductions() {
    for (StagedReductions* group : groups) group->StepReductions();
  }

  Tensor HostTensor(const HostBuffers::Buffer& buffer, DType dtype, std::int64_t elements) const {
    return {.data = buffer.data, .dtype = dtype, .rank = 1, .shape = {elements}};
  }

  Device& device;
  HostBuffers buffers;
  HostStream ready;
  std::vector<StagedReductions*> groups;
};

class StagedWork final : public ScopedWork {
 public:
  StagedWork(Staging& staging, std::shared_ptr<StagedOperation> operation)
      : staging_(staging), operation_(std::move(operation)) {}
  ~StagedWork() override { WaitUnlessUnwinding(); }

  void Wait() override {
    for (Idle idle; !Test(); idle()) {
    }
  }

  bool Test() override {
    if (operation_->done()) return true;
    staging_.StepReductions();
    operation_->Step();
    return operation_->done();
  }

 private:
  Staging& staging_;
  const std::shared_ptr<StagedOperation> operation_;
};

// A message whose host part is in flight.
class StagedMessage final : public StagedOperation {
 public:
  // `arrives`: destination of the final copy; absent for a send.
  StagedMessage(Staging& staging, HostBuffers::Buffer& buffer, std::unique_ptr<Work> work,
                const Tensor& arrives, Stream& stream)
      : staging_(staging), buffer_(buffer), work_(std::move(work)), arrives_(arrives), stream_(stream) {}

  bool done() const override { return work_ == nullptr; }

  void Step() override {
    if (done() || !work_->Test()) return;
    work_->Wait();
    if (arrives_.IsPresent() && arrives_.Bytes() > 0) {
      staging_.device.CopyFromHost(arrives_.data, buffer_.data, arrives_.Bytes(), stream_);
    }
    work_.reset();
    buffer_.taken = false;
  }

 private:
  Staging& staging_;
  HostBuffers::Buffer& buffer_;
  std::unique_ptr<Work> work_;  // null: done
  const Tensor arrives_;
  Stream& stream_;
};

// A collective, piece by piece. A piece is the same range of every part of the tensor; a collective without
// parts has one.
class StagedCollective final : public StagedOperation {
 public:
  StagedCollective(Staging& staging, Communicator& inner, const CollectiveCall& call, Stream& stream)
      : staging_(staging),
        inner_(inner),
        call_(call),
        form_(FormOf(call.kind)),
        stream_(stream),
        parts_(form_.HasPart() ? inner.size() : 1),
        part_elements_(call.whole.Elements() / parts_) {}

  bool done() const override { return next_ == part_elements_; }

  void Advance() {
    while (!done()) {
      if (work_ == nullptr) Start();
      if (!work_->Test()) return;
      work_->Wait();
      for (std::int64_t part = 0; part < parts_; ++part) {
        if (!IsResult(part)) continue;
        staging_.device.CopyFromHost(ResultOf(part), InBuffer(part), PieceBytes(), stream_);
      }
      work_.reset();
      buffer_->taken = false;
      next_ += elements_;
    }
  }

 private:
  bool IsOwn(std::int64_t part) const { return part == inner_.rank(); }
  bool IsSource(std::int64_t part) const { return !form_.from_part || IsOwn(part); }
  bool IsResult(std::int64_t part) const { return !form_.to_part || IsOwn(part); }

  std::int64_t ElementBytes() const { return SizeOf(call_.whole.dtype); }
  std::int64_t PieceBytes() const { return elements_ * ElementBytes(); }
  // Returns the piece in the tensor of part `part`, or in the rank's own part.
  char* In(bool own, std::int64_t part) const {
    return own ? call_.part.As<char>() + next_ * ElementBytes()
               : call_.whole.As<char>() + (part * part_elements_ + next_) * ElementBytes();
  }
  char* SourceOf(std::int64_t part) const { return In(form_.from_part, part); }
  char* ResultOf(std::int64_t part) const { return In(form_.to_part, part); }
  char* InBuffer(std::int64_t part) const { return static_cast<char*>(buffer_->data) + part * PieceBytes(); }

  void Start() {
    const std::int64_t most = std::max<std::int64_t>(kPieceBytes / ElementBytes() / parts_, 1);
    elements_ = std::min(most, part_elements_ - next_);
    buffer_ = &staging_.buffers.Take(parts_ * PieceBytes());
    for (std::int64_t part = 0; part < parts_; ++part) {
      if (IsSource(part)) {
        staging_.device.CopyToHost(InBuffer(part), SourceOf(part), PieceBytes(), stream_);
      }
    }
    stream_.Synchronize();
    CollectiveCall piece = call_;
    piece.whole = staging_.HostTensor(*buffer_, call_.whole.dtype, parts_ * elements_);
    if (form_.HasPart()) piece.part = PartOf(piece.whole, inner_.rank(), parts_);
    work_ = inner_.Run(piece, staging_.ready);
  }

  Staging& staging_;
  Communicator& inner_;
  const CollectiveCall call_;
  const CollectiveForm form_;
  Stream& stream_;
  const std::int64_t parts_, part_elements_;
  HostBuffers::Buffer* buffer_ = nullptr;
  std::unique_ptr<Work> work_;            // of the piece at next_; null: not started
  std::int64_t next_ = 0, elements_ = 0;  // of a part
};

class StagedCommunicator final : public Communicator, public StagedReductions {
 public:
  // `reduces`: host memory for the inner group's own staging; null if it has none.
  StagedCommunicator(Staging& staging, std::unique_ptr<Communicator> inner, HostBuffers::Buffer* reduces)
      : staging_(staging), reduces_(reduces), inner_(std::move(inner)) {
    staging_.groups.push_back(this);
  }
  ~StagedCommunicator() override {
    std::erase(staging_.groups, this);
    if (reduces_ != nullptr && reductions_.empty()) reduces_->taken = false;
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  std::unique_ptr<Work> Run(const CollectiveCall& call, Stream& stream) override {
    if (FormOf(call.kind).message) return Message(call, stream);
    CheckReducible(call);
    if (call.whole.Elements() == 0) return CompleteWork();
    if (reduces_ == nullptr)
      throw CommError("a group of several ranks was created without staging and cannot reduce");
    auto collective = std::make_shared<StagedCollective>(staging_, *inner_, call, stream);
    reductions_.push_back(collective);
    StepReductions();
    return std::make_unique<StagedWork>(staging_, std::move(collective));
  }

  void Barrier() override { inner_->Barrier(); }

  void StepReductions() override {
    while (!reductions_.empty()) {
      reductions_.front()->Advance();
      if (!reductions_.front()->done()) return;
      reductions_.pop_front();
    }
  }

 private:
  std::unique_ptr<Work> Message(const CollectiveCall& call, Stream& stream) {
    const Tensor& tensor = call.whole;
    const bool sends = call.kind == CollectiveKind::kSend;
    HostBuffers::Buffer& buffer = staging_.buffers.Take(tensor.Bytes());
    if (sends) {
      if (tensor.Bytes() > 0) staging_.device.CopyToHost(buffer.data, tensor.data, tensor.Bytes(), stream);
      stream.Synchronize();
    }
    CollectiveCall on_host = call;
    on_host.whole = staging_.HostTensor(buffer, tensor.dtype, tensor.Elements());
    auto message = std::make_shared<StagedMessage>(staging_, buffer, inner_->Run(on_host, staging_.ready),
                                                   sends ? Tensor{} : tensor, stream);
    return std::make_unique<StagedWork>(staging_, std::move(message));
  }

  Staging& staging_;
  HostBuffers::Buffer* const reduces_;
  const std::unique_ptr<Communicator> inner_;
  std::deque<std::shared_ptr<StagedCollective>> reductions_;  // in order of issue; the first is in flight
};

class StagedWorld final : public CommWorld {
 public:
  StagedWorld(std::unique_ptr<CommWorld> inner, Device& device)
      : staging_(device), inner_(std::move(inner)) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    if (ranks.size() == 1) return inner_->CreateGroup(name, ranks, Tensor{});
    HostBuffers::Buffer* reduces =
        staging.data == nullptr ? nullptr : &staging_.buffers.Take(staging.Bytes());
    const Tensor host =
        reduces == nullptr ? Tensor{} : staging_.HostTensor(*reduces, staging.dtype, staging.Elements());
    return std::make_unique<StagedCommunicator>(staging_, inner_->CreateGroup(name, ranks, host), reduces);
  }

 private:
  // Outlives the inner world, which may still read the buffers of abandoned messages.
  Staging staging_;
  const std::unique_ptr<CommWorld> inner_;
};

}  // namespace

std::unique_ptr<CommWorld> CreateStagedWorld(std::unique_ptr<CommWorld> inner, Device& device) {
  return std::make_unique<StagedWorld>(std::move(inner), device);
}

}  // namespace autocfg::trainer
