// Tests the emulator itself: data exchange between threads of a block in any order, and detection of the
// faults that cuda_runtime.h promises.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cuda_emulator/device_memory.h"
#include "tests/support/cuda_emulator/emulator_test_kernels.h"
#include "tests/support/cuda_emulator/launches/faults.h"
#include "tests/support/cuda_emulator/streams.h"

namespace autocfg::cuda_emulator {
namespace {

// Memory of cudaMalloc, which the host can access here.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t n) : n_(n) { EXPECT_EQ(cudaMalloc(&data_, n * sizeof(T)), cudaSuccess); }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~OnDevice() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return data_; }
  std::vector<T> values() const { return {data_, data_ + n_}; }

 private:
  std::size_t n_;
  T* data_ = nullptr;
};

class CudaEmulator : public testing::TestWithParam<Order> {
 protected:
  void SetUp() override { SetOrder(GetParam(), 5); }
  void TearDown() override { SetOrder(Order::kForward); }
};
using CudaEmulatorDeath = CudaEmulator;

INSTANTIATE_TEST_SUITE_P(Orders, CudaEmulator,
                         testing::Values(Order::kForward, Order::kReverse, Order::kShuffled,
                                         Order::kCompared));

TEST_P(CudaEmulator, SumsOverBlocks) {
  std::vector<float> x(3 * 96);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const OnDevice<float> x_(x), sums(3);
  BlockSum(x_.data(), sums.data());
  for (int block = 0; block < 3; ++block)
    EXPECT_EQ(sums.values()[block], 96 * 96 * block + 95 * 96 / 2) << block;
}

TEST_P(CudaEmulator, Shuffles) {
  for (int width : {32, 8}) {
    const OnDevice<int> xor_(32), up(32), down(32), first(32);
    ReadShuffles(xor_.data(), up.data(), down.data(), first.data(), width);
    for (int lane = 0; lane < 32; ++lane) {
      const int begin = lane / width * width, end = begin + width;
      EXPECT_EQ(xor_.values()[lane], lane ^ 5) << lane;
      EXPECT_EQ(up.values()[lane], lane - 3 < begin ? lane : lane - 3) << lane;
      EXPECT_EQ(down.values()[lane], lane + 3 >= end ? lane : lane + 3) << lane;
      EXPECT_EQ(first.values()[lane], begin + 2) << lane;
    }
  }
}

TEST_P(CudaEmulator, Votes) {
  std::vector<int> predicate(64, 0);
  for (int lane : {0, 3, 31}) predicate[lane] = 7;
  const OnDevice<int> predicate_(predicate), any(64), all(64), count(64);
  const OnDevice<unsigned> ballot(64);
  ReadVotes(predicate_.data(), ballot.data(), any.data(), all.data(), count.data());
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(ballot.values()[i], i < 32 ? 0x80000009u : 0u) << i;
    EXPECT_EQ(any.values()[i], i < 32 ? 1 : 0) << i;
    EXPECT_EQ(all.values()[i], 0) << i;
    EXPECT_EQ(count.values()[i], 3) << i;
  }
}

TEST_P(CudaEmulator, LanesMayDivergeUnderTheirMasks) {
  const OnDevice<int> y(32);
  Diverge(y.data());
  for (int lane = 0; lane < 32; ++lane)
    EXPECT_EQ(y.values()[lane], (lane ^ 15) * (lane < 16 ? 1 : 100) + (lane ^ 31)) << lane;
}

TEST_P(CudaEmulator, SharedMemoryIsNaNWhenABlockStarts) {
  const OnDevice<float> fixed(16), dynamic(16);
  ReadPoison(fixed.data(), dynamic.data(), 8);
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(std::isnan(fixed.values()[i])) << i;
    EXPECT_TRUE(std::isnan(dynamic.values()[i])) << i;
  }
}

TEST_P(CudaEmulator, EveryThreadOfEveryBlockRunsOnce) {
  const OnDevice<unsigned> y(kThreadsOfWhereAmI);
  WhereAmI(y.data());
  for (unsigned i = 0; i < kThreadsOfWhereAmI; ++i) EXPECT_EQ(y.values()[i], i);
}

TEST_P(CudaEmulator, MatrixUnits) {
  std::vector<__nv_bfloat16> a, b;  // small integers: sums are exact
  for (int i = 0; i < 16 * 32; ++i) a.emplace_back(static_cast<float>(i * 7 % 13 - 6));
  for (int i = 0; i < 8 * 32; ++i) b.emplace_back(static_cast<float>(i * 5 % 11 - 5));
  const OnDevice<__nv_bfloat16> a_(a), b_(b);
  const OnDevice<float> c(16 * 8);
  Multiply(a_.data(), b_.data(), c.data());
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      float want = 0;
      for (std::size_t k = 0; k < 32; ++k)
        want += static_cast<float>(a[row * 32 + k]) * static_cast<float>(b[column * 32 + k]);
      EXPECT_EQ(c.values()[row * 8 + column], want) << row << ", " << column;
    }
  }
}

