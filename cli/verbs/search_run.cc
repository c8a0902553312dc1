#include "cli/verbs/search_run.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/os/host.h"
#include "base/os/process.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/input/devices.h"
#include "cli/input/service_options.h"
#include "cli/question/answer_notes.h"
#include "cli/study/embedded_service.h"
#include "cli/study/kept_op_times.h"
#include "cli/study/progress.h"
#include "cli/study/rejected_file.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "fmt/format.h"
#include "proto/answer/answer.h"
#include "proto/client/study_client.h"
#include "proto/client/study_watcher.h"
#include "proto/short_name.h"
#include "server/store/lock_file.h"
#include "server/store/store.h"
#include "worker/engines/engine_run.h"
#include "worker/launcher/process_launcher.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

// Number of times, one second apart, that a restarting or overloaded coordinator is asked for the answer of a
// finished study.
constexpr int kReadAgain = 60;
constexpr std::chrono::duration<double> kLineEvery{5};  // of progress, where no display is drawn
// How long a prediction that is kept waits for a database that another process uses. Such a search holds it
// for the time that it plans, a second or two.
constexpr std::chrono::duration<double> kDatabasePatience{15};
constexpr std::chrono::milliseconds kDatabaseAgain{100};
// An awkward batch is planned again if that is likely to take at most so long.
constexpr double kSecondPlanningSeconds = 5;

// Creates and starts the study, or continues the unfinished study of the same question. With `alone`, other
// unfinished studies are paused, so that nothing else is measured meanwhile. Without `shared`, always creates
// a study, which no other search takes part in.
absl::StatusOr<v1::Study> Begin(StudyClient& client, const SearchRequest& request, bool alone,
                                bool shared = true) {
  v1::CreateStudyRequest create;
  create.set_request_id(base::RandomId());
  *create.mutable_spec() = request.spec;
  create.set_weight(request.weight);
  create.set_reuse_unfinished(shared);
  AUTOCFG_ASSIGN_OR_RETURN(auto study, client.CreateStudy(create));
  if (study.state() != v1::STUDY_STATE_CREATED) {
    Note(fmt::format("resuming study {}, which is not finished; {} plans measured so far",
                     LastPart(study.name()), study.counts().measured()));
  }
  if (alone) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto others, client.ListStudies());
    for (const auto& other : others) {
      if (other.state() != v1::STUDY_STATE_RUNNING || other.name() == study.name()) continue;
      AUTOCFG_RETURN_IF_ERROR(client.PauseStudy(other.name()).status());
      Note(fmt::format("study {} is not finished and is paused; run its own command again to resume it",
                       LastPart(other.name())));
    }
  }
  if (study.state() == v1::STUDY_STATE_PAUSED) return client.ResumeStudy(study.name());
  // A RUNNING study may be waiting for its storage; starting it again retries at once.
  return client.StartStudy(study.name());
}

// Returns the number of ranks that run at once: all ranks of a local or paced cluster, otherwise those of one
// emulated node, limited by this machine's GPUs.
std::int64_t RanksAtOnce(const SearchRequest& request) {
  const SearchQuestion& question = request.question;
  if (question.cluster.local || IsEmulated(question.device)) return RankCount(question.cluster);
  const std::int64_t machine = request.spec.machine_ranks();
  return machine > 0 ? machine : question.cluster.groups.front().gpus_per_node;
}

// Returns notes for measurements on a machine that is smaller than the cluster it stands for.
std::vector<std::string> LoadNotes(const SearchRequest& request, std::int64_t slots) {
  std::vector<std::string> notes;
  const std::int64_t ranks = RankCount(request.question.cluster);
  const std::int64_t machine = request.spec.machine_ranks();
  if (machine > 0) {
    notes.push_back(fmt::format(
        "this machine has {} of the {} GPUs of a node: of larger plans, one rank alone is measured: a slice; "
        "communication is measured within the machine, and else follows from the links of --cluster",
        machine, request.question.cluster.groups.front().gpus_per_node));
  } else if (slots < ranks) {
    notes.push_back(fmt::format(
        "this machine emulates one node of {} rank{}: of larger plans, one rank alone is measured: a slice; "
        "communication is measured within the machine, and else follows from the links of --cluster",
        slots, slots == 1 ? "" : "s"));
  }
  if (UsesGpus(request.question.device)) {
    if (std::string note = SharedGpusNote(slots, request.machine); !note.empty())
      notes.push_back(std::move(note));
    return notes;
  }
  const auto cores = static_cast<std::int64_t>(worker::PhysicalCores().size());
  if (slots > cores && slots < ranks) {
    notes.push_back(
        fmt::format("{} rank{} run{} at once, one on each core, in place of a node's {}: what is timed is a "
                    "rank, not ranks that share a core",
                    cores, cores == 1 ? "" : "s", cores == 1 ? "s" : "", slots));
  } else if (slots > cores) {
    notes.push_back(fmt::format("{} ranks share {} core{}; plans are compared under this load", slots, cores,
                                cores == 1 ? "" : "s"));
  }
  return notes;
}

