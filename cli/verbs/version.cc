// autocfg version: prints the versions of this build.
#include <memory>

#include "base/os/process.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "proto/answer/answer_json.h"

namespace autocfg::cli {

void AddVersion(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("version", "print the version and the build");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "as JSON");
  verb->callback([json, &chosen] {
    chosen = [json] {
      if (*json) return Answer(VersionsJson(EngineDevice::kCpu).dump(2) + "\n");
      return Answer(fmt::format("autocfg {} (build {})\n", base::Version(), base::BuildId()));
    };
  });
}

}  // namespace autocfg::cli
