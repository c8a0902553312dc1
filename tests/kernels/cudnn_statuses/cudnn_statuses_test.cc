// Tests how each cuDNN failure is handled: our own kernels replace refused shapes, lack of memory has its own
// type, and all other failures end the run. Also tests which cuDNN is loaded. cuDNN, CUDA and our own kernels
// are replaced by functions of this test.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/cudnn/cudnn_api.h"
#include "kernels/cuda/cudnn/cudnn_descriptor.h"
#include "kernels/cuda/ops/attention_choice.h"
#include "kernels/device.h"
#include "tests/support/fake_library.h"

namespace autocfg::cuda {
namespace {

constexpr std::size_t kPlenty = std::size_t{1} << 33, kLittle = std::size_t{1} << 20;

// A failure to inject: its place, its status and for how many calls.
struct Fault {
  std::string where;  // "create", "set_stream", "execute", or "finalize" of the descriptor `type`
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::string message = "its own words\nand more of them";
  int times = 1 << 20;
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
};

struct World {
  std::optional<std::string> missing;  // why there is no cuDNN
  Fault fault;
  std::int64_t handles = 0, descriptors = 0;
  std::map<void*, cudnnBackendDescriptorType_t> types;
  std::size_t version = CUDNN_VERSION;
  std::size_t free_bytes = kPlenty;
  bool lost = false;               // every CUDA call fails
  std::vector<std::string> calls;  // calls that compute
};
World world;

cudnnStatus_t Answer(const std::string& where) {
  if (world.fault.where != where || world.fault.times == 0) return CUDNN_STATUS_SUCCESS;
  --world.fault.times;
  return world.fault.status;
}

std::size_t GetVersion() { return world.version; }
const char* GetErrorString(cudnnStatus_t) { return "CUDNN_STATUS_OF_A_TEST"; }
void GetLastErrorString(char* text, std::size_t room) {
  std::strncpy(text, world.fault.message.c_str(), room);
}
cudnnStatus_t Create(cudnnHandle_t* handle) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): opaque, and never dereferenced
  *handle = reinterpret_cast<cudnnHandle_t>(std::intptr_t{1});
  const cudnnStatus_t status = Answer("create");
  if (status == CUDNN_STATUS_SUCCESS) ++world.handles;
  return status;
}
cudnnStatus_t Destroy(cudnnHandle_t) {
  --world.handles;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetStream(cudnnHandle_t, cudaStream_t) { return Answer("set_stream"); }
cudnnStatus_t CreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  static std::intptr_t last = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): opaque, and never dereferenced
  *descriptor = reinterpret_cast<cudnnBackendDescriptor_t>(++last);
  world.types[*descriptor] = type;
  ++world.descriptors;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t DestroyDescriptor(cudnnBackendDescriptor_t) {
  --world.descriptors;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                           std::int64_t, const void*) {
  return CUDNN_STATUS_SUCCESS;
}
// Offers two engines, whose plans need no workspace.
cudnnStatus_t GetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t, std::int64_t, std::int64_t* count, void* values) {
  *count = name == CUDNN_ATTR_ENGINEHEUR_RESULTS ? 2 : 0;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) *static_cast<std::int64_t*>(values) = 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t Finalize(cudnnBackendDescriptor_t descriptor) {
  return world.types.at(descriptor) == world.fault.type ? Answer("finalize") : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t Execute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) {
  world.calls.emplace_back("cuDNN");
  return Answer("execute");
}

const std::map<std::string, void*>& Functions() {
  const auto at = [](auto* function) { return reinterpret_cast<void*>(function); };
  static const std::map<std::string, void*> functions{
      {"cudnnGetVersion", at(GetVersion)},
      {"cudnnGetErrorString", at(GetErrorString)},
      {"cudnnGetLastErrorString", at(GetLastErrorString)},
      {"cudnnCreate", at(Create)},
      {"cudnnDestroy", at(Destroy)},
      {"cudnnSetStream", at(SetStream)},
      {"cudnnBackendCreateDescriptor", at(CreateDescriptor)},
      {"cudnnBackendDestroyDescriptor", at(DestroyDescriptor)},
      {"cudnnBackendSetAttribute", at(SetAttribute)},
      {"cudnnBackendGetAttribute", at(GetAttribute)},
      {"cudnnBackendFinalize", at(Finalize)},
      {"cudnnBackendExecute", at(Execute)}};
  return functions;
}

}  // namespace

