#include "worker/launcher/failure_verdict.h"

#include <gtest/gtest.h>

#include <vector>

namespace autocfg::worker {
namespace {

v1::RankError ErrorOf(const std::string& code) {
  v1::RankError error;
  error.set_code(code);
  return error;
}

TEST(RankError, EveryCodeHasItsMeaning) {
  struct Meaning {
    const char* code;
    v1::Outcome outcome;
    v1::FailureKind kind;
    bool bad_input;
  };
  for (const Meaning& meaning :
       {Meaning{"INVALID_ARGUMENT", v1::OUTCOME_FAILED, v1::FAILURE_KIND_OWN, true},
        Meaning{"RESOURCE_EXHAUSTED", v1::OUTCOME_OUT_OF_MEMORY, v1::FAILURE_KIND_OWN, false},
        Meaning{"UNIMPLEMENTED", v1::OUTCOME_FAILED, v1::FAILURE_KIND_OWN, true},
        Meaning{"UNAVAILABLE", v1::OUTCOME_FAILED, v1::FAILURE_KIND_PEER, false},
        Meaning{"INTERNAL", v1::OUTCOME_FAILED, v1::FAILURE_KIND_OWN, false},
        Meaning{"", v1::OUTCOME_FAILED, v1::FAILURE_KIND_OWN, false}}) {
    const v1::RankError error = ErrorOf(meaning.code);
    EXPECT_EQ(OutcomeOf(error), meaning.outcome) << meaning.code;
    EXPECT_EQ(FailureKindOf(error), meaning.kind) << meaning.code;
    EXPECT_EQ(IsBadInput(error), meaning.bad_input) << meaning.code;
  }
}

TEST(FailureVerdict, FirstOfTheLikeliestFailuresWins) {
  const RankFailure peer{.rank = 0, .kind = v1::FAILURE_KIND_PEER};
  const RankFailure aborted{.rank = 1, .kind = v1::FAILURE_KIND_PROCESS, .aborted = true};
  const RankFailure killed{.rank = 2, .kind = v1::FAILURE_KIND_PROCESS};
  const RankFailure own{.rank = 3, .kind = v1::FAILURE_KIND_OWN};
  struct Case {
    std::vector<RankFailure> failures;
    int first_failed_rank;
    v1::FailureKind failure;
    bool cause_known;
  };
  for (const Case& c :
       {Case{{peer}, 0, v1::FAILURE_KIND_PEER, false}, Case{{aborted}, 1, v1::FAILURE_KIND_PROCESS, false},
        Case{{peer, aborted}, 1, v1::FAILURE_KIND_PEER, false},
        Case{{aborted, peer}, 1, v1::FAILURE_KIND_PEER, false},
        Case{{peer, aborted, killed, own}, 2, v1::FAILURE_KIND_PROCESS, true},
        Case{{aborted, own, killed, peer}, 3, v1::FAILURE_KIND_OWN, true}}) {
    FailureVerdict verdict;
    EXPECT_FALSE(verdict.failed());
    EXPECT_FALSE(verdict.cause_known());
    for (const RankFailure& failure : c.failures) verdict.Add(failure);
    EXPECT_TRUE(verdict.failed());
    EXPECT_EQ(verdict.cause_known(), c.cause_known) << c.first_failed_rank;
    JobResult result;
    verdict.Tell(result);
    EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
    EXPECT_EQ(result.first_failed_rank, c.first_failed_rank);
    EXPECT_EQ(result.failure, c.failure) << c.first_failed_rank;
  }
}

}  // namespace
}  // namespace autocfg::worker
