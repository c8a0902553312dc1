// autocfg search: finds the fastest plan that fits. Uses a coordinator and a worker inside this process, or
// those of --coordinator.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/os/host.h"
#include "base/text.h"
#include "cli/client/study_client.h"
#include "cli/client/worker_client.h"
#include "cli/input/devices.h"
#include "cli/input/files.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/question/answer_notes.h"
#include "cli/question/exportable.h"
#include "cli/question/question_list.h"
#include "cli/question/search_request.h"
#include "cli/report/questions_report.h"
#include "cli/report/report.h"
#include "cli/report/results_json.h"
#include "cli/report/training_report.h"
#include "cli/study/embedded_service.h"
#include "cli/study/kept_op_times.h"
#include "cli/study/progress.h"
#include "cli/study/rejected_file.h"
#include "cli/study/study_watcher.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "search/plan/plan_text.h"
#include "search/question/prediction_json.h"
#include "search/text/cluster_json.h"
#include "search/text/engines.h"
#include "search/text/plan_json.h"
#include "server/store/store.h"
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
absl::StatusOr<v1::Study> Begin(StudyClient& client, const v1::SearchSpec& spec, bool alone,
                                bool shared = true) {
  v1::CreateStudyRequest create;
  create.set_request_id(base::RandomId());
  *create.mutable_spec() = spec;
  create.set_reuse_unfinished(shared);
  auto study = client.CreateStudy(create);
  if (!study.ok()) return study.status();
  if (study->state() != v1::STUDY_STATE_CREATED) {
    Note(fmt::format("resuming study {}, which is not finished; {} plans measured so far",
                     LastPart(study->name()), study->counts().measured()));
  }
  if (alone) {
    const auto others = client.ListStudies();
    if (!others.ok()) return others.status();
    for (const auto& other : *others) {
      if (other.state() != v1::STUDY_STATE_RUNNING || other.name() == study->name()) continue;
      if (const auto paused = client.PauseStudy(other.name()); !paused.ok()) return paused.status();
      Note(fmt::format("study {} is not finished and is paused; run its own command again to resume it",
                       LastPart(other.name())));
    }
  }
  if (study->state() == v1::STUDY_STATE_PAUSED) return client.ResumeStudy(study->name());
  // A RUNNING study may be waiting for its storage; starting it again retries at once.
  return client.StartStudy(study->name());
}

std::string NextCommand(const SearchArgs& args, const v1::Recommendation& answer,
                        const SearchRequest& request) {
  const SearchQuestion& question = request.question;
  if (args.service.remote() && !request.question.predict_only)
    return fmt::format("{} trials{} --study {}", args.program, AsWritten(args.service),
                       LastPart(answer.study()));
  std::string how;
  if (request.asked_device && Computes(*request.asked_device))
    how = fmt::format(" --device {}", Name(*request.asked_device));
  if (!args.output.empty() && ReplaceablePath(args.output).ok() && question.cluster.local)
    return fmt::format("{} train --input {} --steps 10{}", args.program, ShellWord(args.output), how);
  if (!args.output.empty() && IsDescribed(question)) {
    if (const std::string framework = FrameworkFor(answer, question); !framework.empty()) {
      return fmt::format("{} export --input {} --to {}", args.program, ShellWord(args.output), framework);
    }
  }
  const std::string plan = WithShortSplit(answer.best().plan_text());
  const std::string workload = fmt::format("--model {} --global-batch {} --seq-len {} --precision {}",
                                           ShellWord(args.model), question.workload.global_batch,
                                           question.workload.seq_len, Name(question.workload.precision));
  // `explain` takes a cluster as its file describes it, with its own number of nodes.
  if (!args.nodes.empty()) return "";
  if (question.predict_only && IsDescribed(question))
    return fmt::format("{} explain {} --cluster {} --plan {}", args.program, workload,
                       ShellWord(args.cluster), plan);
  if (IsEmulated(question.device)) how = fmt::format(" --device paced --cluster {}", ShellWord(args.cluster));
  // The plan is larger than this machine, whether or not a slice of it was measured.
  const auto& group = question.cluster.groups.front();
  const std::int64_t at_once =
      request.spec.machine_ranks() > 0 ? request.spec.machine_ranks() : group.gpus_per_node;
  if (!question.cluster.local && !IsDescribed(question) && RankCount(question.cluster) > at_once)
    how += " --slice 0,0";
  return fmt::format("{} train {} --plan {} --steps 10{}", args.program, workload, plan, how);
}

