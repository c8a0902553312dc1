#include "cli/question/question_list.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

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

absl::Status CheckList(const ListOption& option, const std::string& text,
                       const std::vector<std::string>& values, bool predict_only) {
  if (values.size() == 1) return absl::OkStatus();
  if (!predict_only) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is a list; add --predict-only, which answers each of its values, or give one",
                    option.name, base::Printable(text)));
  }
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
    const auto number =
        option.value == &SearchArgs::seq_len
            ? ParseWholeWithUnit(option.name, base::Quantity::kSequenceLength, *value, 1, option.most)
            : ParseWhole(option.name, *value, 1, option.most);
    if (!number.ok()) return number.status();
  }
  return absl::OkStatus();
}

// Takes the number of nodes into the name of a preset.
void NameSize(SearchArgs& args) {
  if (args.nodes.empty() || !ParseWhole("--nodes", args.nodes, 1, kMaxNodes).ok()) return;
  const auto cluster = PresetCluster(args.cluster);
  if (!cluster.ok()) return;
  const auto name = ParseClusterName(cluster->name);
  if (!name.ok()) return;
  args.cluster = fmt::format("{}:{}x{}", name->preset, args.nodes, name->gpus_per_node);
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
    if (auto status = CheckList(option, text, lists.back(), args.predict_only); !status.ok()) return status;
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
