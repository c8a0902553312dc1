#include "server/services/worker_service.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <utility>

#include "base/os/log_fields.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/plan/cluster/engine_device.h"
#include "server/names/names.h"
#include "server/services/list_page.h"
#include "server/services/parked_reactor.h"
#include "server/services/request_checks.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

constexpr std::string_view kLeaseMethod = "/autocfg.v1.WorkerService/LeaseWork";  // as rights.cc names it

// Returns what `take` returns. An exception is our own bug, or no memory; on a thread of ours it would end
// the process.
absl::Status TakeSafely(const std::function<absl::Status()>& take) {
  try {
    return take();
  } catch (const std::exception& error) {
    return absl::InternalError(fmt::format("internal error: {}; please report it", error.what()));
  }
}

// Answers with what `take` returns, which one of `threads` calls.
grpc::ServerUnaryReactor* AnswerLater(grpc::CallbackServerContext* context, CallThreads& threads,
                                      std::function<absl::Status()> take) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  threads.Run([reactor, take = std::move(take)] { reactor->Finish(ToGrpc(TakeSafely(take))); });
  return reactor;
}

template <typename Request>
WorkerSession SessionOf(const Request& request) {
  return {request.worker(), request.session_epoch()};
}

}  // namespace

WorkerServiceImpl::WorkerServiceImpl(WorkerServiceParts parts) : parts_(std::move(parts)) {}

absl::Status WorkerServiceImpl::StillAdmits(const grpc::CallbackServerContext& context,
                                            std::string_view method) const {
  return parts_.access == nullptr ? absl::OkStatus() : parts_.access->StillAdmits(context, method);
}

grpc::ServerUnaryReactor* WorkerServiceImpl::RegisterWorker(grpc::CallbackServerContext* context,
                                                            const v1::RegisterWorkerRequest* request,
                                                            v1::RegisterWorkerResponse* response) {
  return AnswerLater(context, threads_, [=, this]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(Check(*request));
    v1::RegisterWorkerRequest definite = *request;
    if (request->inventory().device_kind().empty())
      definite.mutable_inventory()->set_device_kind(std::string(Name(DeviceKind::kCpu)));
    AUTOCFG_ASSIGN_OR_RETURN(const auto epoch, parts_.store.RegisterWorker(definite, parts_.clock()));
    parts_.dispatcher.Registered({request->worker(), epoch});
    const v1::Inventory& inventory = definite.inventory();
    const base::LogScope scope({.worker = request->worker()});
    spdlog::info("{} has registered (session {}): host {}, {} slots, {}", request->worker(), epoch,
                 inventory.hostname().empty() ? "not named" : base::Printable(inventory.hostname()),
                 inventory.slots(), inventory.device_kind());
    response->set_worker(request->worker());
    response->set_session_epoch(epoch);
    response->set_lease_duration_s(parts_.lease_duration_s);
    return absl::OkStatus();
  });
}

void WorkerServiceImpl::Fill(const Lease& lease, v1::LeaseWorkResponse& response) const {
  *response.mutable_job() = lease.job;
  response.set_lease_id(lease.lease_id);
  response.set_fencing_token(lease.fencing_token);
  if (lease.workers <= 1) return;
  v1::Share& share = *response.mutable_share();
  share.set_first_rank(lease.first_rank);
  share.set_ranks(lease.ranks);
  share.set_workers(lease.workers);
  share.set_barrier_s(parts_.barrier_s);
}

