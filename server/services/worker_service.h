// WorkerService over the store: checks the request, makes the call, maps the status. Thread-safe.
#pragma once

#include "autocfg/v1/worker_service.grpc.pb.h"
#include "server/clock.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"

namespace autocfg {

class WorkerServiceImpl final : public v1::WorkerService::Service {
 public:
  // All outlive this object.
  WorkerServiceImpl(Store& store, Notifier& notifier, Clock clock, double lease_duration_s);

  grpc::Status RegisterWorker(grpc::ServerContext*, const v1::RegisterWorkerRequest*,
                              v1::RegisterWorkerResponse*) override;
  grpc::Status LeaseWork(grpc::ServerContext*, const v1::LeaseWorkRequest*, v1::LeaseWorkResponse*) override;
  grpc::Status RenewLease(grpc::ServerContext*, const v1::RenewLeaseRequest*,
                          v1::RenewLeaseResponse*) override;
  grpc::Status AppendTrialLog(grpc::ServerContext*, const v1::AppendTrialLogRequest*,
                              v1::AppendTrialLogResponse*) override;
  grpc::Status ReportTrial(grpc::ServerContext*, const v1::ReportTrialRequest*,
                           v1::ReportTrialResponse*) override;
  grpc::Status DeregisterWorker(grpc::ServerContext*, const v1::DeregisterWorkerRequest*,
                                v1::DeregisterWorkerResponse*) override;

  // Not supported yet.
  grpc::Status Rendezvous(grpc::ServerContext*, const v1::RendezvousRequest*,
                          v1::RendezvousResponse*) override;
  grpc::Status DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest*,
                           v1::DrainWorkerResponse*) override;

 private:
  Store& store_;
  Notifier& notifier_;
  const Clock clock_;
  const double lease_duration_s_;
};

}  // namespace autocfg
