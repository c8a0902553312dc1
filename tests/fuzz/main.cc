// A program of libFuzzer. The environment variable AUTOCFG_FUZZ names its target. Of other values, `list`
// prints the targets, each with its shared seeds, and `build` the program's build.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/os/process.h"
#include "fmt/format.h"
#include "tests/fuzz/targets/fuzz_target.h"

namespace {

const autocfg::test::FuzzTarget* asked_target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* asked = std::getenv("AUTOCFG_FUZZ");
  const std::string_view name = asked != nullptr ? asked : "";
  if (name == "build") {
    fmt::print("{}\n", autocfg::base::BuildId());
    std::exit(0);
  }
  for (const auto targets : {autocfg::test::SearchTargets(), autocfg::test::ServiceTargets(),
                             autocfg::test::TrainerTargets(), autocfg::test::RpcTargets()}) {
    for (const autocfg::test::FuzzTarget& target : targets) {
      if (target.name == name) asked_target = &target;
      if (name == "list") fmt::print("{} {}\n", target.name, target.shared_seeds);
    }
  }
  if (name == "list") std::exit(0);
  if (asked_target == nullptr) {
    fmt::print(stderr, "autocfg_fuzz: unknown target '{}'; AUTOCFG_FUZZ=list prints the targets\n", name);
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  asked_target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
