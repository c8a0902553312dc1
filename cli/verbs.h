// The verbs of `autocfg`: each adds its subcommand, and leaves what is to be done in `chosen`
// when it is the one given. Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace autocfg {

// Returns the exit code.
using Verb = std::function<int()>;

// `program`: how to start this program, for the command that it proposes.
void AddSearch(CLI::App& app, Verb& chosen, const std::string& program);
void AddPredict(CLI::App& app, Verb& chosen);
void AddExplain(CLI::App& app, Verb& chosen);
void AddTrain(CLI::App& app, Verb& chosen);
void AddStudies(CLI::App& app, Verb& chosen);
void AddTrials(CLI::App& app, Verb& chosen);
void AddWorkers(CLI::App& app, Verb& chosen);
void AddWatch(CLI::App& app, Verb& chosen);
void AddCancel(CLI::App& app, Verb& chosen);
void AddDoctor(CLI::App& app, Verb& chosen);
void AddVersion(CLI::App& app, Verb& chosen);

// The whole program: parses, runs, says what is wrong.
int Main(int argc, char** argv);

}  // namespace autocfg
