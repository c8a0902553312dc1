// What a coordinator counts and times while it runs, for Prometheus. Counters start at 0 with the process.
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grpcpp/support/server_interceptor.h"
#include "grpcpp/support/status_code_enum.h"
#include "prometheus/metric_family.h"
#include "server/store/records.h"

namespace autocfg::server {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // A write of the store; a listener of Store::OnCommit.
  void Committed(const StoreCommit& commit);
  // A call has ended. `method`: "/package.Service/Method". Callers choose it, so all that this server does
  // not have count as one.
  void Called(std::string_view method, grpc::StatusCode code, double seconds);
  // A worker that asked for work got a lease.
  void Leased(double waited_s);

  std::vector<prometheus::MetricFamily> Collect() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// Times every call of a gRPC server, for grpc::ServerBuilder. `metrics` must outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> TimeCalls(Metrics& metrics);

}  // namespace autocfg::server
