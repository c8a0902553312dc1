// Engines beside the built-in one that a worker offers: files of its own directory (docs/engines.md). Only
// these files hold commands; a coordinator names an engine, and nothing of its messages becomes a command.
// Plain values, thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/engines/log_rules.h"

namespace autocfg::worker {

struct EngineLimits {
  std::chrono::duration<double> start{600};  // until the log tells of a first step
  std::chrono::duration<double> stall{300};  // from one step to the next, and to the end
  std::chrono::duration<double> run{0};      // of the whole run; 0: the job's own limit alone
};

struct EngineFile {
  std::string name;
  std::string version;                       // a text, or the first line that `version_command` prints
  std::vector<std::string> version_command;  // empty: there is none
  std::string format;                        // of the file that it reads: a target of Export
  std::vector<std::string> command;          // with placeholders; the first is the path of a program
  bool per_rank = false;                     // started once per rank; else once per node
  std::vector<std::pair<std::string, std::string>> environment;  // values with placeholders
  LogRules log;
  EngineLimits limits;
  std::vector<std::string> space;  // what it can run, each as AXIS=V1,V2
  std::string directory;           // of the file
};

// What a worker needs to run engines.
struct EngineOffer {
  std::vector<EngineFile> engines;
  // Of this machine, where the ranks of other nodes reach it.
  std::string address = "127.0.0.1";

  const EngineFile* Find(std::string_view name) const;  // null: it does not offer it
};

// Parses a file's text. `directory`: of the file, absolute. InvalidArgument or NotFound, in one line, names
// the key: an unknown key or placeholder, a program that does not exist, an invalid pattern.
absl::StatusOr<EngineFile> ParseEngineFile(std::string_view text, const std::string& directory);

// Reads every *.json of the directory, by name. Errors name the file; two engines of one name are an error.
// Runs no command: `version` of an engine with a version_command is empty.
absl::StatusOr<std::vector<EngineFile>> LoadEngineFiles(const std::string& directory);

// Returns what a worker tells its coordinator of them.
std::vector<v1::Engine> EngineMessages(const std::vector<EngineFile>& engines);

}  // namespace autocfg::worker