// Shows the study's progress until it ends or is paused: `live`, on a terminal, as a block that is drawn
// anew; else as lines. Returns false if interrupted.
bool Follow(StudyWatcher& watcher, const Interrupt& interrupt, double budget_s, const std::string& target,
            bool live) {
  ProgressDisplay display(stderr, live);
  const auto began = std::chrono::steady_clock::now();
  WatchNotes notes(target);
  std::chrono::duration<double> next_line = kLineEvery;  // elapsed
  while (!interrupt.requested() && !watcher.WaitForEnd(0.2) &&
         watcher.Latest().state() != v1::STUDY_STATE_PAUSED) {
    const v1::Study latest = watcher.Latest();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
    if (display.active()) {
      display.Draw(WatchedLines(watcher, latest, target, elapsed.count(), budget_s, display.Style()));
    } else {
      notes.Say(watcher);
      if (elapsed >= next_line) {
        Note(ProgressText(latest, elapsed.count(), budget_s));
        next_line = elapsed + kLineEvery;
      }
    }
  }
  display.Clear();
  return !interrupt.requested();
}

// Repeats `call` while the coordinator is unavailable or exhausted, at most kReadAgain times. Returns the
// last answer.
template <typename Call>
auto Patiently(StudyClient& client, Call call) {
  auto answer = call();
  const auto passes = [&answer] {
    return absl::IsUnavailable(answer.status()) || absl::IsResourceExhausted(answer.status());
  };
  for (int again = 0; again < kReadAgain && passes(); ++again) {
    client.Pause(1, [] { return false; });
    answer = call();
  }
  return answer;
}

// Returns the best so far of a study that was stopped. `how`: for the answer.
Ended Stopped(StudyClient& client, const std::string& study, const std::string& how, int exit_code,
              std::string message) {
  Ended ended{{}, exit_code};
  ended.stopped = std::move(message);
  const auto answer = client.GetRecommendation(study);
  if (!answer.ok() || !answer->has_best()) return ended;
  ended.answer = *answer;
  ended.answer->set_stopped(how);
  return ended;
}

Ended ConcludeSearch(const SearchArgs& args, StudyClient& client, StudyWatcher& watcher) {
  const v1::Study study = watcher.Latest();
  if (const absl::Status status = watcher.status(); !status.ok()) {
    if (!args.service.remote()) return {{}, Fail(Where("the embedded coordinator", status))};
    return {{},
            Fail(ExitCodeOf(status),
                 fmt::format("{}; study {} continues there once it {}: autocfg watch{} --study {}",
                             Text(status), LastPart(study.name()),
                             absl::IsResourceExhausted(status) ? "has room again" : "answers again",
                             AsWritten(args.service), LastPart(study.name())))};
  }
  if (study.state() == v1::STUDY_STATE_PAUSED) {
    return Stopped(
        client, study.name(), "paused", kExitNegative,
        fmt::format("study {} is paused{}; run the same command again to resume it", LastPart(study.name()),
                    study.message().empty() ? "" : ": " + study.message()));
  }
  if (study.state() == v1::STUDY_STATE_CANCELLED) {
    return Stopped(
        client, study.name(), "cancelled", kExitNegative,
        fmt::format("study {} cancelled; the same command begins a new one", LastPart(study.name())));
  }
  if (study.state() != v1::STUDY_STATE_DONE) {
    return {
        {},
        Fail(kExitNegative, fmt::format("study {} {}: {}", LastPart(study.name()), StateText(study.state()),
                                        study.message().empty() ? "see autocfg trials" : study.message()))};
  }
  auto answer = Patiently(client, [&] { return client.GetRecommendation(study.name()); });
  if (!answer.ok()) return {{}, Fail(answer.status())};
  const auto trials = Patiently(client, [&] { return client.ListTrials(study.name()); });
  if (!trials.ok()) return {{}, Fail(trials.status())};
  return {*std::move(answer), kExitDone, EndsOf(*trials)};
}

