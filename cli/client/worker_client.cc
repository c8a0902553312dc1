#include "cli/client/worker_client.h"

#include <utility>

#include "base/os/host.h"

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
    auto page = Ask<v1::ListWorkersResponse>(connection_, *stub_, &WorkerStub::ListWorkers, request,
                                             kWorkerDeadlineSeconds);
    if (!page.ok()) return page.status();
    for (auto& worker : *page->mutable_workers()) workers.push_back(std::move(worker));
    request.set_page_token(page->next_page_token());
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
  const auto endpoint = EndpointOf(options);
  if (!endpoint.ok()) return endpoint.status();
  auto workers = WorkerClient(*endpoint).ListWorkers(/*gone=*/false);
  if (!workers.ok()) return workers.status();
  for (v1::Worker& worker : *workers) {
    if (worker.takes_jobs()) pool.workers.push_back(std::move(worker));
  }
  return pool;
}

}  // namespace autocfg::cli