// Replaces the function that opens the library.
const CudnnApi& Cudnn() {
  if (world.missing) throw LibraryMissing(*world.missing);
  static const CudnnApi api = FindCudnn(FakeLibrary("a library", Functions()));
  return api;
}

template <typename T>
void AttentionForward(const AttentionShape&, const T*, T*, float*, cudaStream_t) {
  world.calls.emplace_back("own");
}
template <typename T>
void AttentionBackward(const AttentionShape&, const T*, const T*, const float*, const T*, T*, float*,
                       cudaStream_t) {
  world.calls.emplace_back("own");
}

template void AttentionForward(const AttentionShape&, const float*, float*, float*, cudaStream_t);
template void AttentionForward(const AttentionShape&, const __nv_bfloat16*, __nv_bfloat16*, float*,
                               cudaStream_t);
template void AttentionBackward(const AttentionShape&, const float*, const float*, const float*, const float*,
                                float*, float*, cudaStream_t);
template void AttentionBackward(const AttentionShape&, const __nv_bfloat16*, const __nv_bfloat16*,
                                const float*, const __nv_bfloat16*, __nv_bfloat16*, float*, cudaStream_t);

}  // namespace autocfg::cuda

extern "C" {

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfATest"; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (autocfg::cuda::world.lost) return cudaErrorIllegalAddress;
  *free = autocfg::cuda::world.free_bytes;
  *total = autocfg::cuda::kPlenty;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = ::operator new(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  ::operator delete(data);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t) { return cudaSuccess; }

}  // extern "C"

namespace autocfg::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

const AttentionShape kShape{.batch = 1, .seq_len = 128, .heads = 2, .kv_heads = 1, .head_dim = 64};

class CudnnStatuses : public ::testing::Test {
 protected:
  CudnnStatuses() { world = {}; }
  ~CudnnStatuses() override {
    choice_.reset();
    EXPECT_EQ(world.handles, 0);
    EXPECT_EQ(world.descriptors, 0);
  }

  void Forward() { choice_->Forward<__nv_bfloat16>(kShape, nullptr, nullptr, nullptr, scratch_, nullptr); }
  void Backward() {
    choice_->Backward<__nv_bfloat16>(kShape, nullptr, nullptr, nullptr, nullptr, nullptr, scratch_, nullptr);
  }
  std::string Says() { return choice_->ImplementationOf<__nv_bfloat16>(kShape); }

  // Checks the exact type, because DeviceError alone would accept both.
  void ExpectOutOfMemory(const std::string& words) {
    try {
      Forward();
      FAIL() << "nothing failed; " << Says();
    } catch (const DeviceOutOfMemory& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(words), Not(HasSubstr("\n"))));
      EXPECT_EQ(error.available_bytes, static_cast<std::int64_t>(world.free_bytes));
    }
    EXPECT_THAT(world.calls, Not(::testing::Contains("own")));
  }
  void ExpectError(const std::string& words) {
    try {
      Forward();
      FAIL() << "nothing failed; " << Says();
    } catch (const DeviceOutOfMemory& error) {
      FAIL() << "taken for want of memory: " << error.what();
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(words), HasSubstr("AUTOCFG_ATTENTION=own"), Not(HasSubstr("\n"))));
    }
    EXPECT_THAT(world.calls, Not(::testing::Contains("own")));
  }

  std::optional<AttentionChoice> choice_{AttentionForced::kNone};
  Scratch scratch_;
};

TEST_F(CudnnStatuses, UsesCudnnWithoutFailures) {
  Forward();
  Backward();
  EXPECT_THAT(world.calls, ElementsAre("cuDNN", "cuDNN"));
  EXPECT_THAT(Says(), StartsWith("cuDNN 9."));
}