// Answers a prediction of this machine from the op times that earlier searches have kept: without a study,
// and without the database's lock. Returns nothing if some must be measured, or a study is asked for.
std::optional<Ended> PredictFromKept(const SearchArgs& args, SearchRequest& request, PrintedNotes& notes) {
  SearchQuestion& question = request.question;
  const bool may =
      question.predict_only && question.cluster.local && !args.save && !args.fresh && args.rejected.empty();
  if (!may) return std::nullopt;
  const Interrupt interrupt;
  auto answer = PredictFromKeptOpTimes(args.service.database, request.machine, request.spec,
                                       [&](const PlanningProgress&) { return !interrupt.requested(); });
  if (interrupt.requested()) {
    Ended ended{{}, kExitInterrupted};
    ended.stopped = "interrupted; nothing is kept; repeat the command, or narrow it with --space";
    return ended;
  }
  if (!answer.ok()) return Ended{{}, Fail(answer.status())};
  if (!answer->has_value()) return std::nullopt;
  question.kept = false;
  for (std::string& note : LoadNotes(request, RanksAtOnce(request)))
    question.notes.push_back(std::move(note));
  notes.Say(question.notes);
  return Ended{**std::move(answer)};
}

// Returns the note on an awkward batch of a prediction that took little time, or on the nodes that would be
// enough if nothing fits, within as much time again.
std::string SizeNote(const SearchRequest& request, const v1::Recommendation& answer,
                     const Interrupt& interrupt) {
  const double budget_s = request.spec.time_budget_s();
  const double most_s =
      budget_s > 0 ? std::min(kSecondPlanningSeconds, budget_s - answer.wall_s()) : kSecondPlanningSeconds;
  if (!request.question.predict_only || !IsDescribed(request.question) || answer.wall_s() > most_s) return "";
  const auto began = std::chrono::steady_clock::now();
  const PlanningWatch watch = [&](const PlanningProgress&) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
    return !interrupt.requested() && elapsed.count() < most_s;
  };
  return answer.nothing_fits().empty() ? EvenBatchNote(request.spec, answer, watch)
                                       : EnoughNodesNote(request.spec, answer, watch);
}

// Starts the coordinator on the database. With `patient`, waits a while for another process that uses it.
absl::StatusOr<std::unique_ptr<EmbeddedService>> StartOn(const std::string& database, bool patient,
                                                         const Interrupt& interrupt) {
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    auto service = EmbeddedService::Start(database);
    if (!server::IsInUse(service.status()) || !patient || interrupt.requested() ||
        std::chrono::steady_clock::now() - began > kDatabasePatience)
      return service;
    std::this_thread::sleep_for(kDatabaseAgain);
  }
}

// Adds the note of a build whose op times are not reused.
void AddNoReuseNote(const std::string& whose, const std::string& build_id, SearchRequest& request) {
  if (std::string note = NoReuseNote(whose, build_id); !note.empty())
    request.question.notes.push_back(std::move(note));
}

// Runs the version commands of the engines that this machine's worker offers.
absl::Status ReadVersions(worker::EngineOffer& offer) {
  if (offer.engines.empty()) return absl::OkStatus();
  AUTOCFG_RETURN_IF_ERROR(worker::CheckSupervisor());
  return Where("--engines", worker::ReadEngineVersions(offer.engines, worker::FindSupervisor()));
}

// Runs the search with a coordinator and a worker inside this process.
Ended SearchHere(const SearchArgs& args, SearchRequest& request, PrintedNotes& notes) {
  const auto database = server::DatabasePath(args.service.database);
  if (!database.ok()) return {{}, Fail(database.status())};
  if (auto known = PredictFromKept(args, request, notes)) return *std::move(known);
  // A prediction by figures needs nothing of the database, and others may be asked at the same time.
  request.question.kept = args.save || !request.question.predict_only || !IsDescribed(request.question);
  const SearchQuestion& question = request.question;
  const std::int64_t slots = RanksAtOnce(request);
  if (!IsDescribed(question)) {
    for (std::string& note : LoadNotes(request, slots)) request.question.notes.push_back(std::move(note));
    AddNoReuseNote("this build", base::BuildId(), request);
  }
  notes.Say(question.notes);

  const Interrupt interrupt;
  const bool has_worker = IsEmulated(question.device) || !IsDescribed(question);
  if (has_worker) {
    // Before the study is made, so that a wrong command leaves none.
    if (auto status = ReadVersions(request.engines); !status.ok()) return {{}, Fail(status)};
  }
  auto started = question.kept ? StartOn(*database, args.save, interrupt) : EmbeddedService::StartInMemory();
  if (!started.ok()) return {{}, Fail(kExitUsage, fmt::format("--db: {}", Text(started.status())))};
  const auto service = *std::move(started);
  StudyClient client(service->address());
  const auto study = Begin(client, request, /*alone=*/true);
  if (!study.ok()) return {{}, Fail(study.status())};
  if (has_worker) {
    if (auto status = service->StartWorker(slots, request.machine, request.engines); !status.ok())
      return {{}, Fail(status)};
  }
  StudyWatcher watcher(service->address(), study->name());
  if (!Follow(watcher, interrupt, request.spec.time_budget_s(), service->address(), !args.json)) {
    watcher.Stop();
    Ended ended = Stopped(
        client, study->name(), "interrupted", kExitInterrupted,
        question.kept
            ? fmt::format("interrupted; {}; the same command resumes it",
                          KeptText(watcher.Latest(), base::BuildId()))
            : std::string("interrupted; nothing is kept; repeat the command, or narrow it with --space"));
    service->Stop();
    return ended;
  }
  Ended ended = ConcludeSearch(args, client, watcher);
  if (ended.answer && ended.stopped.empty())
    ended.rejected = WriteRejected(args.rejected, client, study->name(), interrupt);
  service->Stop();
  if (ended.answer && ended.stopped.empty()) ended.size_note = SizeNote(request, *ended.answer, interrupt);
  return ended;
}