grpc::ServerUnaryReactor* WorkerServiceImpl::LeaseWork(grpc::CallbackServerContext* context,
                                                       const v1::LeaseWorkRequest* request,
                                                       v1::LeaseWorkResponse* response) {
  if (absl::Status status = Check(*request); !status.ok()) return Answer(context, status);
  // After a pause of this process, calls that their workers gave up arrive together with the newest one. What
  // they list as held is old.
  if (context->IsCancelled()) return Answer(context, absl::CancelledError("the worker is gone"));
  std::optional<double> leaves_s;
  if (request->has_leaves_in_s()) leaves_s = parts_.clock() + request->leaves_in_s();
  if (absl::Status status = parts_.store.SetLeaving(SessionOf(*request), leaves_s); !status.ok())
    return Answer(context, status);
  PollRequest poll{.session = SessionOf(*request), .wait = *WaitOf(request->wait_s()), .held = std::nullopt};
  if (request->lists_held_leases())
    poll.held.emplace(request->held_leases().begin(), request->held_leases().end());
  auto* call =
      new ParkedReactor(context, [this](CallId id, bool broke) { parts_.dispatcher.PollerGone(id, broke); });
  const auto asked = std::chrono::steady_clock::now();
  const auto answer = [this, context, call, response, asked](const absl::StatusOr<Work>& work) {
    if (!work.ok()) {
      call->Answer(work.status());
      return true;
    }
    if (call->caller_gone()) {
      call->Answer(absl::CancelledError("the worker is gone"));
      return false;
    }
    // The call was parked since its token was checked.
    if (absl::Status status = StillAdmits(*context, kLeaseMethod); !status.ok()) {
      call->Answer(status);
      return false;
    }
    response->set_drain(work->drain);
    if (work->lease) {
      Fill(*work->lease, *response);
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - asked;
      parts_.metrics.Leased(waited.count());
      call->set_undelivered([this, lease = *work->lease] { parts_.dispatcher.Undelivered(lease); });
    }
    call->Answer(absl::OkStatus());
    return true;
  };
  threads_.Run([this, call, poll = std::move(poll), answer] {
    call->Park([&]() -> CallId {
      if (!call->caller_gone()) return parts_.dispatcher.Poll(poll, answer);
      call->Answer(absl::CancelledError("the worker is gone"));
      return 0;
    });
  });
  return call;
}

grpc::ServerUnaryReactor* WorkerServiceImpl::RenewLease(grpc::CallbackServerContext* context,
                                                        const v1::RenewLeaseRequest* request,
                                                        v1::RenewLeaseResponse* response) {
  if (absl::Status status = Check(*request); !status.ok()) return Answer(context, status);
  const RenewRequest renewal{.session = SessionOf(*request),
                             .lease_id = request->lease_id(),
                             .fencing_token = request->fencing_token(),
                             .wait = *WaitOf(request->wait_s())};
  auto* call =
      new ParkedReactor(context, [this](CallId id, bool broke) { parts_.dispatcher.RenewerGone(id, broke); });
  threads_.Run([this, call, renewal, response] {
    call->Park([&] {
      return parts_.dispatcher.Renew(renewal,
                                     [call, response](const absl::StatusOr<v1::LeaseCommand>& command) {
                                       if (command.ok()) response->set_command(*command);
                                       call->Answer(command.status());
                                     });
    });
  });
  return call;
}

grpc::ServerUnaryReactor* WorkerServiceImpl::Rendezvous(grpc::CallbackServerContext* context,
                                                        const v1::RendezvousRequest* request,
                                                        v1::RendezvousResponse* response) {
  if (absl::Status status = Check(*request); !status.ok()) return Answer(context, status);
  const JoinRequest join{.lease_id = request->lease_id(),
                         .fencing_token = request->fencing_token(),
                         .name = request->name(),
                         .sequence = request->sequence(),
                         .values = {request->values().begin(), request->values().end()}};
  auto* call = new ParkedReactor(context, [this](CallId id, bool) { parts_.rendezvous.CallerGone(id); });
  threads_.Run([this, call, join, response] {
    call->Park([&] {
      return parts_.rendezvous.Join(join, [call, response](const absl::StatusOr<Values>& values) {
        if (values.ok()) response->mutable_values()->Assign(values->begin(), values->end());
        call->Answer(values.status());
      });
    });
  });
  return call;
}

grpc::ServerUnaryReactor* WorkerServiceImpl::ReportProgress(grpc::CallbackServerContext* context,
                                                            const v1::ReportProgressRequest* request,
                                                            v1::ReportProgressResponse*) {
  return AnswerLater(context, threads_, [=, this]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(Check(*request));
    if (request->has_calibration()) {
      AUTOCFG_RETURN_IF_ERROR(parts_.store.KeepTimedOps(request->lease_id(), request->fencing_token(),
                                                        request->calibration(), parts_.clock()));
    }
    AUTOCFG_ASSIGN_OR_RETURN(const auto share,
                             parts_.store.FindShare(request->lease_id(), request->fencing_token()));
    // Only a calibration's progress is shown: a trial is over within seconds.
    if (share.trial != 0) return absl::OkStatus();
    return parts_.store
        .ModifyStudy(share.study,
                     [&](v1::Study& study) {
                       if (study.state() != v1::STUDY_STATE_RUNNING) return absl::OkStatus();
                       study.set_calibration_ops_passed(request->progress().ops_passed());
                       study.set_calibration_ops(request->progress().ops_all());
                       study.set_eta_s(request->progress().left_s());
                       return absl::OkStatus();
                     })
        .status();
  });
}

