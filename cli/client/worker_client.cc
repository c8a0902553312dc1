#include "cli/client/worker_client.h"

#include <utility>

#include "base/os/host.h"
#include "base/status_macros.h"

namespace autocfg::cli {
namespace {

using WorkerStub = v1::WorkerService::Stub;

constexpr int kWorkerPageSize = 200;
constexpr double kWorkerDeadlineSeconds = 20;

}  // namespace

WorkerClient::WorkerClient(const Endpoint& endpoint)
    : connection_(Connect(endpoint)), stub_(v1::WorkerService::NewStub(connection_.channel)) {}

absl::StatusOr<std::vector<v1::Worker>> WorkerClient::ListWorkers(bool gone) {
  std::vector<v1::Worker> workers;
  v1::ListWorkersRequest request;
  request.set_page_size(kWorkerPageSize);
  request.set_gone(gone);
  do {
    AUTOCFG_ASSIGN_OR_RETURN(
        auto page, Ask<v1::ListWorkersResponse>(connection_, *stub_, &WorkerStub::ListWorkers, request,
                                                kWorkerDeadlineSeconds));
    for (auto& worker : *page.mutable_workers()) workers.push_back(std::move(worker));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return workers;
}

absl::Status WorkerClient::DrainWorker(const std::string& name) {
  v1::DrainWorkerRequest request;
  request.set_worker(name);
  request.set_request_id(base::RandomId());
  return Ask<v1::DrainWorkerResponse>(connection_, *stub_, &WorkerStub::DrainWorker, request,
                                      kWorkerDeadlineSeconds)
      .status();
}

absl::StatusOr<WorkerPool> ListPool(const ServiceOptions& options) {
  WorkerPool pool{.coordinator = options.coordinator, .workers = {}};
  AUTOCFG_ASSIGN_OR_RETURN(const auto endpoint, EndpointOf(options));
  AUTOCFG_ASSIGN_OR_RETURN(auto workers, WorkerClient(endpoint).ListWorkers(/*gone=*/false));
  for (v1::Worker& worker : workers) {
    if (worker.takes_jobs()) pool.workers.push_back(std::move(worker));
  }
  return pool;
}

}  // namespace autocfg::cli
