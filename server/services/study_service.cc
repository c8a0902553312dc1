#include "server/services/study_service.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/numbers.h"
#include "base/os/log_fields.h"
#include "base/os/trace_parent.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/answer/study_export.h"
#include "proto/convert/local_ranks.h"
#include "proto/convert/spec_convert.h"
#include "proto/rpc/call.h"
#include "search/frameworks/export_target.h"
#include "server/names/names.h"
#include "server/report/report_page.h"
#include "server/services/list_page.h"
#include "server/services/study_streams.h"
#include "server/store/turns/fair_share.h"
#include "server/studies/planning_gate.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_rejections.h"
#include "server/studies/study_states.h"

namespace autocfg::server {
namespace {

constexpr std::int64_t kUsualLogBytes = 64 << 10;
constexpr std::int64_t kMostLogBytes = 1 << 20;

// As rights.cc names them.
constexpr std::string_view kWatchMethod = "/autocfg.v1.StudyService/WatchStudy";
constexpr std::string_view kPredictMethod = "/autocfg.v1.StudyService/Predict";
constexpr std::string_view kRejectedMethod = "/autocfg.v1.StudyService/ListRejected";

struct PlacedPage {
  ListPage page;
  std::int64_t after = 0;  // last ID of the previous page; 0: first page
};

// `list`: distinguishes the tokens of different lists.
std::string PageToken(std::string_view list, std::int64_t last) { return fmt::format("{}:{}", list, last); }

template <typename Request>
absl::StatusOr<PlacedPage> ParsePage(const Request& request, std::string_view list) {
  AUTOCFG_ASSIGN_OR_RETURN(auto of_size, ListPage::Of(request.page_size()));
  PlacedPage page{.page = std::move(of_size)};
  const std::string& token = request.page_token();
  if (token.empty()) return page;
  const std::size_t colon = std::min(token.rfind(':'), token.size() - 1);
  const auto after = base::ParseNumber<std::int64_t>(std::string_view(token).substr(colon + 1), 1);
  if (!after || token != PageToken(list, *after))
    return absl::InvalidArgumentError("page_token is invalid; give one that this list returned");
  page.after = *after;
  return page;
}

template <typename T>
grpc::Status Answer(absl::StatusOr<T> result, T* response) {
  if (!result.ok()) return ToGrpc(result.status());
  *response = *std::move(result);
  return grpc::Status::OK;
}

// Returns the traceparent in a call's metadata; empty if there is no valid one.
std::string TraceParentIn(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("traceparent");
  if (found == metadata.end()) return "";
  const auto parent = base::ParseTraceParent({found->second.data(), found->second.size()});
  return parent ? base::TraceParentText(*parent) : "";
}

absl::StatusOr<v1::Study> Logged(absl::StatusOr<v1::Study> study) {
  if (!study.ok()) return study;
  const base::LogScope scope({.trace = base::TraceOf(study->trace_parent())});
  LogState(*ParseStudyName(study->name()), study->state(), study->message());
  return study;
}

}  // namespace

StudyServiceImpl::StudyServiceImpl(StudyServiceParts parts)
    : parts_(std::move(parts)), replays_(parts_.store) {}

absl::StatusOr<std::vector<v1::Worker>> StudyServiceImpl::Workers() const {
  AUTOCFG_ASSIGN_OR_RETURN(const auto records, parts_.workers());
  std::vector<v1::Worker> workers;
  for (const WorkerRecord& record : records) {
    v1::Worker& worker = workers.emplace_back();
    worker.set_name(record.session.worker);
    *worker.mutable_inventory() = record.inventory;
  }
  return workers;
}

absl::Status StudyServiceImpl::NarrowToOffer(const std::string& request_id, v1::SearchSpec& spec) {
  const std::string& engine = spec.cluster().engine();
  if (!spec.cluster().local() || spec.predict_only() || engine.empty() || engine == kOwnEngine)
    return absl::OkStatus();
  std::vector<std::string> can;
  AUTOCFG_ASSIGN_OR_RETURN(const auto earlier, parts_.store.CreatedBy(request_id));
  if (earlier && earlier->spec().cluster().engine() == engine) {
    for (const v1::SpaceAxis& axis : earlier->spec().space()) {
      const std::string values = fmt::format("{}", fmt::join(axis.values(), ","));
      const bool bound = values.starts_with('<') || values.starts_with('>');
      can.push_back(fmt::format("{}{}{}", axis.name(), bound ? "" : "=", values));
    }
  } else {
    AUTOCFG_ASSIGN_OR_RETURN(const auto workers, Workers());
    for (const v1::Worker& worker : workers) {
      const v1::Engine* const offered = OfferedEngine(worker, engine);
      if (offered == nullptr) continue;
      can.assign(offered->space().begin(), offered->space().end());
      break;
    }
  }
  const auto added = NarrowToEngine(can, spec);
  if (added.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the workers' file of engine {}: {}", engine, std::string(added.status().message())));
}

absl::Status StudyServiceImpl::DescribeLocal(const std::string& request_id, v1::SearchSpec& spec) {
  if (!spec.cluster().local() || spec.cluster().groups_size() > 0) return absl::OkStatus();
  AUTOCFG_ASSIGN_OR_RETURN(const auto earlier, parts_.store.CreatedBy(request_id));
  if (earlier && earlier->spec().cluster().local()) {
    *spec.mutable_cluster()->mutable_groups() = earlier->spec().cluster().groups();
    if (spec.device().empty()) spec.set_device(earlier->spec().device());
    return absl::OkStatus();
  }
  const std::optional<EngineDevice> asked = ParseEngineDevice(spec.device());
  if (!spec.device().empty() && (!asked || (*asked != EngineDevice::kCpu && *asked != EngineDevice::kCuda))) {
    return base::InvalidArgument(
        "spec.device", fmt::format("'{}' is no device of a local cluster; give cpu or cuda, or leave "
                                   "it out",
                                   base::Printable(spec.device())));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto all, Workers());
  const std::vector<v1::Worker> workers = WorkersForEngine(all, spec.cluster().engine());
  const EngineDevice device = asked ? *asked : DeviceOf(workers, spec.workload().precision());
  const auto group = LocalRanks(workers, device);
  if (!group.ok()) {
    return absl::Status(group.status().code(), fmt::format("spec.cluster: local has no groups, and {}",
                                                           std::string(group.status().message())));
  }
  ClusterSpec cluster;
  cluster.groups.push_back(*group);
  *spec.mutable_cluster()->mutable_groups() = ToProto(cluster).groups();
  spec.set_device(std::string(Name(device)));
  return absl::OkStatus();
}

absl::StatusOr<v1::Study> StudyServiceImpl::Create(const v1::CreateStudyRequest& request,
                                                   const Caller& caller, const std::string& trace_parent) {
  AUTOCFG_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (!request.has_spec()) return absl::InvalidArgumentError("spec is missing");
  AUTOCFG_RETURN_IF_ERROR(CheckSpecSize(request.spec()));
  if (request.has_weight()) {
    AUTOCFG_RETURN_IF_ERROR(CheckWeight(request.weight()));
  }
  v1::SearchSpec spec = request.spec();
  AUTOCFG_RETURN_IF_ERROR(DescribeLocal(request.request_id(), spec));
  AUTOCFG_RETURN_IF_ERROR(NarrowToOffer(request.request_id(), spec));
  AUTOCFG_ASSIGN_OR_RETURN(const auto problem, ParseSearchSpec(spec));
  v1::Study study;
  *study.mutable_spec() = ToProto(problem);
  // What is stored and listed has defaults filled in.
  AUTOCFG_RETURN_IF_ERROR(CheckSpecSize(study.spec()));
  study.set_fingerprint(SpecFingerprint(study.spec()));
  study.set_owner(caller.principal);
  study.set_weight(request.has_weight() ? request.weight() : 1);
  study.set_trace_parent(trace_parent);
  study.set_state(v1::STUDY_STATE_CREATED);
  if (request.validate_only()) return study;
  if (request.reuse_unfinished())
    return parts_.store.CreateOrReuseStudy(request.request_id(), study, parts_.clock());
  return parts_.store.CreateStudy(request.request_id(), study, parts_.clock());
}

std::string StudyServiceImpl::Waiting(std::int64_t study) {
  std::string why = parts_.runners.Waiting(study);
  return why.empty() ? parts_.dispatcher.Waiting(study) : why;
}

absl::StatusOr<v1::Study> StudyServiceImpl::WithWaiting(absl::StatusOr<v1::Study> study) {
  if (!study.ok() || study->state() != v1::STUDY_STATE_RUNNING) return study;
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyName(study->name()));
  study->set_waiting(Waiting(id));
  return study;
}

absl::Status StudyServiceImpl::CheckOwner(const grpc::ServerContext& context, std::int64_t study) {
  const Caller caller = parts_.access.CallerOf(context);
  if (caller.role == v1::ROLE_ADMIN) return absl::OkStatus();
  const auto stored = parts_.store.GetStudy(study);
  return stored.ok() ? MayChange(caller, *stored) : stored.status();
}

template <typename Request>
absl::StatusOr<v1::Study> StudyServiceImpl::Change(const grpc::ServerContext& context, const Request& request,
                                                   const StudyMove& move) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyName(request.name()));
  AUTOCFG_RETURN_IF_ERROR(CheckOwner(context, id));
  return ChangeState(parts_.store, request, parts_.clock(), move, TraceParentIn(context));
}

