// How Megatron-LM's flags divide the layers among stages. Source: as of megatron_reader.cc.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/megatron/megatron.h"

namespace autocfg {
namespace {

constexpr std::size_t kMostLayoutStages = 100'000;

// Expands "Et*2|(t|)*3tL" to a letter a layer. Returns nothing for another form, or one that is too long.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}
  std::optional<std::string> Read() {
    std::string all = Sequence(0);
    if (wrong_ || at_ != text_.size()) return std::nullopt;
    return all;
  }

 private:
  std::string Sequence(int depth) {
    std::string all;
    while (at_ < text_.size() && text_[at_] != ')' && !wrong_) {
      std::string item;
      const char c = text_[at_++];
      if (c == ',') continue;
      if (c == '(' && depth < 16) {
        item = Sequence(depth + 1);
        if (at_ >= text_.size()) wrong_ = true;
        ++at_;
      } else if (c == 'E' || c == 't' || c == 'L' || c == '|' || c == 'm') {
        item = c;
      } else {
        wrong_ = true;
      }
      std::size_t times = 1;
      if (at_ + 1 < text_.size() && text_[at_] == '*') {
        times = 0;
        for (++at_; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && times < kMostLayoutStages;
             ++at_)
          times = 10 * times + static_cast<std::size_t>(text_[at_] - '0');
      }
      if (times * item.size() + all.size() > 10 * kMostLayoutStages) wrong_ = true;
      for (std::size_t i = 0; i < times && !wrong_; ++i) all += item;
    }
    return all;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool wrong_ = false;
};

constexpr std::string_view kFirst = "--decoder-first-pipeline-num-layers";
constexpr std::string_view kLast = "--decoder-last-pipeline-num-layers";
constexpr std::string_view kEmbedding = "--account-for-embedding-in-pipeline-split";
constexpr std::string_view kLoss = "--account-for-loss-in-pipeline-split";

// Returns the layers, and those that embedding and loss count as.
std::int64_t CountedLayers(SettingReader& read, const RunDraft& run) {
  return run.model.layers + (read.Flag(kEmbedding) ? 1 : 0) + (read.Flag(kLoss) ? 1 : 0);
}

// Returns the layers of each pipeline rank; none if they do not divide.
std::vector<std::int64_t> LayersOfRanks(const Setting& any, SettingReader& read, const RunDraft& run) {
  const std::int64_t pp = run.plan.pp, first = read.Whole(kFirst, 0), last = read.Whole(kLast, 0);
  const std::int64_t middle = pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0),
                     left = CountedLayers(read, run) - first - last;
  if (left < middle || (middle == 0 ? left != 0 : left % middle != 0)) {
    read.Fail(any, fmt::format("leaves {} layers for {} stages; change one of them", left, middle));
    return {};
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(pp), middle > 0 ? left / middle : 0);
  if (first > 0) layers.front() = first;
  if (last > 0) layers.back() = last;
  return layers;
}

// Stages of which the first or the last has another size (get_num_layers_to_build).
void ReadUnevenEnds(SettingReader& read, RunDraft& run) {
  const Setting* sized = read.Known(kFirst);
  if (const Setting* last = read.Known(kLast); sized == nullptr) sized = last;
  const Setting* counted = read.Flag(kEmbedding) ? read.Find(kEmbedding) : nullptr;
  if (const bool loss = read.Flag(kLoss); loss && counted == nullptr) counted = read.Find(kLoss);
  if (run.plan.pp == 1 || run.plan.pp > run.model.layers || (sized == nullptr && counted == nullptr)) return;
  if (sized != nullptr && counted != nullptr)
    return read.FailAgainst(*sized, *counted, "; leave one of them");
  const Setting& any = sized != nullptr ? *sized : *counted;
  const std::vector<std::int64_t> of_ranks = LayersOfRanks(any, read, run);
  std::vector<std::int64_t> stages;
  for (std::int64_t chunk = 0; chunk < run.plan.virtual_stages; ++chunk) {
    for (const std::int64_t layers : of_ranks) {
      if (layers % run.plan.virtual_stages != 0) {
        read.Fail(any, fmt::format("makes a rank of {} layers, which do not divide by its {} virtual stages; "
                                   "change one of them",
                                   layers, run.plan.virtual_stages));
        return;
      }
      stages.push_back(layers / run.plan.virtual_stages);
    }
  }
  if (stages.empty()) return;
  if (read.Flag(kEmbedding)) --stages.front();
  if (read.Flag(kLoss)) --stages.back();
  SetStages(std::move(stages), run);
}

}  // namespace

