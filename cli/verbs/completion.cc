// autocfg completion: prints a script that completes verbs, options, presets and plan options in bash, zsh or
// fish. autocfg man: prints the manual page of autocfg or of a verb.
#include <memory>
#include <string>

#include "base/text.h"
#include "cli/manual/completion_scripts.h"
#include "cli/manual/manual_page.h"
#include "cli/terminal/console.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

int PrintScript(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return Answer(BashCompletion(app));
  if (shell == "zsh") return Answer(ZshCompletion(app));
  if (shell == "fish") return Answer(FishCompletion(app));
  return Fail(kExitUsage, fmt::format("completion: there is no script for '{}'; give bash, zsh or fish",
                                      base::Printable(shell)));
}

int PrintPage(const CLI::App& app, const std::string& name) {
  if (name.empty()) return Answer(ManualPage(app, app));
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    if (verb->get_name() == name) return Answer(ManualPage(app, *verb));
  }
  return Fail(kExitUsage,
              fmt::format("man: there is no verb '{}'; see autocfg --help", base::Printable(name)));
}

}  // namespace

void AddCompletion(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("completion", "a script that completes this command line in bash, zsh or fish");
  const auto shell = std::make_shared<std::string>("bash");
  verb->add_option("shell", *shell, "bash (default), zsh or fish");
  verb->callback([&app, shell, &chosen] { chosen = [&app, shell] { return PrintScript(app, *shell); }; });
}

void AddMan(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("man", "a manual page: autocfg man search | man -l -");
  const auto name = std::make_shared<std::string>();
  verb->add_option("verb", *name, "whose page; default: of autocfg itself");
  verb->callback([&app, name, &chosen] { chosen = [&app, name] { return PrintPage(app, *name); }; });
}

}  // namespace autocfg::cli
