#include "trainer/comm/ucx/ucx_transport.h"

#include <sched.h>
#include <time.h>
#include <ucs/config/global_opts.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <utility>

#include "fmt/format.h"

namespace autocfg::trainer {
namespace {

// All bits of the tag are compared.
constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};

// Time limit for flushing the messages that peers expect when a world ends.
constexpr std::chrono::seconds kFlushLimit{5};

void Check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) throw CommError(fmt::format("UCX cannot {}: {}", what, ucs_status_string(status)));
}

// Creates a context with settings that suit the engine's ranks. Values that the user's environment sets
// (UCX_NAME) take precedence. System V segments outlive a killed process; POSIX segments are unlinked as soon
// as they are created.
ucp_context_h CreateContext(int world_size) {
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) {
    Check(ucs_global_opts_set_value("LOG_LEVEL", "error"), "set its log level");
  }
  ucp_config_t* config = nullptr;
  Check(ucp_config_read(nullptr, nullptr, &config), "read its configuration");
  ucs_status_t status = UCS_OK;
  if (std::getenv("UCX_TLS") == nullptr) status = ucp_config_modify(config, "TLS", "^sysv");

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_TAG;
  params.estimated_num_eps = static_cast<std::size_t>(world_size);
  ucp_context_h context = nullptr;
  if (status == UCS_OK) status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  Check(status, "start");
  return context;
}

ucp_request_param_t HostMemory() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  return param;
}

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

UcxRequest::UcxRequest(UcxRequest&& other) noexcept { *this = std::move(other); }

UcxRequest& UcxRequest::operator=(UcxRequest&& other) noexcept {
  if (this == &other) return *this;
  GiveUp();
  transport_ = other.transport_;
  handle_ = std::exchange(other.handle_, nullptr);
  error_ = std::move(other.error_);
  peer_ = other.peer_;
  receives_ = other.receives_;
  bytes_ = other.bytes_;
  return *this;
}

UcxRequest::~UcxRequest() { GiveUp(); }

void UcxRequest::GiveUp() noexcept {
  if (handle_ == nullptr) return;
  transport_->gave_up_ = true;
  if (receives_) ucp_request_cancel(transport_->worker_, handle_);
  ucp_request_free(std::exchange(handle_, nullptr));
}

bool UcxRequest::Done() {
  if (handle_ != nullptr) {
    ucp_tag_recv_info_t info{};
    const ucs_status_t status =
        receives_ ? ucp_tag_recv_request_test(handle_, &info) : ucp_request_check_status(handle_);
    if (status == UCS_INPROGRESS) return false;
    ucp_request_free(std::exchange(handle_, nullptr));
    Finish(status, info.length);
  }
  if (!error_.empty()) throw CommError(error_);
  return true;
}

void UcxRequest::Finish(ucs_status_t status, std::size_t received) {
  if (status != UCS_OK) {
    error_ = fmt::format("{} rank {} failed ({} bytes): {}", receives_ ? "a receive from" : "a send to",
                         peer_, bytes_, ucs_status_string(status));
  } else if (receives_ && received != bytes_) {
    error_ = fmt::format("rank {} sent {} bytes, but {} were expected", peer_, received, bytes_);
  }
}

