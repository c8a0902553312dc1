// Tests which NCCL and CUDA calls the driver makes, and which NCCL library it accepts. Fake functions, CUDA's
// under its own names, record the calls. Neither library is linked, so the tests say nothing about the
// libraries' behaviour.
#include "trainer/comm/nccl/nccl_driver.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_api.h"
#include "kernels/cuda/device/cuda_stream.h"
#include "tests/support/build_paths.h"
#include "tests/support/fake_library.h"
#include "tests/support/scoped_variable.h"
#include "trainer/layout/errors.h"

namespace {

struct Library {
  std::vector<std::string> lines;
  ncclResult_t init = ncclInProgress, call = ncclInProgress, finalize = ncclInProgress;
  std::deque<ncclResult_t> states;  // next results of the communicator's state query; success when empty
  bool makes_comm = true;
  std::string last_error = "a first line\nand a second\n";
  std::int64_t handles = 0;

  template <typename... T>
  void Say(fmt::format_string<T...> format, T&&... args) {
    lines.push_back(fmt::format(format, std::forward<T>(args)...));
  }
  std::vector<std::string> Take() { return std::exchange(lines, {}); }
};
Library library;

template <typename T>
T Make() {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): opaque, and never dereferenced
  return reinterpret_cast<T>(static_cast<std::intptr_t>(++library.handles));
}
template <typename T>
std::int64_t Number(T handle) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(handle));
}

ncclResult_t Call(const std::string& what, const void* data, std::size_t count, ncclDataType_t type,
                  int other, ncclComm_t comm, cudaStream_t stream) {
  library.Say("{} {} of type {} at {}, {}, on c{} s{}", what, count, static_cast<int>(type),
              Number(const_cast<void*>(data)), other, Number(comm), Number(stream));
  return library.call;
}

int version = NCCL_VERSION_CODE;

ncclResult_t GetVersion(int* to) {
  *to = version;
  return ncclSuccess;
}
ncclResult_t GetUniqueId(ncclUniqueId* id) {
  std::fill(std::begin(id->internal), std::end(id->internal), 'k');
  return ncclSuccess;
}
const char* GetErrorString(ncclResult_t) { return "unhandled system error"; }
const char* GetLastError(ncclComm_t) { return library.last_error.c_str(); }
ncclResult_t CommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  library.Say("init {} of {}, key {}, blocking {}, at most {} CTAs, {}", rank, size,
              id.internal[NCCL_UNIQUE_ID_BYTES - 1], config->blocking,
              config->maxCTAs == NCCL_CONFIG_UNDEF_INT ? "any" : std::to_string(config->maxCTAs),
              config->commName);
  if (library.makes_comm) *comm = Make<ncclComm_t>();
  return library.init;
}
ncclResult_t CommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = ncclSuccess;
  if (library.states.empty()) return ncclSuccess;
  *state = library.states.front();
  library.states.pop_front();
  return ncclSuccess;
}
ncclResult_t CommFinalize(ncclComm_t comm) {
  library.Say("finalize c{}", Number(comm));
  return library.finalize;
}
ncclResult_t CommDestroy(ncclComm_t comm) {
  library.Say("destroy c{}", Number(comm));
  return ncclSuccess;
}
ncclResult_t CommAbort(ncclComm_t comm) {
  library.Say("abort c{}", Number(comm));
  return ncclSuccess;
}
ncclResult_t AllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream) {
  return Call(in == out ? "reduce in place" : "reduce", in, count, type, static_cast<int>(op), comm, stream);
}
ncclResult_t ReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return Call(fmt::format("scatter to {} bytes on,", static_cast<char*>(out) - static_cast<const char*>(in)),
              in, count, type, static_cast<int>(op), comm, stream);
}
ncclResult_t AllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                       cudaStream_t stream) {
  return Call(fmt::format("gather from {} bytes on,", static_cast<const char*>(in) - static_cast<char*>(out)),
              out, count, type, 0, comm, stream);
}
ncclResult_t Send(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  return Call("send", data, count, type, peer, comm, stream);
}
ncclResult_t Recv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  return Call("recv", data, count, type, peer, comm, stream);
}

