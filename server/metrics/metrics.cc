#include "server/metrics/metrics.h"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "proto/short_name.h"

namespace autocfg::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;

const Histogram::BucketBoundaries& Buckets() {
  static const Histogram::BucketBoundaries kSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                       0.1,    0.25,  0.5,    1,     2.5,  10,    30};
  return kSeconds;
}

// In the order of LeaseEnd.
constexpr std::array<const char*, kLeaseEnds> kEndNames = {"reported", "expired", "lost", "returned"};

constexpr std::array kOutcomes = {v1::TRIAL_STATE_MEASURED,  v1::TRIAL_STATE_INFEASIBLE,
                                  v1::TRIAL_STATE_FAILED,    v1::TRIAL_STATE_TIMED_OUT,
                                  v1::TRIAL_STATE_CANCELLED, v1::TRIAL_STATE_LOST};

// As gRPC names them.
const char* CodeName(grpc::StatusCode code) {
  static constexpr std::array<const char*, 17> kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

// Returns "StudyService/CreateStudy"; "other" for methods of other services and unknown ones.
std::string MethodName(std::string_view method) {
  constexpr std::string_view kOurs = "/autocfg.v1.";
  if (!method.starts_with(kOurs)) return "other";
  const std::string name(method.substr(kOurs.size()));
  std::string full(method.substr(1));
  if (const std::size_t slash = full.find('/'); slash != std::string::npos) full[slash] = '.';
  const bool known = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(full) != nullptr;
  return known ? name : "other";
}

class TimedCall final : public Interceptor {
 public:
  TimedCall(ServerRpcInfo* info, Metrics& metrics) : info_(info), metrics_(metrics) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
      metrics_.Called(info_->method(), methods->GetSendStatus().error_code(), took.count());
    }
    methods->Proceed();
  }

 private:
  ServerRpcInfo* const info_;
  Metrics& metrics_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class TimedCalls final : public ServerInterceptorFactoryInterface {
 public:
  explicit TimedCalls(Metrics& metrics) : metrics_(metrics) {}

  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override { return new TimedCall(info, metrics_); }

 private:
  Metrics& metrics_;
};

}  // namespace

struct Metrics::Impl {
  Impl() {
    // Known series are there from the start, so that the first event of a kind is a change.
    for (std::size_t i = 0; i < kLeaseEnds; ++i) ended[i] = &ended_family.Add({{"end", kEndNames[i]}});
    for (std::size_t i = 0; i < kOutcomes.size(); ++i)
      trials[i] = &trial_family.Add({{"outcome", StateText(kOutcomes[i])}});
  }

  Family<Counter>& CounterFamily(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Family<Histogram>& HistogramFamily(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }

  prometheus::Registry registry;
  Counter& granted = CounterFamily("autocfg_leases_granted_total", "Leases that workers were given.").Add({});
  Family<Counter>& ended_family =
      CounterFamily("autocfg_leases_ended_total", "Leases that have ended, by how they ended.");
  Family<Counter>& trial_family =
      CounterFamily("autocfg_trials_total", "Trials that have ended, by their outcome.");
  Counter& rejected = CounterFamily("autocfg_reports_rejected_total",
                                    "Reports that were rejected as late, foreign or duplicate.")
                          .Add({});
  Counter& failed_writes =
      CounterFamily("autocfg_store_failed_writes_total", "Writes that failed in the storage.").Add({});
  Family<Counter>& rpcs = CounterFamily("autocfg_rpcs_total", "Calls that have ended, by method and status.");
  Family<Histogram>& rpc_seconds = HistogramFamily(
      "autocfg_rpc_duration_seconds", "How long calls took, by method; some methods wait by design.");
  Histogram& lease_wait = HistogramFamily("autocfg_lease_wait_seconds",
                                          "How long calls of workers for work that got a lease had waited.")
                              .Add({}, Buckets());
  Histogram& commits =
      HistogramFamily("autocfg_store_commit_seconds", "How long the synced commits of the database took.")
          .Add({}, Buckets());
  std::array<Counter*, kLeaseEnds> ended = {};
  std::array<Counter*, kOutcomes.size()> trials = {};
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::Committed(const StoreCommit& commit) {
  if (commit.failed) {
    impl_->failed_writes.Increment();
    return;
  }
  if (commit.seconds) impl_->commits.Observe(*commit.seconds);
  impl_->granted.Increment(static_cast<double>(commit.leases_granted));
  for (std::size_t i = 0; i < kLeaseEnds; ++i)
    impl_->ended[i]->Increment(static_cast<double>(commit.leases_ended[i]));
  for (const v1::TrialState state : commit.trials_ended) {
    for (std::size_t i = 0; i < kOutcomes.size(); ++i) {
      if (kOutcomes[i] == state) impl_->trials[i]->Increment();
    }
  }
  impl_->rejected.Increment(static_cast<double>(commit.reports_rejected));
}

void Metrics::Called(std::string_view method, grpc::StatusCode code, double seconds) {
  const std::string name = MethodName(method);
  impl_->rpcs.Add({{"method", name}, {"code", CodeName(code)}}).Increment();
  impl_->rpc_seconds.Add({{"method", name}}, Buckets()).Observe(seconds);
}

void Metrics::Leased(double waited_s) { impl_->lease_wait.Observe(waited_s); }

std::vector<prometheus::MetricFamily> Metrics::Collect() const { return impl_->registry.Collect(); }

std::unique_ptr<ServerInterceptorFactoryInterface> TimeCalls(Metrics& metrics) {
  return std::make_unique<TimedCalls>(metrics);
}

}  // namespace autocfg::server