absl::StatusOr<v1::Study> StudyServiceImpl::Update(const grpc::ServerContext& context,
                                                   const v1::UpdateStudyRequest& request) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyName(request.study().name()));
  AUTOCFG_RETURN_IF_ERROR(CheckOwner(context, id));
  return WithWaiting(autocfg::server::UpdateStudy(parts_.store, request));
}

absl::StatusOr<v1::Study> StudyServiceImpl::StopWork(absl::StatusOr<v1::Study> study) {
  if (study.ok()) parts_.runners.Forget(*ParseStudyName(study->name()));
  return Logged(std::move(study));
}

grpc::Status StudyServiceImpl::CreateStudy(grpc::ServerContext* context,
                                           const v1::CreateStudyRequest* request, v1::Study* response) {
  return Answer(Create(*request, parts_.access.CallerOf(*context), TraceParentIn(*context)), response);
}

grpc::Status StudyServiceImpl::GetStudy(grpc::ServerContext*, const v1::GetStudyRequest* request,
                                        v1::Study* response) {
  const auto id = ParseStudyName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  return Answer(WithWaiting(parts_.store.GetStudy(*id)), response);
}

grpc::Status StudyServiceImpl::ListStudies(grpc::ServerContext*, const v1::ListStudiesRequest* request,
                                           v1::ListStudiesResponse* response) {
  auto placed = ParsePage(*request, "studies");
  if (!placed.ok()) return ToGrpc(placed.status());
  auto studies = parts_.store.ListStudies(placed->after, placed->page.Limit());
  if (!studies.ok()) return ToGrpc(studies.status());
  for (v1::Study& stored : *studies) {
    auto study = WithWaiting(std::move(stored));
    if (!study.ok()) return ToGrpc(study.status());
    if (!placed->page.Takes(*study)) {
      const auto last = ParseStudyName(response->studies().rbegin()->name());
      if (!last.ok()) return ToGrpc(last.status());
      response->set_next_page_token(PageToken("studies", *last));
      break;
    }
    *response->add_studies() = *std::move(study);
  }
  return grpc::Status::OK;
}