grpc::ServerUnaryReactor* WorkerServiceImpl::AppendTrialLog(grpc::CallbackServerContext* context,
                                                            const v1::AppendTrialLogRequest* request,
                                                            v1::AppendTrialLogResponse*) {
  if (absl::Status status = Check(*request); !status.ok()) return Answer(context, status);
  return AnswerLater(context, threads_, [=, this] {
    return parts_.store.AppendLog(request->lease_id(), request->fencing_token(), request->text());
  });
}

grpc::ServerUnaryReactor* WorkerServiceImpl::ReportTrial(grpc::CallbackServerContext* context,
                                                         const v1::ReportTrialRequest* request,
                                                         v1::ReportTrialResponse*) {
  return AnswerLater(context, threads_, [=, this]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(Check(*request));
    v1::ReportTrialRequest report = *request;
    report.set_message(base::Cut(request->message(), kMaxMessageBytes));
    if (absl::Status status = parts_.store.Report(report, parts_.clock()); !status.ok()) {
      const base::LogScope scope({.worker = request->worker(), .lease = request->lease_id()});
      spdlog::warn("{}: {}", request->worker(), std::string(status.message()));
      return status;
    }
    parts_.dispatcher.Heard(SessionOf(*request));
    // The end of a share may not change its study, but it frees slots and may stop the attempt's other
    // shares.
    parts_.dispatcher.StoreChanged();
    parts_.rendezvous.StoreChanged();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* WorkerServiceImpl::DrainWorker(grpc::CallbackServerContext* context,
                                                         const v1::DrainWorkerRequest* request,
                                                         v1::DrainWorkerResponse*) {
  return AnswerLater(context, threads_, [=, this]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(Check(*request));
    AUTOCFG_ASSIGN_OR_RETURN(const auto drains,
                             parts_.store.DrainWorker(request->worker(), request->request_id()));
    if (drains) {
      const base::LogScope scope({.worker = request->worker()});
      spdlog::info("{} drains: it gets no more work", request->worker());
      parts_.dispatcher.Drains(request->worker());
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* WorkerServiceImpl::DeregisterWorker(grpc::CallbackServerContext* context,
                                                              const v1::DeregisterWorkerRequest* request,
                                                              v1::DeregisterWorkerResponse*) {
  return AnswerLater(context, threads_, [=, this]() -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(CheckWorkerName(request->worker()));
    absl::Status status =
        parts_.store.DeregisterWorker(request->worker(), request->session_epoch(), parts_.clock());
    if (status.ok()) {
      const base::LogScope scope({.worker = request->worker()});
      spdlog::info("{} has deregistered", request->worker());
      parts_.dispatcher.Deregistered(SessionOf(*request));
    }
    return status;
  });
}

grpc::ServerUnaryReactor* WorkerServiceImpl::ListWorkers(grpc::CallbackServerContext* context,
                                                         const v1::ListWorkersRequest* request,
                                                         v1::ListWorkersResponse* response) {
  return AnswerLater(context, threads_, [=, this]() -> absl::Status {
    AUTOCFG_ASSIGN_OR_RETURN(auto page, ListPage::Of(request->page_size()));
    if (!request->page_token().empty() && !CheckWorkerName(request->page_token()).ok())
      return absl::InvalidArgumentError("page_token is invalid; give one that a list returned");
    AUTOCFG_ASSIGN_OR_RETURN(auto records,
                             parts_.store.ListWorkers(request->page_token(), page.Limit(), request->gone()));
    for (WorkerRecord& record : records) {
      const Presence::Seen seen = parts_.dispatcher.Seen(record.session.worker);
      v1::Worker worker;
      worker.set_name(record.session.worker);
      worker.set_state(StateOf(record, seen.silent));
      *worker.mutable_inventory() = std::move(record.inventory);
      worker.set_session_epoch(record.session.epoch);
      worker.set_ranks_in_use(record.ranks_in_use);
      worker.mutable_jobs()->Assign(record.jobs.begin(), record.jobs.end());
      worker.set_register_time_s(record.registered_s);
      worker.set_last_seen_s(seen.last_s);
      if (record.leaves_s) worker.set_leaves_in_s(std::max(0.0, *record.leaves_s - parts_.clock()));
      worker.set_takes_jobs(worker.state() == v1::WORKER_STATE_ACTIVE && seen.takes_jobs);
      if (!page.Takes(worker)) {
        response->set_next_page_token(response->workers().rbegin()->name());
        break;
      }
      *response->add_workers() = std::move(worker);
    }
    return absl::OkStatus();
  });
}

}  // namespace autocfg::server