int Present(const SearchArgs& args, const v1::Recommendation& answer, const SearchRequest& request) {
  SearchQuestion question = request.question;
  const std::string why = NotExportable(answer, question);
  if (!why.empty()) question.notes.push_back(why);
  auto json = SearchJson(answer, question);
  if (!json.ok()) return Fail(kExitNegative, Text(json.status()));
  const auto training = TrainingOf(request.training, answer, question);
  if (request.training.Asked()) (*json)["training"] = training ? TrainingJson(*training) : nullptr;
  const bool found = answer.nothing_fits().empty();
  if (!args.output.empty()) {  // written even if nothing fits, so that no older plan stays in the file
    if (auto status = WriteFileAtomically(args.output, json->dump(2) + "\n"); !status.ok()) {
      const std::string where =
          question.kept ? fmt::format("; the answer is in study {} of the database", LastPart(answer.study()))
                        : "";
      return Fail(kExitNegative, fmt::format("--output: {}{}", Text(status), where));
    }
  }
  const std::string text = args.json ? json->dump(2) + "\n"
                                     : SearchReport(answer, question, NextCommand(args, answer, request),
                                                    TrainingText(training), args.pareto);
  if (const int code = Answer(text); code != kExitDone) return code;
  if (!why.empty()) Note(why + " (docs/export.md says how to narrow --space)");
  if (!found) return Fail(kExitNegative, fmt::format("nothing fits: {}", answer.nothing_fits()));
  return kExitDone;
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
      display.Draw(ProgressLines(latest, watcher.Running(), elapsed.count(), budget_s, display.Style()));
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

// Outcome of a study: its recommendation, or the exit code.
struct Ended {
  std::optional<v1::Recommendation> answer;
  int exit_code = kExitDone;
  TrialEnds trials = {};
  // Why the study was stopped before its end, and how to go on; empty if it came to its end. The answer is
  // then the best so far, if there is one.
  std::string stopped = {};
  absl::Status rejected = absl::OkStatus();  // of writing the file of --rejected
  std::string batch_note = {};               // on an awkward global batch; empty: none
};

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

int PresentEnded(const SearchArgs& args, const Ended& ended, SearchRequest& request) {
  if (!ended.stopped.empty()) {
    if (ended.answer) {
      request.question.notes.push_back(fmt::format("the best so far: {}", ended.stopped));
      if (const int code = Present(args, *ended.answer, request); code != kExitDone) return code;
    }
    return Fail(ended.exit_code, ended.stopped);
  }
  if (!ended.answer) return ended.exit_code;
  const TrialEnds& trials = ended.trials;
  const std::string see =
      fmt::format("autocfg trials{} --study {}", AsWritten(args.service), LastPart(ended.answer->study()));
  if (trials.without_answer > 0) {
    request.question.notes.push_back(fmt::format("{}; see {}", TextOf(trials), see));
    Note(request.question.notes.back());
  }
  if (trials.answered == 0 && trials.without_answer > 0) {
    const int code = Present(args, *ended.answer, request);
    return code != kExitDone
               ? code
               : Fail(kExitNegative,
                      fmt::format("no trial gave an answer, so the best plan is by prediction only; see {}",
                                  see));
  }
  if (const std::string& left_out = ended.answer->left_out(); !left_out.empty()) {
    request.question.notes.push_back(left_out);
    Note(left_out);
  }
  std::vector<std::string> notes = IdleValueNotes(request.spec, *ended.answer);
  if (!ended.batch_note.empty()) notes.push_back(ended.batch_note);
  for (std::string& note : notes) {
    Note(note);
    request.question.notes.push_back(std::move(note));
  }
  if (std::string note = StopNote(*ended.answer, request.spec.time_budget_s(), request.spec.max_trials());
      !note.empty()) {
    Note(note);
    request.question.notes.push_back(std::move(note));
  }
  return Present(args, *ended.answer, request);
}

// Prints notes, each once.
class Notes {
 public:
  void Say(const std::string& note) {
    if (said_.insert(note).second) Note(note);
  }
  void Say(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) Say(note);
  }

 private:
  std::set<std::string> said_;
};