grpc::Status StudyServiceImpl::StartStudy(grpc::ServerContext* context, const v1::StartStudyRequest* request,
                                          v1::Study* response) {
  auto study = Change(*context, *request, kStartStudy);
  if (study.ok() && study->state() == v1::STUDY_STATE_RUNNING)
    parts_.runners.Start(*ParseStudyName(study->name()));
  return Answer(std::move(study), response);
}

grpc::Status StudyServiceImpl::PauseStudy(grpc::ServerContext* context, const v1::PauseStudyRequest* request,
                                          v1::Study* response) {
  return Answer(StopWork(Change(*context, *request, kPauseStudy)), response);
}

grpc::Status StudyServiceImpl::ResumeStudy(grpc::ServerContext* context,
                                           const v1::ResumeStudyRequest* request, v1::Study* response) {
  auto study = Change(*context, *request, kResumeStudy);
  if (study.ok() && study->state() == v1::STUDY_STATE_RUNNING)
    parts_.runners.Start(*ParseStudyName(study->name()));
  return Answer(std::move(study), response);
}

grpc::Status StudyServiceImpl::UpdateStudy(grpc::ServerContext* context,
                                           const v1::UpdateStudyRequest* request, v1::Study* response) {
  return Answer(Update(*context, *request), response);
}