UcxTransport::UcxTransport(Rendezvous& rendezvous) : rendezvous_(rendezvous), rank_(rendezvous.rank()) {
  context_ = CreateContext(rendezvous.size());
  try {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SINGLE;
    Check(ucp_worker_create(context_, &params, &worker_), "create a worker");

    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    Check(ucp_worker_get_address(worker_, &address, &length), "return its address");
    const std::string bytes(reinterpret_cast<const char*>(address), length);
    ucp_worker_release_address(worker_, address);
    addresses_ = rendezvous.AllGather("ucx_address", bytes);
    endpoints_.resize(addresses_.size(), nullptr);
  } catch (...) {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

UcxTransport::~UcxTransport() {
  if (gave_up_ || unwinding_.Now()) return;
  Flush();
  try {
    rendezvous_.AllGather("ucx_end", "");
  } catch (const CommError&) {  // the group is ending: no peer is left to wait for
  }
  CloseEndpoints();
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

void UcxTransport::Flush() {
  std::vector<void*> requests;
  const ucp_request_param_t param{};
  for (ucp_ep_h endpoint : endpoints_) {
    if (endpoint != nullptr) requests.push_back(ucp_ep_flush_nbx(endpoint, &param));
  }
  Finish(requests);
}

void UcxTransport::CloseEndpoints() {
  std::vector<void*> requests;
  ucp_request_param_t param{};
  for (ucp_ep_h endpoint : endpoints_) {
    if (endpoint != nullptr) requests.push_back(ucp_ep_close_nbx(endpoint, &param));
  }
  Finish(requests);
}

void UcxTransport::Finish(const std::vector<void*>& requests) {
  const std::int64_t limit = NowNs() + std::chrono::nanoseconds(kFlushLimit).count();
  for (void* request : requests) {
    if (request == nullptr || UCS_PTR_IS_ERR(request)) continue;
    Idling idling;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && NowNs() < limit) {
      if (ucp_worker_progress(worker_) == 0) Idle(idling);
    }
    ucp_request_free(request);
  }
}

ucp_ep_h UcxTransport::Endpoint(int peer) {
  if (endpoints_[peer] == nullptr) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(addresses_[peer].data());
    const ucs_status_t status = ucp_ep_create(worker_, &params, &endpoints_[peer]);
    if (status != UCS_OK) {
      endpoints_[peer] = nullptr;
      throw CommError(fmt::format("cannot connect to rank {}: {}", peer, ucs_status_string(status)));
    }
  }
  return endpoints_[peer];
}

UcxRequest UcxTransport::Send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  UcxRequest request(this, peer, false, bytes);
  const ucp_request_param_t param = HostMemory();
  void* handle = ucp_tag_send_nbx(Endpoint(peer), data, bytes, tag, &param);
  if (UCS_PTR_IS_ERR(handle)) {
    request.Finish(UCS_PTR_STATUS(handle), 0);
  } else {
    request.handle_ = handle;
  }
  return request;
}

UcxRequest UcxTransport::Recv(int peer, std::uint64_t tag, void* data, std::size_t bytes) {
  // The endpoint carries UCX's replies to the sender (for example, that a long message has been fetched). An
  // endpoint that UCX creates implicitly for them would not be flushed at the end, and the sender would wait
  // forever.
  Endpoint(peer);
  UcxRequest request(this, peer, true, bytes);
  // Disables immediate completion: with it, UCX 1.13 does not always report the received size.
  ucp_request_param_t param = HostMemory();
  param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  void* handle = ucp_tag_recv_nbx(worker_, data, bytes, tag, kWholeTag, &param);
  if (UCS_PTR_IS_ERR(handle)) {
    request.Finish(UCS_PTR_STATUS(handle), 0);
  } else {
    request.handle_ = handle;
  }
  return request;
}

bool UcxTransport::Poll() {
  bool moved = ucp_worker_progress(worker_) != 0;
  for (UcxStepper* stepper : steppers_) moved = stepper->Step() || moved;
  return moved;
}

// Backoff while polling. Because ranks may outnumber cores, it yields first, then sleeps for a small fraction
// of the time already waited. A waiting rank thus costs the computing ranks little, and delays itself by at
// most that fraction.
void UcxTransport::Idle(Idling& idling) {
  constexpr std::uint64_t kYields = 256;
  constexpr std::int64_t kSleepAfterNs = 1'000'000;
  constexpr std::int64_t kLongestSleepNs = 500'000;
  ::sched_yield();
  if (++idling.polls < kYields) return;
  const std::int64_t now = NowNs();
  if (idling.since_ns == 0) idling.since_ns = now;
  const std::int64_t waited = now - idling.since_ns;
  if (waited < kSleepAfterNs) return;
  const timespec pause{0, std::min(waited / 16, kLongestSleepNs)};
  ::nanosleep(&pause, nullptr);
}

}  // namespace autocfg::trainer
