// Programs broken at every place: each is refused, unless something else makes sure of what was taken away.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/search/schedule/programs.h"

namespace autocfg {
namespace {

using test::Erase;
using test::Interleaved;
using test::Make;
using test::Text;

std::vector<Program> SomePrograms() {
  std::vector<Program> programs;
  programs.push_back(Make(1, 3, 1, 4));
  programs.push_back(Make(2, 2, 2, 3, Schedule::kGPipe));
  programs.push_back(Make(1, 3, 1, 4, Schedule::kZeroBubbleH1));
  programs.push_back(Make(1, 2, 2, 5, Schedule::kZeroBubbleH1));
  programs.push_back(Interleaved(2, 2, 1, 4));
  programs.push_back(Interleaved(3, 2, 1, 6));
  programs.push_back(Interleaved(4, 3, 1, 8));
  return programs;
}

// Applies `change` to a copy of every action's list of each program and expects the outcome to be refused.
void ExpectRefused(const std::function<bool(RankProgram&, std::size_t)>& change) {
  int changed = 0;
  for (const Program& program : SomePrograms()) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < program.ranks[rank].size(); ++i) {
        Program broken = program;
        if (!change(broken.ranks[rank], i)) continue;
        ++changed;
        EXPECT_EQ(ValidateProgram(broken).code(), absl::StatusCode::kFailedPrecondition)
            << "rank " << rank << ", " << ToString(program.ranks[rank][i]) << " of "
            << Text(program.ranks[rank]);
      }
    }
  }
  EXPECT_GT(changed, 200);
}

TEST(BrokenAnywhere, Dropped) {
  ExpectRefused([](RankProgram& list, std::size_t i) {
    Erase(list, ToString(list[i]));
    return true;
  });
}

TEST(BrokenAnywhere, Doubled) {
  ExpectRefused([](RankProgram& list, std::size_t i) {
    list.push_back(list[i]);
    return true;
  });
}

TEST(BrokenAnywhere, WrongPeer) {
  ExpectRefused([](RankProgram& list, std::size_t i) {
    ++list[i].peer;
    return true;
  });
}

// The labels of an action and the next one of its kind change places.
TEST(BrokenAnywhere, Exchanged) {
  ExpectRefused([](RankProgram& list, std::size_t i) {
    const auto other = std::find_if(list.begin() + static_cast<std::ptrdiff_t>(i) + 1, list.end(),
                                    [&](const Action& a) { return a.kind == list[i].kind; });
    if (other == list.end()) return false;
    std::swap(list[i].stage, other->stage);
    std::swap(list[i].microbatch, other->microbatch);
    return true;
  });
}

// Whether `later` comes to its end after `earlier` by lanes and `after` alone: a plain search, in the place
// of the validator's clocks.
bool Waits(const RankProgram& list, std::int32_t later, std::int32_t earlier) {
  std::vector<bool> seen(list.size());
  std::vector<std::int32_t> open = {later};
  while (!open.empty()) {
    const std::int32_t at = open.back();
    open.pop_back();
    if (at == earlier) return true;
    if (seen[static_cast<std::size_t>(at)]) continue;
    seen[static_cast<std::size_t>(at)] = true;
    const Action& action = list[static_cast<std::size_t>(at)];
    open.insert(open.end(), action.after.begin(), action.after.end());
    for (std::int32_t i = at - 1; i >= 0; --i) {
      if (list[static_cast<std::size_t>(i)].lane != action.lane) continue;
      open.push_back(i);
      break;
    }
  }
  return false;
}

// Everything that Lower writes in `after` is needed: what is left out is refused, but where something else
// makes sure of it.
TEST(BrokenAnywhere, NotAwaited) {
  int refused = 0, implied = 0;
  for (const Program& program : SomePrograms()) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < program.ranks[rank].size(); ++i) {
        for (const std::int32_t after : program.ranks[rank][i].after) {
          Program broken = program;
          RankProgram& list = broken.ranks[rank];
          std::erase(list[i].after, after);
          const bool still = Waits(list, static_cast<std::int32_t>(i), after);
          EXPECT_EQ(ValidateProgram(broken).ok(), still)
              << "rank " << rank << ", " << ToString(list[i]) << " without " << after << " in " << Text(list);
          ++(still ? implied : refused);
        }
      }
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(implied, 0);
}

}  // namespace
}  // namespace autocfg