grpc::Status StudyServiceImpl::CancelStudy(grpc::ServerContext* context,
                                           const v1::CancelStudyRequest* request, v1::Study* response) {
  return Answer(StopWork(Change(*context, *request, kCancelStudy)), response);
}

grpc::Status StudyServiceImpl::DeleteStudy(grpc::ServerContext* context,
                                           const v1::DeleteStudyRequest* request, v1::DeleteStudyResponse*) {
  const auto id = ParseStudyName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  if (absl::Status status = CheckRequestId(request->request_id()); !status.ok()) return ToGrpc(status);
  // A repeated request finds no study any more.
  if (absl::Status status = CheckOwner(*context, *id); !status.ok() && !absl::IsNotFound(status))
    return ToGrpc(status);
  const absl::Status status = parts_.store.DeleteStudy(*id, request->request_id());
  if (status.ok()) parts_.runners.Forget(*id);
  return ToGrpc(status);
}

grpc::Status StudyServiceImpl::ListTrials(grpc::ServerContext*, const v1::ListTrialsRequest* request,
                                          v1::ListTrialsResponse* response) {
  const auto id = ParseStudyName(request->parent());
  if (!id.ok()) return ToGrpc(id.status());
  auto placed = ParsePage(*request, request->parent());
  if (!placed.ok()) return ToGrpc(placed.status());
  auto trials = parts_.store.ListTrials(*id, placed->after, placed->page.Limit());
  if (!trials.ok()) return ToGrpc(trials.status());
  for (v1::Trial& trial : *trials) {
    if (!placed->page.Takes(trial)) {
      const auto last = ParseTrialName(response->trials().rbegin()->name());
      if (!last.ok()) return ToGrpc(last.status());
      response->set_next_page_token(PageToken(request->parent(), last->number));
      break;
    }
    *response->add_trials() = std::move(trial);
  }
  return grpc::Status::OK;
}

grpc::Status StudyServiceImpl::GetTrial(grpc::ServerContext*, const v1::GetTrialRequest* request,
                                        v1::Trial* response) {
  const auto id = ParseTrialName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  return Answer(parts_.store.GetTrial(id->study, id->number), response);
}

grpc::Status StudyServiceImpl::GetTrialLog(grpc::ServerContext*, const v1::GetTrialLogRequest* request,
                                           v1::TrialLog* response) {
  const auto id = ParseJobName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  if (request->attempt() < 0)
    return ToGrpc(absl::InvalidArgumentError("attempt is negative; give the number of an attempt, or 0"));
  const std::int64_t asked = request->max_bytes() == 0 ? kUsualLogBytes : request->max_bytes();
  if (asked < 0 || asked > kMostLogBytes) {
    return ToGrpc(absl::InvalidArgumentError(
        fmt::format("max_bytes is {}; it must be from 0 to {}", asked, kMostLogBytes)));
  }
  return Answer(
      parts_.store.TrialLog(id->study, id->number, request->attempt(), static_cast<std::size_t>(asked)),
      response);
}

absl::StatusOr<v1::Recommendation> StudyServiceImpl::Recommend(std::int64_t id, const PlanningWatch& watch) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto study, parts_.store.GetStudy(id));
  if (study.state() == v1::STUDY_STATE_CREATED) {
    return absl::FailedPreconditionError(
        fmt::format("{} has not been started; start it before asking for its recommendation", study.name()));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckHasPlans(study));
  v1::Recommendation answer;
  // For a paused or cancelled study, the store may be newer than its runner's last state.
  const bool interrupted =
      study.state() == v1::STUDY_STATE_PAUSED || study.state() == v1::STUDY_STATE_CANCELLED;
  if (auto latest = parts_.runners.Latest(id); latest && !interrupted) {
    answer = *std::move(latest);
  } else if (study.state() == v1::STUDY_STATE_RUNNING && parts_.runners.Error(id).ok()) {
    *answer.mutable_counts() = study.counts();  // its runner will soon have a full answer
  } else {
    AUTOCFG_ASSIGN_OR_RETURN(answer, replays_.Recommend(id, watch));
  }
  if (study.state() != v1::STUDY_STATE_DONE) {  // the study may continue, or was cancelled
    answer.clear_stopped();
    answer.clear_plans_left();
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto usage, parts_.store.Usage(id));
  answer.set_study(study.name());
  answer.set_wall_s(usage.wall_s);
  answer.set_plan_cpu_s(usage.plan_cpu_s);
  answer.set_device_s(usage.device_s);
  answer.set_exhaustive_device_s(usage.device_s + answer.exhaustive_device_s());
  return answer;
}

