// Parsers of proto, worker, server and cli.
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>

#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/trainer.pb.h"
#include "base/json_reader.h"
#include "cli/client/study_names.h"
#include "cli/input/option_values.h"
#include "cli/report/evidence.h"
#include "cli/train/checkpoint_run.h"
#include "google/protobuf/text_format.h"
#include "proto/answer/answer_file.h"
#include "proto/answer/answer_json.h"
#include "proto/rank_messages.h"
#include "proto/rpc/address.h"
#include "server/names/names.h"
#include "server/portable/study_file.h"
#include "server/report/report_json.h"
#include "server/report/study_report.h"
#include "server/studies/search_problem.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/support/temp_dir.h"
#include "worker/engines/engine_file.h"
#include "worker/engines/log_reader.h"
#include "worker/engines/log_rules.h"
#include "worker/machine/device_choice.h"
#include "worker/supervisor/orders.h"

namespace autocfg::test {
namespace {

void FuzzEngineFile(std::string_view input) { CheckStatus(worker::ParseEngineFile(input, "/").status()); }

// The rules are the first line, the log is the rest.
void FuzzEngineLog(std::string_view input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const auto json = base::ParseJson("rules", input.substr(0, end));
  if (!CheckStatus(json.status())) return;
  const auto rules = worker::ParseLogRules(*json);
  if (!CheckStatus(rules.status())) return;
  worker::LogReader reader(*rules, {.samples = 8, .tokens = 8192, .ranks = 2});
  const std::string_view log = input.substr(end);
  reader.Add(log.substr(0, log.size() / 2));
  reader.Add(log.substr(log.size() / 2));
  reader.Finish();
  for (const double seconds : reader.TimedSteps(1, 100)) CheckThat(seconds > 0, "a step without a time");
  for (const std::string& shown :
       {reader.out_of_memory(), reader.failure(), reader.peer_lost(), reader.last_line()}) {
    if (!shown.empty()) CheckMessage(shown);
  }
}

void FuzzRankCommand(std::string_view input) {
  const auto command = worker::DecodeRankCommand(input);
  if (!command) return;
  const auto again = worker::DecodeRankCommand(worker::EncodeRankCommand(*command));
  CheckThat(again && again->arguments == command->arguments && again->environment == command->environment &&
                again->foreign == command->foreign && again->directory == command->directory,
            "the code of a command is another command");
}

void FuzzDeviceIndexes(std::string_view input) {
  CheckStatus(worker::ParseIndexes(std::string(input)).status());
}

void FuzzRankMessages(std::string_view input) {
  v1::RunSpec spec;
  spec.mutable_train();
  ResultJoiner joiner(spec);
  // Parts of equal length.
  for (int part = 0; part < 3; ++part) {
    v1::RankMessage message;
    const std::size_t size = input.size() / 3;
    if (!message.ParseFromArray(input.data() + static_cast<std::ptrdiff_t>(size) * part,
                                static_cast<int>(size)))
      return;
    if (!message.has_train_result() && !message.has_calibrate_result()) return;
    if (!CheckStatus(joiner.Add(std::move(message)))) return;
  }
}

void FuzzNames(std::string_view input) {
  const std::string text(input);
  const auto study = server::ParseStudyName(text);
  if (CheckStatus(study.status())) CheckThat(server::StudyName(*study) == text, "another name of a study");
  const auto trial = server::ParseTrialName(text);
  if (CheckStatus(trial.status()))
    CheckThat(server::TrialName(trial->study, trial->number) == text, "another name of a trial");
  const auto job = server::ParseJobName(text);
  if (CheckStatus(job.status()))
    CheckThat(server::JobName(job->study, job->number) == text, "another name of a job");
  CheckStatus(server::CheckWorkerName(text));
  CheckStatus(cli::ParseStudyId(text).status());
}

void FuzzAddress(std::string_view input) { CheckStatus(ParseAddress(std::string(input)).status()); }

void FuzzOptionValues(std::string_view input) {
  CheckStatus(cli::ParseWhole("--n", input).status());
  CheckStatus(cli::ParseSeed("--seed", input).status());
  CheckStatus(cli::ParseReal("--lr", input, 0, 1).status());
  CheckStatus(cli::ParseShare("--share", input).status());
}

void FuzzStudyFile(std::string_view input) {
  static const TempDir directory;
  const std::string path = directory.File("study.jsonl");
  std::ofstream(path, std::ios::binary) << input;
  CheckStatus(server::ReadStudyFile(path).status());
}

void FuzzSearchSpec(std::string_view input) {
  v1::SearchSpec spec;
  google::protobuf::TextFormat::Parser parser;
  const google::protobuf::LogSilencer silent;
  if (!parser.ParseFromString(std::string(input), &spec) && !spec.ParseFromString(std::string(input))) return;
  CheckStatus(server::ParseSearchSpec(spec).status());
}

void FuzzSearchAnswer(std::string_view input) {
  const auto file = ReadAnswerFile(input);
  if (CheckStatus(file.status()) && CheckStatus(file->lacks)) CheckStatus(AnswerJson(file->answer).status());
}
void FuzzEvidence(std::string_view input) {
  const auto file = ReadAnswerFile(input);
  if (CheckStatus(file.status())) CheckStatus(cli::EvidenceOf(*file).status());
}
void FuzzSavedReport(std::string_view input) {
  auto file = ReadAnswerFile(input);
  if (!CheckStatus(file.status()) || !CheckStatus(file->lacks)) return;
  const auto report = server::ReportOf(std::move(file->answer));
  if (CheckStatus(report.status())) CheckStatus(server::PageOf(*report).status());
}
void FuzzManifestRun(std::string_view input) {
  CheckStatus(cli::ParseManifestRun(std::string(input)).status());
}

constexpr FuzzTarget kServiceTargets[] = {
    {"engine_file", FuzzEngineFile, "deploy/engines/megatron.json,deploy/engines/torchtitan.json"},
    {"engine_log", FuzzEngineLog},
    {"rank_command", FuzzRankCommand},
    {"device_indexes", FuzzDeviceIndexes},
    {"rank_messages", FuzzRankMessages},
    {"names", FuzzNames},
    {"address", FuzzAddress},
    {"option_values", FuzzOptionValues},
    {"study_file", FuzzStudyFile},
    {"search_spec", FuzzSearchSpec},
    {"search_answer", FuzzSearchAnswer},
    {"evidence", FuzzEvidence},
    {"saved_report", FuzzSavedReport},
    {"manifest_run", FuzzManifestRun},
};

}  // namespace

std::span<const FuzzTarget> ServiceTargets() { return kServiceTargets; }

}  // namespace autocfg::test