TEST_F(CudnnStatuses, FallsBackWithoutCudnnAndReportsIt) {
  world.missing = "cuDNN is not on this machine: libcudnn.so.9: cannot open shared object file";
  Forward();
  Backward();
  EXPECT_THAT(world.calls, ElementsAre("own", "own"));
  EXPECT_EQ(Says(), "own kernels, tensor cores (cuDNN refuses: " + *world.missing + ")");
  choice_.emplace(AttentionForced::kCudnn);
  EXPECT_THAT([&] { Forward(); }, ThrowsMessage<DeviceError>(HasSubstr(*world.missing)));
}

// Where cuDNN computes attention, one with ALiBi takes our own kernels all the same, in both directions, and
// the choice says why. A forced cuDNN is an error.
TEST_F(CudnnStatuses, LinearBiasesTakeOwnKernels) {
  AttentionShape alibi = kShape;
  alibi.alibi_heads = 2;
  const auto run = [&] {
    choice_->Forward<__nv_bfloat16>(alibi, nullptr, nullptr, nullptr, scratch_, nullptr);
    choice_->Backward<__nv_bfloat16>(alibi, nullptr, nullptr, nullptr, nullptr, nullptr, scratch_, nullptr);
  };
  run();
  EXPECT_THAT(world.calls, ElementsAre("own", "own"));
  EXPECT_EQ(choice_->ImplementationOf<__nv_bfloat16>(alibi),
            "own kernels, tensor cores (cuDNN refuses: " + std::string(kNoAlibi) + ")");
  Forward();
  EXPECT_THAT(world.calls, ElementsAre("own", "own", "cuDNN"));
  choice_.emplace(AttentionForced::kCudnn);
  EXPECT_THAT([&] { run(); }, ThrowsMessage<DeviceError>(HasSubstr(std::string(kNoAlibi))));
}

// So do soft caps and windows.
TEST_F(CudnnStatuses, SoftCapsAndWindowsTakeOwnKernels) {
  AttentionShape capped = kShape, windowed = kShape;
  capped.softcap = 50;
  windowed.window = 64;
  for (const auto& [of, why] : {std::pair(capped, kNoSoftCap), {windowed, kNoWindow}}) {
    const auto run = [this, shape = of] {
      choice_->Forward<__nv_bfloat16>(shape, nullptr, nullptr, nullptr, scratch_, nullptr);
      choice_->Backward<__nv_bfloat16>(shape, nullptr, nullptr, nullptr, nullptr, nullptr, scratch_, nullptr);
    };
    world.calls.clear();
    choice_.emplace(AttentionForced::kNone);
    run();
    EXPECT_THAT(world.calls, ElementsAre("own", "own"));
    EXPECT_EQ(choice_->ImplementationOf<__nv_bfloat16>(of),
              "own kernels, tensor cores (cuDNN refuses: " + std::string(why) + ")");
    choice_.emplace(AttentionForced::kCudnn);
    EXPECT_THAT(run, ThrowsMessage<DeviceError>(HasSubstr(std::string(why))));
  }
}

// One plan serves all scales, which are operands.
TEST_F(CudnnStatuses, OtherScalesTakeTheSamePlans) {
  Forward();
  const std::int64_t plans = world.descriptors;
  AttentionShape scaled = kShape;
  scaled.scale = 0.25;
  choice_->Forward<__nv_bfloat16>(scaled, nullptr, nullptr, nullptr, scratch_, nullptr);
  EXPECT_THAT(world.calls, ElementsAre("cuDNN", "cuDNN"));
  EXPECT_EQ(world.descriptors, plans);
}

TEST_F(CudnnStatuses, RefusalsFallBackToOwnKernels) {
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
        CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
        CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED}) {
    SCOPED_TRACE(static_cast<int>(status));
    choice_.emplace(AttentionForced::kNone);
    world.calls.clear();
    world.fault = {.where = "finalize", .status = status};
    Forward();
    Backward();
    EXPECT_THAT(world.calls, ElementsAre("own", "own"));
    EXPECT_THAT(Says(), AllOf(HasSubstr("forward: cuDNN, a plan: CUDNN_STATUS_OF_A_TEST: its own words"),
                              Not(HasSubstr("\n"))));
  }
  choice_.emplace(AttentionForced::kNone);
  world.fault = {.where = "create", .status = CUDNN_STATUS_NOT_INITIALIZED};
  EXPECT_THAT(Says(), StartsWith("own kernels, tensor cores (cuDNN refuses: cuDNN does not start: "));
}