void ReadPipelineLayout(const Setting& layout, SettingReader& read, RunDraft& run) {
  const auto letters =
      LayoutReader(layout.values.size() == 1 ? std::string_view(layout.values.front()) : "").Read();
  if (!letters || letters->empty()) {
    read.Fail(layout, "is no layout; give one such as Et*4|t*4L");
    return;
  }
  std::vector<std::int64_t> stages = {0};
  for (const char c : *letters) {
    if (c == '|') stages.push_back(0);
    if (c == 't') ++stages.back();
  }
  const bool ends = letters->front() == 'E' && letters->back() == 'L' &&
                    std::count(letters->begin(), letters->end(), 'E') == 1 &&
                    std::count(letters->begin(), letters->end(), 'L') == 1;
  if (!ends || letters->find('m') != std::string::npos ||
      std::find(stages.begin(), stages.end(), 0) != stages.end()) {
    read.Fail(layout,
              "cannot be read: each stage needs a layer, the first the embedding, the last the loss; "
              "give such a layout");
    return;
  }
  const auto count = static_cast<std::int64_t>(stages.size());
  if (count % run.plan.pp != 0) {
    read.Fail(layout, fmt::format("has {} stages, which do not divide by pp={}; change one of them", count,
                                  run.plan.pp));
    return;
  }
  run.plan.virtual_stages = count / run.plan.pp;
  SetStages(std::move(stages), run);
}

void ReadMegatronStages(SettingReader& read, RunDraft& run) {
  constexpr std::string_view kPerRank = "--num-virtual-stages-per-pipeline-rank";
  const Setting* given = nullptr;
  for (const std::string_view name : {megatron::kLayout, megatron::kLayersPerStage, kPerRank}) {
    const Setting* setting = read.Known(name);
    if (setting == nullptr) continue;
    if (given != nullptr) {
      read.FailAgainst(*setting, *given, ": both say the stages; leave one of them");
      return;
    }
    given = setting;
  }
  const std::int64_t per_stage = read.Whole(megatron::kLayersPerStage, 0), per_rank = read.Whole(kPerRank, 1);
  run.plan.virtual_stages = 1;
  if (given != nullptr && given->name == megatron::kLayout) {
    ReadPipelineLayout(*given, read, run);
  } else if (per_stage > 0) {
    if (const Setting* sized = read.Has(kFirst) ? read.Find(kFirst) : read.Find(kLast)) {
      read.FailAgainst(*given, *sized, fmt::format("; say the virtual stages by {}", kPerRank));
      return;
    }
    const std::int64_t layers = CountedLayers(read, run), of_rank = layers / run.plan.pp;
    if (layers % run.plan.pp != 0 || of_rank % per_stage != 0) {
      read.Fail(
          *given,
          fmt::format("is {}, which does not divide the {} layers of {} pipeline ranks; change one of them",
                      per_stage, layers, run.plan.pp));
      return;
    }
    run.plan.virtual_stages = of_rank / per_stage;
  } else {
    run.plan.virtual_stages = per_rank;
  }
  if (run.plan.pp == 1) run.plan.virtual_stages = 1;
  constexpr std::string_view kGroup = "--microbatch-group-size-per-virtual-pipeline-stage";
  if (const std::int64_t group = read.Whole(kGroup, run.plan.pp);
      run.plan.virtual_stages > 1 && group != run.plan.pp) {
    read.Fail(*read.Find(kGroup),
              fmt::format("is {}; only the number of pipeline ranks, {}, can be read", group, run.plan.pp));
  }
  SetDependentDefaults(run.plan);
  const bool plain = read.Flag(megatron::kPlainMessages);
  run.plan.p2p_overlap = run.plan.virtual_stages > 1 && !plain;
  if (given == nullptr || given->name != megatron::kLayout) ReadUnevenEnds(read, run);
}

}  // namespace autocfg