grpc::Status StudyServiceImpl::GetRecommendation(grpc::ServerContext* context,
                                                 const v1::GetRecommendationRequest* request,
                                                 v1::Recommendation* response) {
  const auto id = ParseStudyName(request->study());
  if (!id.ok()) return ToGrpc(id.status());
  const auto wanted = [&](const PlanningProgress&) {
    return !context->IsCancelled() && !parts_.notifier.closed();
  };
  auto answer = Recommend(*id, wanted);
  if (absl::IsCancelled(answer.status()) && parts_.notifier.closed()) return ToGrpc(CoordinatorClosing());
  return Answer(std::move(answer), response);
}

grpc::Status StudyServiceImpl::WatchStudy(grpc::ServerContext* context, const v1::WatchStudyRequest* request,
                                          grpc::ServerWriter<v1::StudyEvent>* writer) {
  const auto id = ParseStudyName(request->name());
  if (!id.ok()) return ToGrpc(id.status());
  if (!Enter(watchers_, kMaxWatchers)) {
    return ToGrpc(absl::ResourceExhaustedError(fmt::format(
        "{} calls watch studies, the most that this coordinator allows; end one of them, or poll the study",
        kMaxWatchers)));
  }
  const absl::Cleanup leave = [this] { Leave(watchers_); };
  // UNAVAILABLE would mean that the coordinator is gone. The stream continues instead, and `waiting` gives
  // the reason. Without room on the disk it ends: somebody has to make some.
  const auto error = [&] {
    const absl::Status status = parts_.runners.Error(*id);
    if (IsNoSpace(status)) return absl::ResourceExhaustedError(status.message());
    return absl::IsUnavailable(status) ? absl::OkStatus() : status;
  };
  return ToGrpc(Watch(parts_.store, parts_.notifier, *id, request->resume_cursor(),
                      {.send = [&](const v1::StudyEvent& event) { return writer->Write(event); },
                       .gone = [&] { return context->IsCancelled(); },
                       .error = error,
                       .waiting = [&] { return Waiting(*id); },
                       .admitted = [&] { return parts_.access.StillAdmits(*context, kWatchMethod); }}));
}

bool StudyServiceImpl::Enter(int& streams, int most) {
  absl::MutexLock lock(&streams_mutex_);
  if (streams >= most) return false;
  ++streams;
  return true;
}

void StudyServiceImpl::Leave(int& streams) {
  absl::MutexLock lock(&streams_mutex_);
  --streams;
}

void StudyServiceImpl::AwaitNoWatchers(absl::Duration timeout) {
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(streams_mutex_) { return watchers_ == 0; };
  absl::MutexLock lock(&streams_mutex_);
  streams_mutex_.AwaitWithTimeout(absl::Condition(&none), timeout);
}

absl::StatusOr<v1::Trial> StudyServiceImpl::Retry(const grpc::ServerContext& context,
                                                  const v1::RetryTrialRequest& request) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseTrialName(request.name()));
  AUTOCFG_RETURN_IF_ERROR(CheckOwner(context, id.study));
  AUTOCFG_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  auto trial = parts_.store.RetryTrial(id.study, id.number, request.request_id());
  if (!trial.ok()) return trial;
  AUTOCFG_ASSIGN_OR_RETURN(const auto study, parts_.store.GetStudy(id.study));
  if (study.state() == v1::STUDY_STATE_RUNNING) parts_.runners.Restart(id.study);
  return trial;
}