// Lane l passes the address of row l ^ 1.
TEST_P(CudaEmulator, LoadsOfMatrixBlocks) {
  std::vector<unsigned short> x(32 * 24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<unsigned short>(i);
  const OnDevice<unsigned short> x_(x), y(2 * 256);
  LoadBlocksOf(x_.data(), y.data(), true);
  for (std::size_t block = 0; block < 4; ++block) {
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t column = 0; column < 8; ++column) {
        const unsigned short want = x[(block * 8 + (row ^ 1)) * 24 + 8 + column];
        EXPECT_EQ(y.values()[block * 64 + row * 8 + column], want);
        EXPECT_EQ(y.values()[256 + block * 64 + column * 8 + row], want) << "transposed";
      }
    }
  }
}

TEST(CudaEmulatorDeath, DetectsLoadsOfMatrixBlocksBeforeTheirStores) {
  const OnDevice<unsigned short> x(std::vector<unsigned short>(32 * 24, 7)), y(2 * 256);
  SetOrder(Order::kCompared);
  EXPECT_DEATH(LoadBlocksOf(x.data(), y.data(), false), "changes what the kernel computes");
  SetOrder(Order::kForward);
}

TEST_P(CudaEmulator, CopiesArriveOnceWaitedFor) {
  const OnDevice<int> x(std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}), y(12);
  CopyAsynchronously(x.data(), y.data(), true);
  EXPECT_EQ(y.values(), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0}));
}

TEST(CudaEmulatorDeath, DetectsUnawaitedCopies) {
  const OnDevice<int> x(std::vector<int>(8, 1)), y(12);
  SetOrder(Order::kCompared);
  EXPECT_DEATH(CopyAsynchronously(x.data(), y.data(), false), "changes what the kernel computes");
  SetOrder(Order::kForward);
}

// A thread that is early in one order is late in another, so a missing barrier leaves poison in place of a
// value.
TEST(CudaEmulatorDeath, DetectsMissingBarriers) {
  const OnDevice<int> y(64);
  SetOrder(Order::kCompared);
  EXPECT_DEATH(
      RotateWithoutBarrier(y.data()),
      "the order of threads and blocks changes what the kernel computes: byte 0 of an allocation of 256");
  RotateWithBarrier(y.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y.values()[i], (i + 1) % 64);
  SetOrder(Order::kForward);
}

TEST(CudaEmulatorDeath, DetectsOrderDependentResults) {
  const OnDevice<int> next(std::vector<int>{0}), y(4);
  SetOrder(Order::kForward);
  TakeNumbers(next.data(), y.data());
  EXPECT_EQ(y.values(), (std::vector<int>{0, 1, 2, 3}));
  SetOrder(Order::kReverse);
  TakeNumbers(next.data(), y.data());
  EXPECT_EQ(y.values(), (std::vector<int>{7, 6, 5, 4}));
  SetOrder(Order::kCompared);
  EXPECT_DEATH(TakeNumbers(next.data(), y.data()), "changes what the kernel computes");
  SetOrder(Order::kForward);
}

TEST(CudaEmulatorDeath, DetectsThreadsThatNeverMeet) {
  const OnDevice<int> y(64);
  EXPECT_DEATH(LeaveSomeAtABarrier(y.data()),
               "threads wait for others that never come: 24 in __shfl_sync of the lanes ffffffff, 40 in "
               "__syncthreads, 0 have ended");
  EXPECT_DEATH(ReturnBeforeABarrier(y.data()), "never come: 60 in __syncthreads, 4 have ended");
  EXPECT_DEATH(ShuffleWithAbsentLanes(y.data()),
               "__shfl_xor_sync: the mask names lanes that the block does not have");
  EXPECT_DEATH(
      ShuffleAgainstVote(y.data()),
      "never come: 31 in __shfl_sync of the lanes ffffffff, 1 in a vote of the lanes ffffffff, 0 have");
  EXPECT_DEATH(ShuffleFromOutside(y.data()), "a shuffle reads from a lane that is not in its mask");
}