// Ends and deletes a study of a coordinator. A coordinator that does not answer keeps it.
void Forget(StudyClient& client, const std::string& study) {
  const auto known = Patiently(client, [&] { return client.GetStudy(study); });
  // The study may end meanwhile; then there is nothing to cancel.
  if (known.ok() && !server::IsEnd(known->state())) (void)client.CancelStudy(study);
  const absl::Status deleted = known.ok() ? client.DeleteStudy(study) : known.status();
  if (!deleted.ok() && !absl::IsNotFound(deleted))
    Note(fmt::format("study {} remains on the coordinator: {}", LastPart(study), Text(deleted)));
}

// Follows the study of the coordinator to its end.
Ended FollowThere(const SearchArgs& args, const SearchRequest& request, StudyClient& client,
                  const Endpoint& endpoint, const std::string& study, const Interrupt& interrupt) {
  StudyWatcher watcher(endpoint, study, kRemotePatienceSeconds);
  if (!Follow(watcher, interrupt, request.spec.time_budget_s(), args.service.coordinator, !args.json)) {
    watcher.Stop();
    const std::string where = fmt::format("{} --study {}", AsWritten(args.service), LastPart(study));
    return Stopped(
        client, study, "interrupted", kExitInterrupted,
        request.question.kept
            ? fmt::format(
                  "interrupted; the study continues: autocfg watch{0} follows it, autocfg cancel{0} ends it",
                  where)
            : std::string("interrupted; nothing is kept; repeat the command, or narrow it with --space"));
  }
  Ended ended = ConcludeSearch(args, client, watcher);
  if (!request.question.kept && watcher.Latest().state() == v1::STUDY_STATE_PAUSED)
    ended.stopped = fmt::format("the study was paused: {}; repeat the command", watcher.Latest().message());
  if (ended.answer && ended.stopped.empty())
    ended.rejected = WriteRejected(args.rejected, client, study, interrupt);
  return ended;
}

// Runs the search on an existing coordinator and its workers. The study of a prediction is deleted after its
// answer, unless it is to be saved; the op times that it measured stay there.
Ended SearchThere(const SearchArgs& args, SearchRequest& request, PrintedNotes& notes) {
  request.question.kept = args.save || !request.question.predict_only;
  const bool kept = request.question.kept;
  notes.Say(request.question.notes);
  const Interrupt interrupt;
  const auto endpoint = EndpointOf(args.service);
  if (!endpoint.ok()) return {{}, Fail(endpoint.status())};
  StudyClient client(*endpoint);
  const auto study = Begin(client, request, /*alone=*/false, /*shared=*/kept);
  if (!study.ok()) return {{}, Fail(study.status())};
  if (kept) Note(fmt::format("study {} of {}", LastPart(study->name()), args.service.coordinator));
  Ended ended = FollowThere(args, request, client, *endpoint, study->name(), interrupt);
  if (!kept) Forget(client, study->name());
  return ended;
}

}  // namespace

Ended Ask(const SearchArgs& args, SearchRequest& request, const WorkerPool* pool, PrintedNotes& notes) {
  const SearchQuestion& question = request.question;
  const bool there = pool != nullptr && (args.save || !question.predict_only || !IsDescribed(question));
  if (there && !IsDescribed(question)) {
    const auto& workers = pool->workers;
    const auto of_changed = std::find_if(workers.begin(), workers.end(), [](const v1::Worker& worker) {
      return !NoReuseNote("", worker.inventory().build_id()).empty();
    });
    if (of_changed != workers.end())
      AddNoReuseNote(fmt::format("the build of {}", of_changed->name()), of_changed->inventory().build_id(),
                     request);
  }
  return there ? SearchThere(args, request, notes) : SearchHere(args, request, notes);
}

}  // namespace autocfg::cli