const std::map<std::string, void*>& Functions() {
  const auto at = [](auto* function) { return reinterpret_cast<void*>(function); };
  static const std::map<std::string, void*> functions{{"ncclGetVersion", at(GetVersion)},
                                                      {"ncclGetUniqueId", at(GetUniqueId)},
                                                      {"ncclGetErrorString", at(GetErrorString)},
                                                      {"ncclGetLastError", at(GetLastError)},
                                                      {"ncclCommInitRankConfig", at(CommInitRankConfig)},
                                                      {"ncclCommGetAsyncError", at(CommGetAsyncError)},
                                                      {"ncclCommFinalize", at(CommFinalize)},
                                                      {"ncclCommDestroy", at(CommDestroy)},
                                                      {"ncclCommAbort", at(CommAbort)},
                                                      {"ncclAllReduce", at(AllReduce)},
                                                      {"ncclReduceScatter", at(ReduceScatter)},
                                                      {"ncclAllGather", at(AllGather)},
                                                      {"ncclSend", at(Send)},
                                                      {"ncclRecv", at(Recv)}};
  return functions;
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error";
}
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfATest"; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = 4096;
  *total = 8192;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  *stream = Make<cudaStream_t>();
  library.Say("stream s{}, flags {}, priority {}", Number(*stream), flags, priority);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = Make<cudaStream_t>();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  library.Say("s{} waits for e{}", Number(stream), Number(event));
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = Make<cudaEvent_t>();
  library.Say("event e{} with time", Number(*event));
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = Make<cudaEvent_t>();
  library.Say("event e{}, flags {}", Number(*event), flags);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  library.Say("record e{} on s{}", Number(event), Number(stream));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  library.Say("destroy e{}", Number(event));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  library.Say("wait for e{}", Number(event));
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  library.Say("from e{} to e{}", Number(from), Number(to));
  *milliseconds = 12.5f;
  return cudaSuccess;
}

}  // extern "C"

namespace autocfg::trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class NcclDriver : public ::testing::Test {
 protected:
  NcclDriver() { library = {}; }

  static std::unique_ptr<StreamDriver> Create(std::chrono::seconds join_timeout = kJoinTimeout) {
    return CreateNcclDriver(FindNccl(cuda::FakeLibrary("a library", Functions())), join_timeout);
  }

  LinkId Join(LinkUse use = LinkUse::kReductions) {
    return driver_->Join(std::string(kLinkKeyBytes - 1, 'a') + 'z', 1, 4, use, "a group");
  }
  static CollectiveCall Of(CollectiveKind kind, DType type, std::int64_t elements = 7) {
    return {.kind = kind,
            .whole = {.data = reinterpret_cast<void*>(64), .dtype = type, .rank = 1, .shape = {elements}},
            .op = ReduceOp::kMax,
            .peer = 1};
  }

  std::unique_ptr<StreamDriver> driver_ = Create();
};

// Kernels that wait for a peer run beside compute for a long time. Those of messages are bounded so that all
// of a rank's links fit.
TEST_F(NcclDriver, JoinsWithoutBlockingAndBoundsMessageLinks) {
  Join(LinkUse::kReductions);
  Join(LinkUse::kMessages);
  EXPECT_THAT(library.Take(), ElementsAre("init 1 of 4, key z, blocking 0, at most any CTAs, a group",
                                          "init 1 of 4, key z, blocking 0, at most 8 CTAs, a group"));
}

TEST_F(NcclDriver, IsBusyUntilNcclIsDone) {
  const LinkId link = Join();
  library.states = {ncclInProgress, ncclSuccess, ncclRemoteError};
  EXPECT_TRUE(driver_->IsBusy(link));
  EXPECT_FALSE(driver_->IsBusy(link));
  EXPECT_THAT([&] { driver_->IsBusy(link); },
              ThrowsMessage<CommError>("a group: NCCL: unhandled system error; a first line and a second"))
      << "one line";
}

// A dead peer is a CommError; a failed CUDA call within NCCL is this rank's own error.
TEST_F(NcclDriver, CudaFailureWithinNcclIsADeviceError) {
  const LinkId link = Join();
  library.last_error = "Cuda failure 700 'an illegal memory access was encountered'";
  library.states = {ncclUnhandledCudaError};
  EXPECT_THAT([&] { driver_->IsBusy(link); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("a group: NCCL: "), HasSubstr("illegal memory"))));
  library.last_error = "Cuda failure 2 'out of memory'";
  library.states = {ncclUnhandledCudaError};
  try {
    driver_->IsBusy(link);
    FAIL() << "no error was thrown";
  } catch (const DeviceOutOfMemory& error) {
    EXPECT_EQ(error.wanted_bytes, -1);
    EXPECT_EQ(error.available_bytes, 4096);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a group: NCCL: "), HasSubstr("'out of memory'")));
  }
  library.Take();
  library.init = ncclUnhandledCudaError;
  EXPECT_THROW(Join(), DeviceOutOfMemory);
  EXPECT_EQ(library.Take().size(), 2u) << "started joins are aborted";
}

