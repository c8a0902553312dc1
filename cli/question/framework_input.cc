#include "cli/question/framework_input.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/inputs.h"
#include "cli/input/option_values.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

absl::Status CheckFrom(const std::string& from) {
  const std::vector<std::string> names = FrameworkNames();
  if (from.empty() || std::find(names.begin(), names.end(), from) != names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("--from: unknown framework '{}'; expected {}",
                                                base::Printable(from), base::ChoiceText(names)));
}

}  // namespace

absl::StatusOr<bool> IsFrameworkInput(const std::string& file, const std::string& from) {
  if (absl::Status status = CheckFrom(from); !status.ok()) return status;
  if (!from.empty()) return true;
  const auto text = ReadTextFile(file);
  if (!text.ok()) return text.status();
  return !FrameworkOf(*text).empty();
}

absl::StatusOr<FrameworkInput> LoadFrameworkInput(const FrameworkInputArgs& args) {
  if (absl::Status status = CheckFrom(args.from); !status.ok()) return status;
  const auto text = ReadTextFile(args.file);
  if (!text.ok()) return text.status();
  const std::string name = std::filesystem::path(args.file).filename().string();
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: it is empty; give the framework's file", base::Printable(name)));
  }
  const std::string framework = args.from.empty() ? std::string(FrameworkOf(*text)) : args.from;
  if (framework.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: its form is that of no framework; name it with --from {}", base::Printable(name),
                    base::ChoiceText(FrameworkNames())));
  }
  ReadingOptions options;
  const auto seq_len = LoadSeqLen(args.seq_len);
  if (!seq_len.ok()) return seq_len.status();
  options.seq_len = *seq_len;
  std::vector<std::string> notes;
  if (!args.model.empty()) {
    auto model = LoadModel(args.model, options.seq_len, notes);
    if (!model.ok()) return model.status();
    options.model = *std::move(model);
  }
  if (!args.vocab.empty()) {
    const auto vocab = ParseWhole("--vocab", args.vocab);
    if (!vocab.ok()) return vocab.status();
    options.vocab = *vocab;
  }
  if (!args.ranks.empty()) {
    const auto ranks = ParseWhole("--ranks", args.ranks);
    if (!ranks.ok()) return ranks.status();
    options.ranks = *ranks;
    if (!args.cluster.empty()) {
      const auto cluster = LoadDescribedCluster(args.cluster);
      if (!cluster.ok()) return cluster.status();
      if (RankCount(*cluster) != *ranks) {
        return absl::InvalidArgumentError(fmt::format(
            "--ranks is {}, and --cluster {} has {}; leave --ranks out, or give a cluster with as many",
            *ranks, cluster->name, RankCount(*cluster)));
      }
    }
  } else if (!args.cluster.empty()) {
    const auto cluster = LoadDescribedCluster(args.cluster);
    if (!cluster.ok()) return cluster.status();
    options.ranks = RankCount(*cluster);
  }
  auto run = ReadFrameworkFile(framework, name, *text, options);
  if (!run.ok()) return run.status();
  if (!args.ranks.empty() && run->ranks != options.ranks) {
    return absl::InvalidArgumentError(
        fmt::format("--ranks is {}, and {} trains on {}; leave --ranks out, or change the file",
                    options.ranks, base::Printable(name), run->ranks));
  }
  run->notes.insert(run->notes.begin(), notes.begin(), notes.end());
  return FrameworkInput{*std::move(run), std::move(options)};
}

BestPlan QuestionOf(const FrameworkRun& run) {
  BestPlan question;
  question.model = run.model;
  question.workload = run.workload;
  question.plan = run.plan;
  question.engine = run.framework;
  question.ranks_per_node = run.ranks_per_node;
  return question;
}

}  // namespace autocfg::cli