// Answers a prediction of this machine from the op times that earlier searches have kept: without a study,
// and without the database's lock. Returns nothing if some must be measured, or a study is asked for.
std::optional<Ended> PredictFromKept(const SearchArgs& args, SearchRequest& request, Notes& notes) {
  SearchQuestion& question = request.question;
  const bool may = question.predict_only && question.cluster.local && !args.save && args.rejected.empty();
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

// Returns the note on an awkward batch of a prediction that took little time, within as much time again.
std::string BatchNote(const SearchRequest& request, const v1::Recommendation& answer,
                      const Interrupt& interrupt) {
  const double budget_s = request.spec.time_budget_s();
  const double most_s =
      budget_s > 0 ? std::min(kSecondPlanningSeconds, budget_s - answer.wall_s()) : kSecondPlanningSeconds;
  if (!request.question.predict_only || !IsDescribed(request.question) || answer.wall_s() > most_s) return "";
  const auto began = std::chrono::steady_clock::now();
  return EvenBatchNote(request.spec, answer, [&](const PlanningProgress&) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
    return !interrupt.requested() && elapsed.count() < most_s;
  });
}

// Starts the coordinator on the database. With `patient`, waits a while for another process that uses it.
absl::StatusOr<std::unique_ptr<EmbeddedService>> StartOn(const std::string& database, bool patient,
                                                         const Interrupt& interrupt) {
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    auto service = EmbeddedService::Start(database);
    const bool in_use = absl::IsFailedPrecondition(service.status()) &&
                        Text(service.status()).find("is in use by") != std::string::npos;
    if (!in_use || !patient || interrupt.requested() ||
        std::chrono::steady_clock::now() - began > kDatabasePatience)
      return service;
    std::this_thread::sleep_for(kDatabaseAgain);
  }
}