TEST(CudaEmulatorDeath, DetectsOutOfBoundsAccess) {
  const OnDevice<int> y(1);
  WriteShared(y.data(), 99, 100);
  EXPECT_DEATH(WriteShared(y.data(), 100, 100),
               "a block wrote beyond its 100 bytes of dynamic shared memory");
  EXPECT_DEATH(WriteShared(y.data(), -1, 100), "a block wrote before its dynamic shared memory");
  const OnDevice<float> x(5);
  WriteGlobal(x.data(), 4);
  EXPECT_DEATH(WriteGlobal(x.data(), 5), "beyond the end of an allocation of 20 bytes");
  EXPECT_DEATH(WriteGlobal(x.data(), 64), "");
}

TEST(CudaEmulator, RejectsLaunchesThatADeviceRejects) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 1024;
  void (*kernel)() = [] {};
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel), cudaSuccess);
  config.blockDim = {32, 33, 1};
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel), cudaErrorInvalidConfiguration);
  config.blockDim = 1;
  config.gridDim = {1, 65536, 1};
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel), cudaErrorInvalidConfiguration);
  config.gridDim = 0;
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel), cudaErrorInvalidConfiguration);
  config.gridDim = 1;
  config.dynamicSmemBytes = 49153;
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel), cudaErrorInvalidValue);
  const auto* key = reinterpret_cast<const void*>(kernel);
  EXPECT_EQ(cudaFuncSetAttribute(key, cudaFuncAttributeMaxDynamicSharedMemorySize, 49153), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(key, cudaFuncAttributeMaxDynamicSharedMemorySize, 164 << 10),
            cudaErrorInvalidValue);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, std::size_t{1} << 40), cudaErrorMemoryAllocation);
}

class Streams : public testing::Test {
 protected:
  Streams() {
    for (cudaStream_t* stream : {&first_, &second_})
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
  }
  ~Streams() override {
    for (cudaStream_t stream : {first_, second_}) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    SetDrain(Drain::kAtOnce);
  }
  // Puts 1 into `from` on the first stream, and copies it on the second one.
  void CopyAcross(int* from, int* to, bool wait) {
    EXPECT_EQ(cudaMemsetAsync(from, 1, sizeof(int), first_), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event_, first_), cudaSuccess);
    if (wait) {
      EXPECT_EQ(cudaStreamWaitEvent(second_, event_), cudaSuccess);
    }
    EXPECT_EQ(cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyDeviceToDevice, second_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess);
  }

  static constexpr int kOnes = 0x01010101;

  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(Streams, WorkRunsWhenTheHostWaits) {
  const OnDevice<int> x(std::vector<int>{7});
  SetDrain(Drain::kLate);
  EXPECT_EQ(cudaMemsetAsync(x.data(), 1, sizeof(int), first_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event_, first_), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(x.data(), 0, sizeof(int), first_), cudaSuccess);
  EXPECT_EQ(x.values().front(), 7);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  EXPECT_EQ(x.values().front(), kOnes) << "what comes after the event has not run";
  EXPECT_EQ(cudaStreamQuery(first_), cudaErrorNotReady);
  while (cudaStreamQuery(first_) == cudaErrorNotReady) {
  }
  EXPECT_EQ(x.values().front(), 0);
}

TEST_F(Streams, MissingEventWaitIsSeen) {
  const OnDevice<int> x(std::vector<int>{7}), y(1);
  SetDrain(Drain::kLate);
  CopyAcross(x.data(), y.data(), false);
  EXPECT_EQ(y.values().front(), 7);
  CopyAcross(x.data(), y.data(), true);
  EXPECT_EQ(y.values().front(), kOnes);
}

TEST_F(Streams, RandomOrdersAreLegal) {
  int early = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const OnDevice<int> x(std::vector<int>{7}), y(1);
    SetDrain(Drain::kRandom, seed);
    CopyAcross(x.data(), y.data(), false);
    early += y.values().front() == 7 ? 1 : 0;
    CopyAcross(x.data(), y.data(), true);
    EXPECT_EQ(y.values().front(), kOnes) << seed;
    EXPECT_EQ(cudaMemsetAsync(x.data(), 0, sizeof(int), first_), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(x.data(), 1, sizeof(int), first_), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(x.values().front(), kOnes) << seed << ": a stream keeps its order";
  }
  EXPECT_GT(early, 0);
  EXPECT_LT(early, 50);
}

