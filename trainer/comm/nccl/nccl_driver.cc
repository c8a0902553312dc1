#include "trainer/comm/nccl/nccl_driver.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/cuda_event.h"
#include "kernels/cuda/device/cuda_stream.h"

namespace autocfg::trainer {
namespace {

static_assert(kLinkKeyBytes == NCCL_UNIQUE_ID_BYTES);

// Time limit for the peers when a communicator ends; it is then aborted.
constexpr std::chrono::seconds kLeaveTimeout{20};

// Maximum number of multiprocessors that a message link uses. A send occupies them while it waits for its
// peer; the compute stream uses the others. A rank of a pipeline has up to four such links, which must all
// fit beside each other and a reduction. Otherwise two ranks could deadlock: each one's kernels would wait
// for space behind kernels that wait for the other rank. Not measured yet. The environment variable
// NCCL_MAX_CTAS takes precedence.
constexpr int kMessageCtas = 8;

using Clock = std::chrono::steady_clock;

struct NcclLink {
  std::string name;  // NCCL keeps a pointer to it
  int rank = 0;      // within the link
  int size = 1;
  ncclComm_t comm = nullptr;
  std::optional<Clock::time_point> joining_since;  // until its ranks have joined
  ncclResult_t leaving = ncclSuccess;              // result of beginning to end it
};

bool IsUnderWay(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

// Returns NCCL's error text on one line. `comm` may be null.
std::string Words(const NcclApi& nccl, ncclResult_t result, ncclComm_t comm) {
  std::string more = nccl.get_last_error(comm);
  std::replace(more.begin(), more.end(), '\n', ' ');
  while (!more.empty() && more.back() == ' ') more.pop_back();
  return fmt::format("NCCL: {}{}{}", nccl.get_error_string(result), more.empty() ? "" : "; ", more);
}

// Throws the error for `result`. A CUDA failure within NCCL concerns this rank, not a peer. NCCL reports its
// kind only in the text.
[[noreturn]] void Fail(const NcclApi& nccl, const std::string& name, ncclResult_t result, ncclComm_t comm) {
  const std::string text = fmt::format("{}: {}", name, Words(nccl, result, comm));
  if (result != ncclUnhandledCudaError) throw CommError(text);
  if (text.find(cudaGetErrorString(cudaErrorMemoryAllocation)) != std::string::npos)
    throw DeviceOutOfMemory(-1, cuda::FreeBytes(), text);
  throw DeviceError(text);
}

ncclDataType_t TypeOf(DType type) {
  switch (type) {
    case DType::kF32: return ncclFloat32;
    case DType::kF64: return ncclFloat64;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF16: return ncclFloat16;
    case DType::kI32: return ncclInt32;
    case DType::kI8: return ncclInt8;
  }
  throw CommError("NCCL: unsupported element type");
}

template <typename Id, typename T>
Id IdOf(T* handle) {
  return Id{static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(handle))};
}

template <typename T, typename Id>
T Handle(Id id) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an opaque handle, of which IdOf made the number
  return reinterpret_cast<T>(static_cast<std::intptr_t>(static_cast<std::int64_t>(id)));
}

class NcclDriver final : public StreamDriver {
 public:
  NcclDriver(const NcclApi& nccl, std::chrono::seconds join_timeout)
      : nccl_(nccl), join_timeout_(join_timeout) {}