// Runs the search with a coordinator and a worker inside this process.
Ended SearchHere(const SearchArgs& args, SearchRequest& request, Notes& notes) {
  const auto database = server::DatabasePath(args.service.database);
  if (!database.ok()) return {{}, Fail(database.status())};
  if (auto known = PredictFromKept(args, request, notes)) return *std::move(known);
  // A prediction by figures needs nothing of the database, and others may be asked at the same time.
  request.question.kept = args.save || !request.question.predict_only || !IsDescribed(request.question);
  const SearchQuestion& question = request.question;
  const std::int64_t slots = RanksAtOnce(request);
  if (!IsDescribed(question)) {
    for (std::string& note : LoadNotes(request, slots)) request.question.notes.push_back(std::move(note));
  }
  notes.Say(question.notes);

  const Interrupt interrupt;
  auto started = question.kept ? StartOn(*database, args.save, interrupt) : EmbeddedService::StartInMemory();
  if (!started.ok()) return {{}, Fail(kExitUsage, fmt::format("--db: {}", Text(started.status())))};
  const auto service = *std::move(started);
  StudyClient client(service->address());
  const auto study = Begin(client, request.spec, /*alone=*/true);
  if (!study.ok()) return {{}, Fail(study.status())};
  if (IsEmulated(question.device) || !IsDescribed(question)) {
    if (auto status = service->StartWorker(slots, request.machine); !status.ok()) return {{}, Fail(status)};
  }
  StudyWatcher watcher(service->address(), study->name());
  if (!Follow(watcher, interrupt, request.spec.time_budget_s(), service->address(), !args.json)) {
    watcher.Stop();
    Ended ended = Stopped(
        client, study->name(), "interrupted", kExitInterrupted,
        question.kept
            ? fmt::format("interrupted; study {} keeps its measurements, and the same command resumes it",
                          LastPart(study->name()))
            : std::string("interrupted; nothing is kept; repeat the command, or narrow it with --space"));
    service->Stop();
    return ended;
  }
  Ended ended = ConcludeSearch(args, client, watcher);
  if (ended.answer && ended.stopped.empty())
    ended.rejected = WriteRejected(args.rejected, client, study->name(), interrupt);
  service->Stop();
  if (ended.answer && ended.stopped.empty()) ended.batch_note = BatchNote(request, *ended.answer, interrupt);
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
                  const std::string& study, const Interrupt& interrupt) {
  StudyWatcher watcher(args.service.coordinator, study, kRemotePatienceSeconds);
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
Ended SearchThere(const SearchArgs& args, SearchRequest& request, Notes& notes) {
  request.question.kept = args.save || !request.question.predict_only;
  const bool kept = request.question.kept;
  notes.Say(request.question.notes);
  const Interrupt interrupt;
  StudyClient client(args.service.coordinator);
  const auto study = Begin(client, request.spec, /*alone=*/false, /*shared=*/kept);
  if (!study.ok()) return {{}, Fail(study.status())};
  if (kept) Note(fmt::format("study {} of {}", LastPart(study->name()), args.service.coordinator));
  Ended ended = FollowThere(args, request, client, study->name(), interrupt);
  if (!kept) Forget(client, study->name());
  return ended;
}

// Answers the question where it belongs: on the coordinator, if there is one and it is about its workers, or
// keeps the study; else in this process. `pool`: the coordinator's workers; null without one.
Ended Ask(const SearchArgs& args, SearchRequest& request, const WorkerPool* pool, Notes& notes) {
  const SearchQuestion& question = request.question;
  const bool there = pool != nullptr && (args.save || !question.predict_only || !IsDescribed(question));
  return there ? SearchThere(args, request, notes) : SearchHere(args, request, notes);
}

// Returns kExitDone if --output can be written; prints an error otherwise.
int CheckOutput(const SearchArgs& args) {
  if (args.output.empty()) return kExitDone;
  const auto status = CheckWritable(args.output);
  return status.ok() ? kExitDone : Fail(kExitUsage, fmt::format("--output: {}", Text(status)));
}

// Returns what distinguishes the question. Of a wrong question, numbers that its options lack are empty.
Asked AskedOf(const SearchArgs& args, const absl::StatusOr<SearchRequest>& request) {
  Asked asked{.cluster = args.cluster};
  if (request.ok()) {
    asked.nodes = request->question.cluster.groups.front().nodes;
    asked.seq_len = request->question.workload.seq_len;
    asked.global_batch = request->question.workload.global_batch;
    return asked;
  }
  const auto number = [](const std::string& text) -> std::optional<std::int64_t> {
    const auto value = ParseWhole("", text);
    return value.ok() ? std::optional(*value) : std::nullopt;
  };
  asked.nodes = number(args.nodes);
  if (const auto name = ParseClusterName(args.cluster); !asked.nodes && name.ok() && name->nodes > 0)
    asked.nodes = name->nodes;
  asked.seq_len = number(args.seq_len);
  asked.global_batch = number(args.global_batch).value_or(0);
  return asked;
}

// Answers one question after the other. Bad input of any question ends the search before the first.
int SearchEach(const std::vector<SearchArgs>& questions, const WorkerPool* pool) {
  std::vector<absl::StatusOr<SearchRequest>> requests;
  TrainingTerms terms;  // the same of all
  bool any = false;
  for (const SearchArgs& args : questions) {
    const auto& request = requests.emplace_back(LoadSearch(args, pool));
    if (!request.ok() && !IsOfOneQuestion(request.status())) return Fail(request.status());
    if (!request.ok()) continue;
    any = true;
    terms = request->training;
  }
  if (!any) return Fail(requests.front().status());
  const SearchArgs& first = questions.front();
  if (const int code = CheckOutput(first); code != kExitDone) return code;
  Notes notes;
  std::vector<AnsweredQuestion> answers;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    AnsweredQuestion& entry = answers.emplace_back(AnsweredQuestion{AskedOf(questions[i], requests[i])});
    if (!requests[i].ok()) {
      entry.wrong = Text(requests[i].status());
      continue;
    }
    Ended ended = Ask(questions[i], *requests[i], pool, notes);
    if (!ended.stopped.empty()) return Fail(ended.exit_code, ended.stopped);
    if (!ended.answer) return ended.exit_code;
    entry.question = std::move(requests[i]->question);
    if (const std::string& left_out = ended.answer->left_out(); !left_out.empty()) {
      entry.question.notes.push_back(left_out);
      notes.Say(left_out);
    }
    entry.answer = std::move(ended.answer);
  }
  const auto json = QuestionsJson(answers, terms);
  if (!json.ok()) return Fail(kExitNegative, Text(json.status()));
  if (!first.output.empty()) {
    if (auto status = WriteFileAtomically(first.output, json->dump(2) + "\n"); !status.ok())
      return Fail(kExitNegative, fmt::format("--output: {}", Text(status)));
  }
  if (const int code = Answer(first.json ? json->dump(2) + "\n" : QuestionsReport(answers, terms));
      code != kExitDone)
    return code;
  const auto has_plan = [](const AnsweredQuestion& entry) { return entry.HasPlan(); };
  if (std::any_of(answers.begin(), answers.end(), has_plan)) return kExitDone;
  return Fail(kExitNegative, fmt::format("none of the {} questions has a plan: {}", answers.size(),
                                         answers.front().Reason()));
}