TEST_F(Streams, PinnedMemoryIsReadWhenTheCopyRuns) {
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  int pageable = 1;
  *static_cast<int*>(pinned) = 1;
  const OnDevice<int> x(1), y(1);
  SetDrain(Drain::kLate);
  EXPECT_EQ(cudaMemcpyAsync(x.data(), pinned, sizeof(int), cudaMemcpyHostToDevice, first_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(y.data(), &pageable, sizeof(int), cudaMemcpyHostToDevice, first_), cudaSuccess);
  *static_cast<int*>(pinned) = 2;
  pageable = 2;
  EXPECT_EQ(cudaStreamSynchronize(first_), cudaSuccess);
  EXPECT_EQ(x.values().front(), 2) << "the host changed it too early";
  EXPECT_EQ(y.values().front(), 1);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

class Faults : public testing::Test {
 protected:
  void SetUp() override { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, 0), cudaSuccess); }
  void TearDown() override {
    SetFault(Fault::kNone);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  // Launches a kernel that writes to y.
  static void Write(const OnDevice<unsigned>& y) { WhereAmI(y.data()); }
  static bool IsWritten(const OnDevice<unsigned>& y) {
    const std::vector<unsigned> values = y.values();
    return std::all_of(values.begin(), values.end(), [](unsigned value) { return value != kUnwritten; });
  }
  static OnDevice<unsigned> Fresh() {
    return OnDevice<unsigned>(std::vector<unsigned>(kThreadsOfWhereAmI, kUnwritten));
  }

  static constexpr unsigned kUnwritten = 0xffffffff;
  cudaStream_t stream_ = nullptr;
};

TEST_F(Faults, ErrorOfAKernelIsSticky) {
  const auto first = Fresh(), second = Fresh(), third = Fresh();
  SetFault(Fault::kIllegalAddress, 2);
  Write(first);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  Write(second);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "asking does not clear it";
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 8), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemcpyAsync(third.data(), first.data(), 4, cudaMemcpyDeviceToDevice, stream_),
            cudaErrorIllegalAddress);
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = dim3{1, 1, 1};
  EXPECT_EQ(CheckLaunch(config, nullptr), cudaErrorIllegalAddress);
  EXPECT_TRUE(IsWritten(first));
  EXPECT_FALSE(IsWritten(second));
  EXPECT_EQ(third.values()[0], kUnwritten) << "nothing runs after it";
  SetFault(Fault::kNone);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(Faults, WrongKernelWritesNothing) {
  const auto first = Fresh(), second = Fresh();
  SetFault(Fault::kWrongResult);
  Write(first);
  Write(second);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_FALSE(IsWritten(first));
  EXPECT_TRUE(IsWritten(second));
}

TEST_F(Faults, HangingKernelIsNeverDone) {
  const auto y = Fresh();
  cudaEvent_t before = nullptr, after = nullptr;
  ASSERT_EQ(cudaEventCreate(&before), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&after), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(before, stream_), cudaSuccess);
  SetFault(Fault::kHang);
  Launch(stream_, [] {});
  EXPECT_EQ(cudaMemsetAsync(y.data(), 0, 4, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(after, stream_), cudaSuccess);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
    EXPECT_EQ(cudaEventQuery(after), cudaErrorNotReady);
  }
  EXPECT_EQ(cudaEventQuery(before), cudaSuccess);
  EXPECT_EQ(y.values()[0], kUnwritten);
  SetFault(Fault::kNone);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(y.values()[0], 0u);
  EXPECT_EQ(cudaEventDestroy(before), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(after), cudaSuccess);
}

TEST(MemoryUse, KilledProcessReturnsItsMemory) {
  char directory[] = "/tmp/autocfg-emulated-gpu-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  setenv("AUTOCFG_EMULATED_GPU", directory, 1);
  setenv("AUTOCFG_EMULATED_GPU_BYTES", std::to_string((16 << 20) - 1).c_str(), 1);
  EXPECT_EQ(MemoryOfDevice().free, std::size_t{(16 << 20) - 1});
  int taken[2];
  ASSERT_EQ(pipe(taken), 0);
  const pid_t other = fork();
  if (other == 0) {
    const char answer = TakeMemory((8 << 20) + 1) ? 'y' : 'n';
    if (write(taken[1], &answer, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char answer = 0;
  EXPECT_EQ(read(taken[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(MemoryOfDevice().free, std::size_t{(6 << 20) - 1}) << "in pages of 2 MiB";
  EXPECT_FALSE(TakeMemory(5 << 20));
  EXPECT_TRUE(TakeMemory(3 << 20));
  kill(other, SIGKILL);
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
  EXPECT_EQ(MemoryOfDevice().free, std::size_t{(12 << 20) - 1});
  EXPECT_TRUE(TakeMemory(5 << 20));
  GiveMemory(3 << 20);
  GiveMemory(5 << 20);
  EXPECT_EQ(MemoryOfDevice().free, std::size_t{(16 << 20) - 1});
  for (const int end : taken) close(end);
  unsetenv("AUTOCFG_EMULATED_GPU");
  unsetenv("AUTOCFG_EMULATED_GPU_BYTES");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace autocfg::cuda_emulator