grpc::Status StudyServiceImpl::RetryTrial(grpc::ServerContext* context, const v1::RetryTrialRequest* request,
                                          v1::Trial* response) {
  return Answer(Retry(*context, *request), response);
}

absl::StatusOr<v1::ExportConfigResponse> StudyServiceImpl::Exported(const v1::ExportConfigRequest& request) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseStudyName(request.study()));
  const ExportTarget* target = FindExportTarget(request.format());
  if (target == nullptr)
    return absl::InvalidArgumentError(fmt::format("format: {}", UnknownExportTarget(request.format())));
  AUTOCFG_ASSIGN_OR_RETURN(const auto study, parts_.store.GetStudy(id));
  AUTOCFG_ASSIGN_OR_RETURN(const auto run, ExportedRunOf(study));
  AUTOCFG_ASSIGN_OR_RETURN(auto file, Export(run, *target));
  v1::ExportConfigResponse response;
  response.set_content(std::move(file.text));
  return response;
}

grpc::Status StudyServiceImpl::ExportConfig(grpc::ServerContext*, const v1::ExportConfigRequest* request,
                                            v1::ExportConfigResponse* response) {
  return Answer(Exported(*request), response);
}

grpc::Status StudyServiceImpl::GetReport(grpc::ServerContext* context, const v1::GetReportRequest* request,
                                         v1::GetReportResponse* response) {
  const auto id = ParseStudyName(request->study());
  if (!id.ok()) return ToGrpc(id.status());
  const auto wanted = [&](const PlanningProgress&) {
    return !context->IsCancelled() && !parts_.notifier.closed();
  };
  const auto report = parts_.reports.Get(*id, wanted);
  if (absl::IsCancelled(report.status()) && parts_.notifier.closed()) return ToGrpc(CoordinatorClosing());
  if (!report.ok()) return ToGrpc(report.status());
  response->set_page(ReportPage((*report)->title, (*report)->json));
  return grpc::Status::OK;
}

grpc::Status StudyServiceImpl::Predict(
    grpc::ServerContext* context, grpc::ServerReaderWriter<v1::PredictResponse, v1::PredictRequest>* stream) {
  if (!Enter(predictors_, kMaxPredictors)) {
    return ToGrpc(absl::ResourceExhaustedError(
        fmt::format("{} calls ask for predictions, the most that this coordinator allows; one stream answers "
                    "any number of requests; end one, or try again later",
                    kMaxPredictors)));
  }
  const absl::Cleanup leave = [this] { Leave(predictors_); };
  PredictorCache predictors;
  v1::PredictRequest request;
  while (stream->Read(&request)) {
    if (absl::Status status = parts_.access.StillAdmits(*context, kPredictMethod); !status.ok())
      return ToGrpc(status);
    if (!stream->Write(AnswerPrediction(request, predictors))) break;  // the caller is gone
  }
  return grpc::Status::OK;
}

grpc::Status StudyServiceImpl::ListRejected(grpc::ServerContext* context,
                                            const v1::ListRejectedRequest* request,
                                            grpc::ServerWriter<v1::RejectedPlans>* writer) {
  const auto id = ParseStudyName(request->study());
  if (!id.ok()) return ToGrpc(id.status());
  if (!Enter(rejections_, kMaxRejections)) {
    return ToGrpc(absl::ResourceExhaustedError(
        fmt::format("{} calls list rejected plans, the most that this coordinator allows; try again later",
                    kMaxRejections)));
  }
  const absl::Cleanup leave = [this] {
    Leave(rejections_);
    GiveBackFreedMemory();
  };
  const auto wanted = [&](const PlanningProgress&) {
    return !context->IsCancelled() && !parts_.notifier.closed();
  };
  absl::Status admitted;
  const absl::Status status = autocfg::server::ListRejected(
      parts_.store, *id, request->most(), wanted, [&](const v1::RejectedPlans& plans) {
        admitted = parts_.access.StillAdmits(*context, kRejectedMethod);
        return admitted.ok() && writer->Write(plans);
      });
  if (!admitted.ok()) return ToGrpc(admitted);
  if (absl::IsCancelled(status) && parts_.notifier.closed()) return ToGrpc(CoordinatorClosing());
  return ToGrpc(status);
}

}  // namespace autocfg::server
