// The trainer on a CPU whose model OpenBLAS does not know.
#include "base/os/blas_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/cli/program.h"
#include "tests/support/scoped_variable.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// OpenBLAS prints the kernels that it chooses when it is loaded.
std::string KernelsOfTheTrainer(const std::optional<std::string>& chosen_by_hand) {
  const ScratchDirectory home;
  const ScopedVariable preload("LD_PRELOAD", BuildPath("tests/libfake_blas_core.so")),
      verbose("OPENBLAS_VERBOSE", "2"), core("OPENBLAS_CORETYPE", chosen_by_hand);
  ProgramProcess trainer(home, {"--version"}, "/dev/null", "autocfg-trainer");
  const Finished done = trainer.Wait();
  EXPECT_EQ(done.exit_code, 0);
  return done.out + done.err;
}

TEST(TrainersBlas, UsesTheVectorUnitsOfAnUnknownModel) {
  const base::VectorUnits units = base::ThisCpusVectorUnits();
  if (!units.avx2) GTEST_SKIP() << "the CPU has no AVX2";
  // OpenBLAS names SkylakeX as such, whatever the case.
  EXPECT_THAT(KernelsOfTheTrainer(std::nullopt),
              HasSubstr(units.avx512 ? "Core: SkylakeX" : "Core: Haswell"));
}

TEST(TrainersBlas, AChoiceByHandStands) {
  const std::string said = KernelsOfTheTrainer("Nehalem");
  EXPECT_THAT(said, HasSubstr("Core: Nehalem"));
  EXPECT_THAT(said, Not(HasSubstr("Core: SkylakeX")));
}

}  // namespace
}  // namespace autocfg::cli
