// Programs for tests, and what takes them apart.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "search/plan/legality.h"
#include "search/plan/model_stages.h"
#include "search/schedule/program.h"

namespace autocfg::test {

// A model with one layer a stage.
inline ModelSpec ModelOfStages(const ParallelPlan& plan, bool tied = true) {
  ModelSpec model{.layers = StageCount(plan), .hidden = 16, .heads = 4, .vocab = 32, .tied_embeddings = tied};
  FillDefaults(model);
  return model;
}

// Requires a legal plan.
inline Program Make(const ParallelPlan& plan, std::int64_t microbatches, bool tied = true) {
  const ModelSpec model = ModelOfStages(plan, tied);
  const Workload workload{.global_batch = plan.dp * microbatches, .seq_len = 8, .precision = {}};
  EXPECT_FALSE(FindIllegality({model, workload, plan}, RankCount(plan)));
  return Lower({model, workload, plan});
}

inline Program Make(std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t microbatches,
                    Schedule schedule = Schedule::kOneFOneB, bool tied = true) {
  return Make({{.tp = tp, .pp = pp, .dp = dp}, {}, {.schedule = schedule}}, microbatches, tied);
}

inline Program Interleaved(std::int64_t pp, std::int64_t virtual_stages, std::int64_t dp,
                           std::int64_t microbatches, std::int64_t tp = 1, bool overlap = false) {
  return Make({{.tp = tp, .pp = pp, .dp = dp},
               {},
               {.virtual_stages = virtual_stages, .schedule = Schedule::kInterleaved},
               {.p2p_overlap = overlap}},
              microbatches);
}

// "0F2@2,5": the action, and the indices of what it waits for.
inline std::string Text(const RankProgram& list) {
  std::string text;
  for (const Action& action : list) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " ", ToString(action),
                        action.after.empty() ? "" : "@", fmt::join(action.after, ","));
  }
  return text;
}

// The same plan, whose messages overlap.
inline ParallelPlan Overlapping(ParallelPlan plan) {
  plan.p2p_overlap = true;
  return plan;
}

inline std::int32_t Find(const RankProgram& list, const std::string& text) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (ToString(list[i]) == text) return static_cast<std::int32_t>(i);
  }
  ADD_FAILURE() << text << " is not in " << Text(list);
  return 0;
}

// Takes an action out, and its index out of what the others wait for.
inline void Erase(RankProgram& list, const std::string& text) {
  const std::int32_t gone = Find(list, text);
  list.erase(list.begin() + gone);
  for (Action& action : list) {
    std::erase(action.after, gone);
    for (std::int32_t& after : action.after) after -= after > gone ? 1 : 0;
  }
}

// Moves an action to another place in the list; everything goes on waiting for what it waited for.
inline void Move(RankProgram& list, const std::string& text, std::int32_t to) {
  const std::int32_t from = Find(list, text);
  std::vector<std::int32_t> order(list.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  RankProgram moved;
  for (const std::int32_t i : order) moved.push_back(list[static_cast<std::size_t>(i)]);
  for (Action& action : moved) {
    for (std::int32_t& after : action.after) {
      after = static_cast<std::int32_t>(std::find(order.begin(), order.end(), after) - order.begin());
    }
  }
  list = moved;
}

inline Action& At(RankProgram& list, const std::string& text) {
  return list[static_cast<std::size_t>(Find(list, text))];
}

}  // namespace autocfg::test
