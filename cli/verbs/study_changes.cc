// autocfg pause, resume, update, cancel and delete: change a study, or remove it.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "base/os/host.h"
#include "base/status_macros.h"
#include "cli/client/study_names.h"
#include "cli/input/option_values.h"
#include "cli/input/service_options.h"
#include "cli/study/study_reader.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "proto/client/study_client.h"
#include "proto/short_name.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/store/turns/fair_share.h"
#include "server/studies/study_states.h"

namespace autocfg::cli {
namespace {

struct ChangeArgs {
  ServiceOptions service;
  std::string study;
};

// A change of a study: by a coordinator, or in the database file if no process has it open. Returns how the
// study is then, as the answer says it.
struct StudyChange {
  std::function<absl::StatusOr<std::string>(StudyClient& client, const std::string& name)> remote;
  std::function<absl::StatusOr<std::string>(server::Store& store, const std::string& name)> in_file;
};

absl::StatusOr<std::string> StateAfter(const absl::StatusOr<v1::Study>& study) {
  if (!study.ok()) return study.status();
  return StateText(study->state());
}

using StudyCall = absl::StatusOr<v1::Study> (StudyClient::*)(const std::string& name);

// `in_file`: what the answer says of a change in the database file; null: the study's state.
StudyChange MoveOf(StudyCall call, const server::StudyMove& move, const char* in_file = nullptr) {
  return {
      .remote = [call](StudyClient& client,
                       const std::string& name) { return StateAfter((client.*call)(name)); },
      .in_file =
          [&move, in_file](server::Store& store, const std::string& name) {
            auto after = StateAfter(server::ChangeState(
                store, name, base::RandomId(), absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()), move));
            if (after.ok() && in_file != nullptr) after = std::string(in_file);
            return after;
          }};
}

constexpr const char* kDeleted = "deleted";

StudyChange Deletion() {
  return {.remote = [](StudyClient& client, const std::string& name) -> absl::StatusOr<std::string> {
            AUTOCFG_RETURN_IF_ERROR(client.DeleteStudy(name));
            return kDeleted;
          },
          .in_file = [](server::Store& store, const std::string& name) -> absl::StatusOr<std::string> {
            AUTOCFG_ASSIGN_OR_RETURN(const auto id, server::ParseStudyName(name));
            // This process has the file, so nobody works on the study.
            const auto study = store.GetStudy(id);
            if (study.ok() && study->state() == v1::STUDY_STATE_RUNNING) return InterruptedError(*study);
            AUTOCFG_RETURN_IF_ERROR(store.DeleteStudy(id, base::RandomId()));
            return kDeleted;
          }};
}

absl::StatusOr<std::string> WeightAfter(const absl::StatusOr<v1::Study>& study) {
  if (!study.ok()) return study.status();
  return fmt::format("has weight {:g}", study->weight());
}

StudyChange NewWeight(double weight) {
  return {.remote = [weight](
                        StudyClient& client,
                        const std::string& name) { return WeightAfter(client.SetStudyWeight(name, weight)); },
          .in_file =
              [weight](server::Store& store, const std::string& name) {
                v1::UpdateStudyRequest request;
                request.mutable_study()->set_name(name);
                request.mutable_study()->set_weight(weight);
                return WeightAfter(server::UpdateStudy(store, request));
              }};
}

absl::StatusOr<std::string> ChangeInFile(const std::string& database, const std::string& name,
                                         const StudyChange& change) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto path, server::DatabasePath(database));
  AUTOCFG_ASSIGN_OR_RETURN(auto store, server::OpenSqliteStore(path));
  return change.in_file(*store, name);
}

int RunChange(const ChangeArgs& args, const StudyChange& change) {
  std::string name;
  Endpoint endpoint;
  {
    const auto reader = StudyReader::Open(args.service);
    if (!reader.ok()) return Fail(reader.status());
    const auto study = (*reader)->StudyNamed(args.study);
    if (!study.ok()) return Fail(study.status());
    name = study->name();
    endpoint = (*reader)->endpoint();
  }
  absl::StatusOr<std::string> after;
  if (endpoint.target.empty()) {
    after = ChangeInFile(args.service.database, name, change);
  } else {
    StudyClient client(endpoint);
    after = change.remote(client, name);
  }
  if (!after.ok()) return Fail(after.status());
  return Answer(fmt::format("study {} {}\n", LastPart(name), *after));
}

void AddChangeOptions(CLI::App* verb, ChangeArgs& args) {
  verb->add_option("study,--study", args.study, "the study's number")->required();
  AddServiceOptions(verb, args.service);
}

void AddChange(CLI::App* verb, Verb& chosen, StudyChange change) {
  const auto args = std::make_shared<ChangeArgs>();
  AddChangeOptions(verb, *args);
  verb->callback([args, change = std::move(change), &chosen] {
    chosen = [args, change] { return RunChange(*args, change); };
  });
}

}  // namespace

void AddPause(CLI::App& app, Verb& chosen) {
  AddChange(app.add_subcommand("pause", "pause a study; its running jobs end, its measurements are kept"),
            chosen, MoveOf(&StudyClient::PauseStudy, server::kPauseStudy));
}

void AddResume(CLI::App& app, Verb& chosen) {
  AddChange(app.add_subcommand("resume", "resume a paused study"), chosen,
            MoveOf(&StudyClient::ResumeStudy, server::kResumeStudy,
                   "resumed: it goes on once a server has the database"));
}

void AddUpdate(CLI::App& app, Verb& chosen) {
  struct UpdateArgs : ChangeArgs {
    std::string weight;
  };
  const auto args = std::make_shared<UpdateArgs>();
  CLI::App* verb = app.add_subcommand("update", "change the weight of a study that has not ended");
  AddChangeOptions(verb, *args);
  verb->add_option(
          "--weight", args->weight,
          "the study's share of the workers among your studies, from 0.01 to 100; one of weight 2 gets "
          "twice as much as one of 1")
      ->required();
  verb->callback([args, &chosen] {
    chosen = [args] {
      const auto weight = ParseReal("--weight", args->weight, server::kLeastWeight, server::kMostWeight);
      return weight.ok() ? RunChange(*args, NewWeight(*weight)) : Fail(weight.status());
    };
  });
}

void AddCancel(CLI::App& app, Verb& chosen) {
  AddChange(app.add_subcommand("cancel", "cancel a study; its measurements are kept"), chosen,
            MoveOf(&StudyClient::CancelStudy, server::kCancelStudy));
}

void AddDelete(CLI::App& app, Verb& chosen) {
  AddChange(
      app.add_subcommand("delete", "delete a study that does not run, with its trials and measurements"),
      chosen, Deletion());
}

}  // namespace autocfg::cli
