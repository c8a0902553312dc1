// WorkerService over the store, the dispatcher and the rendezvous: validates requests, makes the calls and
// converts statuses. Thread-safe.
#pragma once

#include <string_view>

#include "autocfg/v1/worker_service.grpc.pb.h"
#include "base/os/host.h"
#include "server/access/access_control.h"
#include "server/metrics/metrics.h"
#include "server/sched/dispatcher.h"
#include "server/sched/rendezvous.h"
#include "server/services/call_threads.h"
#include "server/store/store.h"

namespace autocfg::server {

// Dependencies of a WorkerServiceImpl; all must outlive it.
struct WorkerServiceParts {
  Store& store;
  Dispatcher& dispatcher;
  Rendezvous& rendezvous;
  Metrics& metrics;
  base::Clock clock;
  double lease_duration_s = 0;
  double barrier_s = 0;
  const AccessControl* access = nullptr;  // null: whoever calls is admitted
};

class WorkerServiceImpl final : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerServiceImpl(WorkerServiceParts parts);

  grpc::ServerUnaryReactor* RegisterWorker(grpc::CallbackServerContext*, const v1::RegisterWorkerRequest*,
                                           v1::RegisterWorkerResponse*) override;
  grpc::ServerUnaryReactor* LeaseWork(grpc::CallbackServerContext*, const v1::LeaseWorkRequest*,
                                      v1::LeaseWorkResponse*) override;
  grpc::ServerUnaryReactor* RenewLease(grpc::CallbackServerContext*, const v1::RenewLeaseRequest*,
                                       v1::RenewLeaseResponse*) override;
  grpc::ServerUnaryReactor* Rendezvous(grpc::CallbackServerContext*, const v1::RendezvousRequest*,
                                       v1::RendezvousResponse*) override;
  grpc::ServerUnaryReactor* ReportProgress(grpc::CallbackServerContext*, const v1::ReportProgressRequest*,
                                           v1::ReportProgressResponse*) override;
  grpc::ServerUnaryReactor* AppendTrialLog(grpc::CallbackServerContext*, const v1::AppendTrialLogRequest*,
                                           v1::AppendTrialLogResponse*) override;
  grpc::ServerUnaryReactor* ReportTrial(grpc::CallbackServerContext*, const v1::ReportTrialRequest*,
                                        v1::ReportTrialResponse*) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext*, const v1::DrainWorkerRequest*,
                                        v1::DrainWorkerResponse*) override;
  grpc::ServerUnaryReactor* DeregisterWorker(grpc::CallbackServerContext*, const v1::DeregisterWorkerRequest*,
                                             v1::DeregisterWorkerResponse*) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext*, const v1::ListWorkersRequest*,
                                        v1::ListWorkersResponse*) override;

 private:
  absl::Status StillAdmits(const grpc::CallbackServerContext& context, std::string_view method) const;
  void Fill(const Lease& lease, v1::LeaseWorkResponse& response) const;

  const WorkerServiceParts parts_;
  CallThreads threads_;
};

}  // namespace autocfg::server
