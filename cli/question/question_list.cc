#include "cli/question/question_list.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "cli/input/option_values.h"
#include "fmt/format.h"
#include "search/plan/workload.h"
#include "search/text/cluster_json.h"

namespace autocfg::cli {
namespace {

// An option that takes a list, and the most that a value may be; 0: values are names.
struct ListOption {
  std::string_view name;
  std::string SearchArgs::*value;
  std::int64_t most;
};
constexpr ListOption kListOptions[] = {{"--cluster", &SearchArgs::cluster, 0},
                                       {"--nodes", &SearchArgs::nodes, kMaxNodes},
                                       {"--global-batch", &SearchArgs::global_batch, kMaxGlobalBatch},
                                       {"--seq-len", &SearchArgs::seq_len, kMaxSeqLen}};

// Returns the values that `text` lists; `text` itself if it lists none.
std::vector<std::string> ValuesOf(const ListOption& option, const std::string& text) {
  std::error_code ignored;
  if (option.most == 0 && std::filesystem::exists(text, ignored)) return {text};
  std::vector<std::string> values;
  std::size_t begin = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', begin)) {
    values.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  values.push_back(text.substr(begin));
  return values;
}

absl::Status RepeatedValue(std::string_view option, const std::string& value, const std::string& again) {
  return absl::InvalidArgumentError(fmt::format("{}: {} and {} are the same; list one of them", option,
                                                base::Printable(value), base::Printable(again)));
}

absl::Status CheckList(const ListOption& option, const std::string& text,
                       const std::vector<std::string>& values, bool predict_only) {
  if (values.size() == 1) return absl::OkStatus();
  if (!predict_only) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is a list; add --predict-only, which answers each of its values, or give one",
                    option.name, base::Printable(text)));
  }
  std::vector<std::int64_t> numbers;
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (value->empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} has an empty value; leave it out", option.name, base::Printable(text)));
    }
    if (std::find(values.begin(), value, *value) != value) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} is listed twice; list it once", option.name, base::Printable(*value)));
    }
    if (option.most == 0) continue;
    AUTOCFG_ASSIGN_OR_RETURN(
        const auto number,
        option.value == &SearchArgs::seq_len
            ? ParseWholeWithUnit(option.name, base::Quantity::kSequenceLength, *value, 1, option.most)
            : ParseWhole(option.name, *value, 1, option.most));
    const auto same = std::find(numbers.begin(), numbers.end(), number) - numbers.begin();
    if (same < std::ssize(numbers))
      return RepeatedValue(option.name, values[static_cast<std::size_t>(same)], *value);
    numbers.push_back(number);
  }
  return absl::OkStatus();
}

// Returns the name of a preset with its size, of which `nodes`, if it is a number, replaces the nodes. Empty
// if `cluster` is no preset.
std::string SizedPreset(const std::string& cluster, const std::string& nodes) {
  const auto preset = PresetCluster(cluster);
  if (!preset.ok()) return "";
  const auto name = ParseClusterName(preset->name);
  if (!name.ok()) return "";
  const auto number = ParseWhole("--nodes", nodes, 1, kMaxNodes);
  return fmt::format("{}:{}x{}", name->preset, number.ok() ? *number : name->nodes, name->gpus_per_node);
}

// Refuses names of one preset in the same size. `nodes`: those of --nodes. Any one of them shows it: each
// replaces the nodes of all names.
absl::Status CheckPresets(const std::vector<std::string>& clusters, const std::vector<std::string>& nodes) {
  if (clusters.size() == 1) return absl::OkStatus();
  std::vector<std::string> sized;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    sized.push_back(SizedPreset(clusters[i], nodes.front()));
    if (sized.back().empty()) continue;
    const auto same =
        static_cast<std::size_t>(std::find(sized.begin(), sized.end(), sized.back()) - sized.begin());
    if (same == i) continue;
    if (SizedPreset(clusters[same], "") == SizedPreset(clusters[i], ""))
      return RepeatedValue("--cluster", clusters[same], clusters[i]);
    return absl::InvalidArgumentError(fmt::format(
        "--cluster: {} and {} are the same at each number of --nodes, which replaces theirs; list one of "
        "them, or leave out --nodes",
        base::Printable(clusters[same]), base::Printable(clusters[i])));
  }
  return absl::OkStatus();
}

// Takes the number of nodes into the name of a preset.
void NameSize(SearchArgs& args) {
  if (args.nodes.empty() || !ParseWhole("--nodes", args.nodes, 1, kMaxNodes).ok()) return;
  std::string sized = SizedPreset(args.cluster, args.nodes);
  if (sized.empty()) return;
  args.cluster = std::move(sized);
  args.nodes.clear();
}

}  // namespace

absl::StatusOr<std::vector<SearchArgs>> QuestionsOf(const SearchArgs& args) {
  std::vector<std::vector<std::string>> lists;
  std::size_t count = 1;
  std::string product;
  for (const ListOption& option : kListOptions) {
    const std::string& text = args.*option.value;
    lists.push_back(ValuesOf(option, text));
    AUTOCFG_RETURN_IF_ERROR(CheckList(option, text, lists.back(), args.predict_only));
    // Each list is shorter than the command line, so that four of them may still overflow.
    count = std::min<std::size_t>(count * lists.back().size(), std::size_t{1} << 40);
    if (lists.back().size() > 1)
      product += fmt::format("{}{} of {}", product.empty() ? "" : ", ", lists.back().size(), option.name);
  }
  if (count > kMostQuestions) {
    return absl::InvalidArgumentError(
        fmt::format("the lists make {} questions ({}), and one search answers at most {}; shorten a list",
                    base::CountText(static_cast<std::int64_t>(count)), product, kMostQuestions));
  }
  // In the order of kListOptions.
  AUTOCFG_RETURN_IF_ERROR(CheckPresets(/*clusters=*/lists[0], /*nodes=*/lists[1]));
  std::vector<SearchArgs> questions = {args};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::vector<SearchArgs> longer;
    for (const SearchArgs& question : questions) {
      for (const std::string& value : lists[i]) longer.emplace_back(question).*kListOptions[i].value = value;
    }
    questions = std::move(longer);
  }
  for (SearchArgs& question : questions) NameSize(question);
  return questions;
}

bool IsOfOneQuestion(const absl::Status& status) {
  const std::string subject = base::SubjectOf(status);
  return subject == "workload" || subject == "--global-batch" || subject == "--space";
}

}  // namespace autocfg::cli
