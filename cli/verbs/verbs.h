// The verbs of `autocfg`. Each adds its subcommand and stores its action in `chosen` if the command line
// names it. Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace autocfg::cli {

// Returns the exit code.
using Verb = std::function<int()>;

// `program`: command that starts this program, for the command that it proposes.
void AddSearch(CLI::App& app, Verb& chosen, const std::string& program);
void AddPredict(CLI::App& app, Verb& chosen);
void AddExplain(CLI::App& app, Verb& chosen);
void AddCalibrate(CLI::App& app, Verb& chosen);
// `program`: as above.
void AddSize(CLI::App& app, Verb& chosen, const std::string& program);
void AddTrain(CLI::App& app, Verb& chosen);
void AddStudies(CLI::App& app, Verb& chosen);
void AddTrials(CLI::App& app, Verb& chosen);
void AddWorkers(CLI::App& app, Verb& chosen);
void AddWatch(CLI::App& app, Verb& chosen);
void AddPause(CLI::App& app, Verb& chosen);
void AddResume(CLI::App& app, Verb& chosen);
void AddUpdate(CLI::App& app, Verb& chosen);
void AddCancel(CLI::App& app, Verb& chosen);
void AddDelete(CLI::App& app, Verb& chosen);
void AddExport(CLI::App& app, Verb& chosen);
void AddImport(CLI::App& app, Verb& chosen);
void AddModels(CLI::App& app, Verb& chosen);
void AddClusters(CLI::App& app, Verb& chosen);
void AddReport(CLI::App& app, Verb& chosen);
void AddDb(CLI::App& app, Verb& chosen);
// Adds verbs below `db`.
void AddDbStudies(CLI::App& db, Verb& chosen);
void AddToken(CLI::App& app, Verb& chosen);
void AddDoctor(CLI::App& app, Verb& chosen);
// `app` must outlive the chosen verb.
void AddCompletion(CLI::App& app, Verb& chosen);
void AddMan(CLI::App& app, Verb& chosen);
void AddVersion(CLI::App& app, Verb& chosen);

}  // namespace autocfg::cli