// NCCL itself waits forever if hosts cannot reach each other.
TEST_F(NcclDriver, JoinTimesOut) {
  driver_ = Create(std::chrono::seconds(0));
  const LinkId joined = Join(), lost = Join();
  EXPECT_FALSE(driver_->IsBusy(joined));
  library.states = {ncclInProgress, ncclInProgress};
  EXPECT_TRUE(driver_->IsBusy(joined)) << "busy with a transfer, which may take as long as it takes";
  EXPECT_THAT([&] { driver_->IsBusy(lost); },
              ThrowsMessage<CommError>(
                  AllOf(HasSubstr("a group: the ranks did not join"), HasSubstr("NCCL_SOCKET_IFNAME"))));
}

TEST_F(NcclDriver, FailedJoinIsAbortedAndReported) {
  library.init = ncclSystemError;
  for (const bool makes_comm : {true, false}) {
    library.Take();
    library.makes_comm = makes_comm;
    try {
      Join();
      FAIL() << "the join succeeded";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a group: NCCL: unhandled system error"));
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    }
    EXPECT_EQ(library.Take().size(), makes_comm ? 2u : 1u);
  }
}

TEST_F(NcclDriver, PassesTransfersUnchanged) {
  const LinkId link = Join();
  const QueueId queue = driver_->CreateQueue();
  library.Take();
  driver_->Enqueue(link, queue, Of(CollectiveKind::kAllReduce, DType::kBF16));
  driver_->Enqueue(link, queue, Of(CollectiveKind::kSend, DType::kF32));
  driver_->Enqueue(link, queue, Of(CollectiveKind::kRecv, DType::kF64));
  EXPECT_THAT(
      library.Take(),
      ElementsAre(fmt::format("reduce in place 7 of type {} at 64, {}, on c1 s2",
                              static_cast<int>(ncclBfloat16), static_cast<int>(ncclMax)),
                  fmt::format("send 7 of type {} at 64, 1, on c1 s2", static_cast<int>(ncclFloat32)),
                  fmt::format("recv 7 of type {} at 64, 1, on c1 s2", static_cast<int>(ncclFloat64))));
  library.call = ncclInvalidUsage;
  EXPECT_THROW(driver_->Enqueue(link, queue, Of(CollectiveKind::kSend, DType::kF32)), CommError);
}

TEST_F(NcclDriver, PartsMayLieAnywhere) {
  const LinkId link = Join();
  const QueueId queue = driver_->CreateQueue();
  library.Take();
  for (const auto kind : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
    CollectiveCall call = Of(kind, DType::kF32, 12);
    call.part = call.whole.Slice(100, 3);
    driver_->Enqueue(link, queue, call);
  }
  const int type = static_cast<int>(ncclFloat32);
  EXPECT_THAT(library.Take(),
              ElementsAre(fmt::format("scatter to 400 bytes on, 3 of type {} at 64, {}, on c1 s2", type,
                                      static_cast<int>(ncclMax)),
                          fmt::format("gather from 400 bytes on, 3 of type {} at 64, 0, on c1 s2", type)));
}

// The library's order: finalize, wait until that is done, destroy. A communicator that cannot be finalized is
// aborted.
TEST_F(NcclDriver, LeavesInTwoSteps) {
  const LinkId link = Join();
  library.Take();
  driver_->BeginLeave(link);
  EXPECT_THAT(library.Take(), ElementsAre("finalize c1"));
  library.states = {ncclInProgress, ncclInProgress, ncclSuccess};
  driver_->Leave(link);
  EXPECT_THAT(library.Take(), ElementsAre("destroy c1"));
  EXPECT_TRUE(library.states.empty());
}

TEST_F(NcclDriver, AbortsLinksThatCannotBeFinalized) {
  const LinkId failing = Join(), refusing = Join(), gone = Join();
  driver_->BeginLeave(failing);
  library.finalize = ncclInvalidArgument;
  driver_->BeginLeave(refusing);
  library.Take();
  library.states = {ncclInProgress, ncclRemoteError};
  driver_->Leave(failing);
  driver_->Leave(refusing);
  driver_->Abort(gone);
  EXPECT_THAT(library.Take(), ElementsAre("abort c1", "abort c2", "abort c3"));
}

