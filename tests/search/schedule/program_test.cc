// Lowered programs, spelled out, and their fingerprints.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/search/schedule/programs.h"

namespace autocfg {
namespace {

using test::Interleaved;
using test::Make;
using test::Text;
using ::testing::HasSubstr;

TEST(Lower, EveryActionAndWhatItWaitsFor) {
  const Program program = Make(1, 2, 2, 3);
  ASSERT_EQ(program.ranks.size(), 4u);
  EXPECT_EQ(
      Text(program.ranks[0]),
      "ZERO 0F0 0SA0>2@1 0F1 0SA1>2@3 0RG0<2 0B0@5 0F2@2 0SA2>2@7 0RG1<2 0B1@9 0RG2<2@6 0B2@11 REDUCE@12 "
      "TIED@13 SCALARS@14 OPT@15");
  EXPECT_EQ(
      Text(program.ranks[2]),
      "ZERO 1RA0<0 1F0@1 1B0 1SG0>0@3 1RA1<0@3 1F1@5 1B1 1SG1>0@7 1RA2<0@7 1F2@9 1B2@4 1SG2>0@11 REDUCE@11 "
      "TIED@13 SCALARS@14 OPT@15");
}

// Two ranks of two stages: the last rank's first stage sends to the first rank's second one, activations and
// gradients between the same two ranks in both directions.
TEST(Lower, StagesOfARankAroundTheRing) {
  const Program program = Interleaved(2, 2, 1, 2);
  ASSERT_EQ(program.ranks.size(), 2u);
  EXPECT_EQ(Text(program.ranks[0]),
            "ZERO 0F0 0SA0>1@1 0F1 0SA1>1@3 2RA0<1 2F0@2,5 2SA0>1@6 2RA1<1 2F1@4,8 2SA1>1@9 2RG0<1 2B0@11 "
            "2SG0>1@12 2RG1<1 2B1@14 "
            "2SG1>1@15 0RG0<1@13 0B0@17 0RG1<1@16 0B1@19 TIED@20 SCALARS@21 OPT@22");
  EXPECT_EQ(Text(program.ranks[1]),
            "ZERO 1RA0<0 1F0@1 1SA0>0@2 1RA1<0 1F1@4 1SA1>0@5 3RA0<0 3F0@7 3B0 3SG0>0@9 3RA1<0@9 3F1@11 3B1 "
            "3SG1>0@13 1RG0<0@10 1B0@15 "
            "1SG0>0@16 1RG1<0@14 1B1@18 1SG1>0@19 TIED@19 SCALARS@21 OPT@22");
}

// Receives of activations wait for the weight gradient that last used the slot; gradients leave after input
// gradients.
TEST(Lower, SplitBackwards) {
  const Program program = Make(1, 2, 1, 3, Schedule::kZeroBubbleH1);
  ASSERT_EQ(program.ranks.size(), 2u);
  EXPECT_EQ(
      Text(program.ranks[0]),
      "ZERO 0F0 0SA0>1@1 0F1 0SA1>1@3 0RG0<1 0I0@5 0W0 0F2@2 0SA2>1@8 0RG1<1 0I1@10 0W1 0RG2<1@6 0I2@13 0W2 "
      "TIED@15 SCALARS@16 OPT@17");
  EXPECT_EQ(
      Text(program.ranks[1]),
      "ZERO 1RA0<0 1F0@1 1I0 1SG0>0@3 1RA1<0 1F1@5 1I1 1SG1>0@7 1W0 1RA2<0@9 1F2@10 1I2@4 1SG2>0@12 1W1 1W2 "
      "TIED@15 SCALARS@16 OPT@17");
}

TEST(Lower, OneRank) { EXPECT_EQ(Text(Make(1, 1, 1, 2).ranks[0]), "ZERO 0F0 0B0 0F1 0B1 SCALARS@4 OPT@5"); }

TEST(Lower, NothingTiedNothingSummed) {
  const Program program = Make(1, 3, 1, 2, Schedule::kGPipe, false);
  for (const RankProgram& rank : program.ranks) EXPECT_THAT(Text(rank), ::testing::Not(HasSubstr("TIED")));
  EXPECT_TRUE(ValidateProgram(program).ok());
  // A stage between first and last never sums it.
  EXPECT_THAT(Text(Make(1, 3, 1, 2).ranks[1]), ::testing::Not(HasSubstr("TIED")));
}

TEST(Fingerprint, TellsProgramsApart) {
  const Program program = Make(2, 2, 1, 4);
  EXPECT_EQ(Fingerprint(program), Fingerprint(Make(2, 2, 1, 4)));
  EXPECT_NE(Fingerprint(program), Fingerprint(Make(2, 2, 1, 4, Schedule::kGPipe)));
  EXPECT_NE(Fingerprint(program), Fingerprint(Make(1, 2, 2, 4)));
  EXPECT_NE(Fingerprint(Interleaved(2, 2, 1, 4)), Fingerprint(Interleaved(2, 4, 1, 4)));
  Program changed = program;
  changed.ranks[0].back().after.clear();
  EXPECT_NE(Fingerprint(program), Fingerprint(changed));
  // A fixed value, so that a change of the text form, which launcher and trainer compare, does not go unseen.
  EXPECT_EQ(Fingerprint(Program{}), 0xcbf29ce484222325u);
}

}  // namespace
}  // namespace autocfg