int RunSearch(const SearchArgs& given) {
  if (auto status = CheckServiceOptions(given.service); !status.ok()) return Fail(status);
  const auto questions = QuestionsOf(given);
  if (!questions.ok()) return Fail(questions.status());
  std::optional<WorkerPool> pool;
  if (given.service.remote()) {
    auto listed = ListPool(given.service);
    if (!listed.ok()) return Fail(listed.status());
    pool = *std::move(listed);
  }
  if (questions->size() > 1 && !given.rejected.empty()) {
    return Fail(kExitUsage,
                fmt::format("--rejected: it is a file of one question, and the lists make {}; ask one",
                            questions->size()));
  }
  if (questions->size() > 1) return SearchEach(*questions, pool ? &*pool : nullptr);
  const SearchArgs& args = questions->front();
  auto request = LoadSearch(args, pool ? &*pool : nullptr);
  if (!request.ok()) return Fail(request.status());
  if (const int code = CheckOutput(args); code != kExitDone) return code;
  if (const int code = CheckRejected(args.rejected, args.output); code != kExitDone) return code;
  Notes notes;
  const Ended ended = Ask(args, *request, pool ? &*pool : nullptr, notes);
  return EndOfRejected(PresentEnded(args, ended, *request), ended.rejected);
}

}  // namespace

void AddSearch(CLI::App& app, Verb& chosen, const std::string& program) {
  CLI::App* verb =
      app.add_subcommand("search", "find the fastest plan that fits, by measuring or by prediction alone");
  const auto args = std::make_shared<SearchArgs>();
  args->program = program;
  verb->add_option("--model", args->model, "a preset, or a model's JSON file");
  verb->add_option("--cluster", args->cluster,
                   "local, local:1xRANKS, a preset with its size such as a100-80gb-sxm:64x8, or a file")
      ->capture_default_str();
  verb->add_option("--nodes", args->nodes, "nodes, in place of the number of --cluster");
  verb->add_option("--global-batch", args->global_batch, "sequences per step");
  verb->add_option("--seq-len", args->seq_len,
                   "tokens per sequence, such as 8192 or 8k (k is 1024; default: the model's max_seq_len)");
  verb->add_option("--precision", args->precision,
                   "fp32 (default on the CPU) or fp64; on GPUs bf16 (default) or fp32; for predicted and "
                   "emulated clusters also bf16 (default) and fp16; with --predict-only also fp8");
  verb->add_option(
          "--space", args->space,
          "AXIS=V1,V2: only these values of tp, pp, dp, mbs, vpp, schedule, split, recompute, ...; ranges "
          "as in \"tp<=4\" (also >=, <, >), mbs=1-4, recompute=full:*; repeatable")
      ->allow_extra_args(false);
  verb->footer(
      "With --predict-only, --cluster, --nodes, --global-batch and --seq-len take lists, such as --nodes "
      "1,2,4.\n"
      "Each combination is answered, at most " +
      fmt::to_string(kMostQuestions) + ".\n\nAxes of --space, which are the options of a plan:\n" +
      PlanOptionsHelp());
  verb->add_option("--engine", args->engine,
                   fmt::format("whose training step is predicted, with --predict-only: {}; default {}",
                               base::ChoiceText(EngineNames()), kOwnEngine));
  verb->add_option(
      "--memory-margin", args->memory_margin,
      "the share of a rank's memory that a plan must leave free to fit, such as 5% (default; 0 on "
      "local) or 0.05; 0 for none");
  verb->add_flag("--exhaustive", args->exhaustive, "measure every plan that fits");
  verb->add_option("--max-trials", args->max_trials, "measure at most this many plans");
  verb->add_option("--time-budget", args->time_budget,
                   "such as 90s, 10m, 2h or 1h30m; a bare number is seconds");
  verb->add_option("--device", args->device,
                   "auto (a GPU where one can be used, else the CPU), cpu, cuda, or paced (emulates "
                   "--cluster on this machine)");
  verb->add_option("--output", args->output, "write the answer here as JSON, for train --input");
  verb->add_option("--rejected", args->rejected,
                   "write the plans that are illegal or do not fit here as CSV, each with its reason");
  verb->add_flag("--pareto", args->pareto,
                 "also print the plans that no other beats in both step time and memory");
  verb->add_flag("--json", args->json, "the answer as JSON");
  verb->add_flag("--predict-only", args->predict_only,
                 "measure nothing; find the fastest plan by prediction, for any cluster");
  verb->add_flag("--save", args->save,
                 "keep the study of --predict-only in the database; of local, one is kept anyway if op times "
                 "had to be measured");
  AddTrainingOptions(verb, args->training);
  AddServiceOptions(verb, args->service);
  verb->callback([args, &chosen] { chosen = [args] { return RunSearch(*args); }; });
}

}  // namespace autocfg::cli