TEST_F(NcclDriver, StreamsHavePriorityAndEventsAreReused) {
  const QueueId queue = driver_->CreateQueue();
  EXPECT_THAT(library.Take(),
              ElementsAre(fmt::format("stream s1, flags {}, priority -5", cudaStreamNonBlocking)));
  const EventId event = driver_->Record(queue);
  driver_->Wait(queue, event);
  driver_->Release(event);
  driver_->Release(driver_->Record(queue));
  EXPECT_THAT(library.Take(), ElementsAre(fmt::format("event e2, flags {}", cudaEventDisableTiming),
                                          "record e2 on s1", "s1 waits for e2", "record e2 on s1"));
  driver_.reset();
  EXPECT_THAT(library.Take(), ElementsAre("destroy e2"));
}

TEST_F(NcclDriver, TimesAreThoseOfTheDevice) {
  const QueueId one = driver_->CreateQueue(), other = driver_->CreateQueue();
  library.Take();
  const TimeId from = driver_->RecordTime(one), to = driver_->RecordTime(other);
  EXPECT_THAT(library.Take(),
              ElementsAre("event e3 with time", "record e3 on s1", "event e4 with time", "record e4 on s2"));
  EXPECT_DOUBLE_EQ(driver_->SecondsBetween(from, to), 0.0125);
  EXPECT_THAT(library.Take(), ElementsAre("wait for e3", "wait for e4", "from e3 to e4"));
  driver_->Release(from);
  driver_->Release(to);
  EXPECT_THAT(library.Take(), ElementsAre("destroy e3", "destroy e4"));
}

TEST(NcclApi, NamesMissingFunction) {
  for (const auto& [name, function] : Functions()) {
    std::map<std::string, void*> others = Functions();
    others.erase(name);
    EXPECT_THAT([&] { FindNccl(cuda::FakeLibrary("a library", others)); },
                ThrowsMessage<cuda::LibraryMissing>("a library has no " + name));
  }
}

TEST(NcclApi, RequiresTheHeadersMajorVersion) {
  const auto find = [] { FindNccl(cuda::FakeLibrary("a library", Functions())); };
  for (const auto& [other, words] :
       {std::pair{1300, "is NCCL 1"}, std::pair{(NCCL_MAJOR + 1) * 10000 + 100, "is NCCL 3"}}) {
    version = other;
    EXPECT_THAT(find, ThrowsMessage<cuda::LibraryMissing>(HasSubstr(words)));
  }
  version = 2804;  // 2.8.4, before the encoding changed
  EXPECT_NO_THROW(find());
  version = NCCL_VERSION_CODE;
  EXPECT_NO_THROW(find());
}

TEST(NcclApi, ReportsMissingNcclAndRemedy) {
  const ScopedVariable none("AUTOCFG_NCCL_LIBRARY", "libautocfg-no-nccl.so.2");
  EXPECT_THAT(
      [] { Nccl(); },
      ThrowsMessage<NotSupported>(AllOf(
          HasSubstr(
              "NCCL is not installed on this machine: libautocfg-no-nccl.so.2: cannot open shared object"),
          HasSubstr("AUTOCFG_GPU_TRANSPORT=host"), Not(HasSubstr("\n")))));
  const ScopedVariable other("AUTOCFG_NCCL_LIBRARY", "libm.so.6");
  EXPECT_THAT([] { Nccl(); }, ThrowsMessage<NotSupported>(
                                  HasSubstr("does not suit this build: libm.so.6 has no ncclGetVersion")));
}

// The engine must load on machines without either library: nothing may depend on them at load time.
TEST(GpuModule, LoadsWithoutNcclAndCudnn) {
  const auto is_loaded = [](const char* name) { return dlopen(name, RTLD_LAZY | RTLD_NOLOAD) != nullptr; };
  ASSERT_NE(dlopen(BuildPath("bin/libautocfg_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  EXPECT_TRUE(is_loaded(BuildPath("bin/libautocfg_cuda.so").c_str()));
  EXPECT_FALSE(is_loaded(kNcclLibrary));
  EXPECT_FALSE(is_loaded(cuda::kCudnnLibrary));
}

}  // namespace
}  // namespace autocfg::trainer