  // Uses the highest priority: work that peers wait for precedes further compute.
  QueueId CreateQueue() override {
    int least = 0, greatest = 0;
    cuda::Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "querying stream priorities");
    cudaStream_t stream = nullptr;
    cuda::Check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "creating a stream");
    return IdOf<QueueId>(stream);
  }
  void DestroyQueue(QueueId queue) noexcept override { (void)cudaStreamDestroy(Handle<cudaStream_t>(queue)); }
  QueueId QueueOf(Stream& stream) override { return IdOf<QueueId>(cuda::HandleOf(stream)); }

  EventId Record(QueueId queue) override {
    return IdOf<EventId>(events_.Record(Handle<cudaStream_t>(queue)));
  }
  void Wait(QueueId queue, EventId event) override {
    cuda::Check(cudaStreamWaitEvent(Handle<cudaStream_t>(queue), Handle<cudaEvent_t>(event), 0),
                "making a stream wait for an event");
  }
  void Release(EventId event) noexcept override { events_.GiveBack(Handle<cudaEvent_t>(event)); }

  TimeId RecordTime(QueueId queue) override {
    auto time = std::make_unique<cuda::TimedEvent>();
    time->Record(Handle<cudaStream_t>(queue));
    return IdOf<TimeId>(time.release());
  }
  double SecondsBetween(TimeId from, TimeId to) override {
    for (const TimeId time : {from, to}) cuda::WaitForEvent(Handle<cuda::TimedEvent*>(time)->handle());
    return cuda::SecondsBetween(*Handle<cuda::TimedEvent*>(from), *Handle<cuda::TimedEvent*>(to));
  }
  void Release(TimeId time) noexcept override {
    const std::unique_ptr<cuda::TimedEvent> released(Handle<cuda::TimedEvent*>(time));
  }

  std::string NewKey() override {
    ncclUniqueId id;
    const ncclResult_t result = nccl_.get_unique_id(&id);
    if (result != ncclSuccess)
      throw CommError(fmt::format("cannot create a communicator id: {}", Words(nccl_, result, nullptr)));
    return {id.internal, id.internal + NCCL_UNIQUE_ID_BYTES};
  }

  LinkId Join(const std::string& key, int rank, int size, LinkUse use, const std::string& name) override {
    ncclUniqueId id;
    std::memcpy(id.internal, key.data(), NCCL_UNIQUE_ID_BYTES);
    auto link = std::make_unique<NcclLink>(
        NcclLink{.name = name, .rank = rank, .size = size, .joining_since = Clock::now()});
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = link->name.c_str();
    if (use == LinkUse::kMessages) config.maxCTAs = kMessageCtas;
    const ncclResult_t result = nccl_.comm_init_rank_config(&link->comm, size, id, rank, &config);
    if (!IsUnderWay(result)) {
      try {
        Fail(nccl_, name, result, nullptr);
      } catch (...) {
        if (link->comm != nullptr) (void)nccl_.comm_abort(link->comm);
        throw;
      }
    }
    return IdOf<LinkId>(link.release());
  }

  bool IsBusy(LinkId id) override {
    NcclLink& link = *Handle<NcclLink*>(id);
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl_.comm_get_async_error(link.comm, &state);
    if (asked != ncclSuccess) state = asked;
    if (!IsUnderWay(state)) Fail(nccl_, link.name, state, link.comm);
    if (state == ncclSuccess) link.joining_since.reset();
    if (link.joining_since && Clock::now() - *link.joining_since > join_timeout_) {
      throw CommError(
          fmt::format("{}: the ranks did not join through NCCL within {} s; set NCCL_SOCKET_IFNAME to the "
                      "network interface that connects their hosts, or NCCL_DEBUG=INFO to see the attempts",
                      link.name, join_timeout_.count()));
    }
    return state == ncclInProgress;
  }

  void Enqueue(LinkId id, QueueId queue, const CollectiveCall& call) override {
    const NcclLink& link = *Handle<NcclLink*>(id);
    const ncclResult_t result = Call(link, Handle<cudaStream_t>(queue), call);
    if (!IsUnderWay(result)) Fail(nccl_, link.name, result, link.comm);
  }

  void BeginLeave(LinkId id) noexcept override {
    NcclLink& link = *Handle<NcclLink*>(id);
    link.leaving = nccl_.comm_finalize(link.comm);
  }

  void Leave(LinkId id) noexcept override {
    const std::unique_ptr<NcclLink> link(Handle<NcclLink*>(id));
    ncclResult_t state = link->leaving;
    const auto deadline = Clock::now() + kLeaveTimeout;
    while (state == ncclInProgress && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (nccl_.comm_get_async_error(link->comm, &state) != ncclSuccess) state = ncclInternalError;
    }
    // No rank needs the communicator any more, so an error while ending it is not actionable.
    (void)(state == ncclSuccess ? nccl_.comm_destroy(link->comm) : nccl_.comm_abort(link->comm));
  }

  void Abort(LinkId id) noexcept override {
    const std::unique_ptr<NcclLink> link(Handle<NcclLink*>(id));
    (void)nccl_.comm_abort(link->comm);  // the error that led here is the one to report
  }

  void SetHostWaitHook(std::function<void()> hook, HookPace pace) override {
    cuda::SetHostWaitHook(std::move(hook), pace == HookPace::kOften);
  }

 private:
  ncclResult_t Call(const NcclLink& link, cudaStream_t stream, const CollectiveCall& call) const {
    const ncclComm_t comm = link.comm;
    void* const data = call.whole.data;
    void* const own = call.part.data;
    const auto count = static_cast<std::size_t>(call.whole.Elements());
    const ncclDataType_t type = TypeOf(call.whole.dtype);
    const ncclRedOp_t op = call.op == ReduceOp::kMax ? ncclMax : ncclSum;
    const std::size_t part = count / static_cast<std::size_t>(link.size);
    switch (call.kind) {
      case CollectiveKind::kAllReduce: return nccl_.all_reduce(data, data, count, type, op, comm, stream);
      case CollectiveKind::kReduceScatter:
        return nccl_.reduce_scatter(data, own, part, type, op, comm, stream);
      case CollectiveKind::kAllGather: return nccl_.all_gather(own, data, part, type, comm, stream);
      case CollectiveKind::kSend: return nccl_.send(data, count, type, call.peer, comm, stream);
      case CollectiveKind::kRecv: return nccl_.recv(data, count, type, call.peer, comm, stream);
    }
    return ncclInvalidArgument;
  }

  const NcclApi nccl_;
  const std::chrono::seconds join_timeout_;
  cuda::EventPool events_;
};

}  // namespace

std::unique_ptr<StreamDriver> CreateNcclDriver(const NcclApi& nccl, std::chrono::seconds join_timeout) {
  return std::make_unique<NcclDriver>(nccl, join_timeout);
}

}  // namespace autocfg::trainer