// A fallback that was chosen silently would be measured as if it were the best.
TEST_F(CudnnStatuses, OtherFailuresThrow) {
  for (const cudnnStatus_t status :
       {CUDNN_STATUS_INTERNAL_ERROR, CUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE,
        CUDNN_STATUS_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER}) {
    for (const char* where : {"create", "finalize", "set_stream", "execute"}) {
      SCOPED_TRACE(fmt::format("{} from {}", static_cast<int>(status), where));
      choice_.emplace(AttentionForced::kNone);
      world.fault = {.where = where, .status = status};
      ExpectError("its own words");
      world.fault = {};
      Forward();
      EXPECT_EQ(world.calls.back(), "cuDNN") << "nothing is kept of a failure";
    }
  }
}

TEST_F(CudnnStatuses, FallsBackToNextEngine) {
  world.fault = {.where = "finalize", .status = CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER, .times = 1};
  Forward();
  EXPECT_THAT(world.calls, ElementsAre("cuDNN"));
  EXPECT_THAT(Says(), HasSubstr("not the preferred engine: cuDNN, a plan: "));
}

TEST_F(CudnnStatuses, OutOfMemoryIsTypedInEveryCall) {
  for (const char* where : {"create", "finalize", "set_stream", "execute"}) {
    SCOPED_TRACE(where);
    choice_.emplace(AttentionForced::kNone);
    world.fault = {.where = where, .status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED};
    ExpectOutOfMemory("its own words");
    world.fault = {.where = where,
                   .status = CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER,
                   .message = "cuLibraryLoadData returned error out of memory (2)"};
    ExpectOutOfMemory("out of memory (2)");
    world.fault = {.where = where, .status = CUDNN_STATUS_INTERNAL_ERROR};
    world.free_bytes = kLittle;
    ExpectOutOfMemory("its own words");
    world.free_bytes = kPlenty;
  }
  choice_.emplace(AttentionForced::kNone);
  world.fault = {.where = "create", .status = CUDNN_STATUS_NOT_INITIALIZED};
  world.free_bytes = kLittle;
  ExpectOutOfMemory("cuDNN does not start");
  // If the first engine lacks memory, no other engine is tried.
  world.fault = {
      .where = "finalize", .status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, .times = 1};
  ExpectOutOfMemory("its own words");
}

TEST_F(CudnnStatuses, LowMemoryDoesNotChangeRefusalsOrFaults) {
  world.free_bytes = kLittle;
  world.fault = {.where = "finalize", .status = CUDNN_STATUS_NOT_SUPPORTED_SHAPE};
  Forward();
  EXPECT_THAT(world.calls, ElementsAre("own"));
  choice_.emplace(AttentionForced::kNone);
  world.calls.clear();
  world.lost = true;
  world.fault = {.where = "execute", .status = CUDNN_STATUS_EXECUTION_FAILED};
  ExpectError("executing a plan");
}

TEST(CudnnApi, NamesAMissingFunction) {
  for (const auto& [name, function] : Functions()) {
    std::map<std::string, void*> others = Functions();
    others.erase(name);
    EXPECT_THAT([&] { FindCudnn(FakeLibrary("a library", others)); },
                ThrowsMessage<LibraryMissing>("a library has no " + name));
  }
}

TEST(CudnnApi, RequiresTheHeadersMajorVersion) {
  world = {};
  const auto find = [] { FindCudnn(FakeLibrary("a library", Functions())); };
  for (const auto& [version, words] :
       {std::pair{std::size_t{8907}, "is cuDNN 8.9.7"}, std::pair{std::size_t{100102}, "is cuDNN 10.1.2"}}) {
    world.version = version;
    EXPECT_THAT(find, ThrowsMessage<LibraryMissing>(HasSubstr(words)));
  }
  world.version = 90000;
  EXPECT_NO_THROW(find());
}

}  // namespace
}  // namespace autocfg::cuda
