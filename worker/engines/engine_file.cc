#include "worker/engines/engine_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/json_reader.h"
#include "base/os/host.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/export_target.h"
#include "search/plan/cluster/engine_profile.h"
#include "search/plan/plan_options.h"
#include "search/space/axis_ranges.h"
#include "search/space/search_space.h"
#include "worker/engines/command_template.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kEngine = "engine";
constexpr std::uintmax_t kMostFileBytes = 256 << 10;
constexpr std::size_t kMostFiles = 32;
constexpr std::size_t kMostWords = 256;
constexpr std::size_t kLongestWord = 4096;
constexpr std::size_t kLongestVersion = 100;
constexpr double kLongestLimit = 30 * 24 * 3600.0;
constexpr std::string_view kArguments = "{arguments}";
constexpr std::string_view kFlagsFormat = "megatron";  // whose file is words
constexpr std::string_view kEngineDirectory = "{engine_directory}/";

bool IsVariableName(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && !is_digit(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
  });
}

bool IsProgram(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// Returns the absolute path of a program: of a name without '/' by $PATH, else from the file's directory.
absl::StatusOr<std::string> FindProgram(const std::string& word, const std::string& directory) {
  const auto missing = [&](const std::string& where) {
    return absl::NotFoundError(
        fmt::format("program '{}' does not exist {}, or may not be run; install it or correct the path",
                    base::Printable(word), where));
  };
  if (word.find('/') != std::string::npos) {
    std::string path = word;
    if (path.starts_with(kEngineDirectory)) path.erase(0, kEngineDirectory.size());
    const fs::path full = fs::path(directory) / path;
    return IsProgram(full) ? absl::StatusOr<std::string>(full.string()) : missing("there");
  }
  std::istringstream places(base::Environment("PATH"));
  for (std::string place; std::getline(places, place, ':');) {
    const fs::path full = fs::path(place.empty() ? "." : place) / word;
    if (full.is_absolute() && IsProgram(full)) return full.string();
  }
  return missing("in PATH");
}

// Reads one file. Keeps the first error.
class FileReader {
 public:
  FileReader(const Json& json, const std::string& directory) : directory_(directory), reader_(kEngine, json) {
    file_.directory = directory;
  }

  absl::StatusOr<EngineFile> Read() {
    reader_.Require("name");
    reader_.String("name", file_.name);
    if (!file_.name.empty()) Keep("name", CheckEngineName(file_.name));
    if (file_.name == kOwnEngine)
      reader_.Invalid(fmt::format("name is {}, the built-in engine; give another", kOwnEngine));
    ReadVersion();
    reader_.Require("format");
    reader_.String("format", file_.format);
    if (!file_.format.empty() && FindExportTarget(file_.format) == nullptr)
      reader_.Invalid(fmt::format("format: {}", UnknownExportTarget(file_.format)));
    std::string start = "node";
    reader_.String("start", start);
    if (start != "node" && start != "rank")
      reader_.Invalid(fmt::format("unknown start '{}'; expected node or rank", base::Printable(start)));
    file_.per_rank = start == "rank";
    reader_.Require("command");
    if (const Json* command = reader_.Find("command"))
      Words("command", *command, file_.command, /*is_version=*/false);
    CheckArguments();
    ReadEnvironment();
    ReadLimits();
    ReadSpace();
    reader_.Require("log");
    if (const Json* log = reader_.Find("log")) {
      auto rules = ParseLogRules(*log);
      if (rules.ok()) {
        file_.log = *std::move(rules);
      } else {
        Keep("log", rules.status());
      }
    }
    std::string remark;
    reader_.String("source", remark);
    AUTOCFG_RETURN_IF_ERROR(reader_.Finish());
    return std::move(file_);
  }

 private:
  // Keeps the problem of a status under the key.
  void Keep(std::string_view key, const absl::Status& status) {
    if (status.ok()) return;
    reader_.Fail(
        base::SubjectError(status.code(), kEngine, fmt::format("{}: {}", key, base::ProblemOf(status))));
  }
  void Invalid(std::string_view key, std::string_view problem) {
    Keep(key, absl::InvalidArgumentError(std::string(problem)));
  }

  void ReadVersion() {
    reader_.Require("version");
    const Json* version = reader_.Find("version");
    if (version == nullptr) return;
    if (version->is_object()) {
      base::FieldReader fields(kEngine, *version, "version");
      const Json* command = fields.Find("command");
      fields.Require("command");
      if (command != nullptr) Words("version", *command, file_.version_command, /*is_version=*/true);
      reader_.Fail(fields.Finish());
      return;
    }
    reader_.String("version", file_.version);
    if (file_.version.empty() || file_.version.size() > kLongestVersion ||
        file_.version != base::OneLine(file_.version))
      Invalid("version", fmt::format("give one line of 1 to {} bytes, or a command that prints it: "
                                     "{{\"command\": [...]}}",
                                     kLongestVersion));
  }

  // Reads a list of words, of which the first is a program.
  void Words(std::string_view key, const Json& list, std::vector<std::string>& words, bool is_version) {
    if (!list.is_array() || list.empty() || list.size() > kMostWords)
      return Invalid(key, fmt::format("give a list of 1 to {} arguments, the program first", kMostWords));
    for (const Json& entry : list) {
      if (!entry.is_string()) return Invalid(key, "an argument is no text; quote it");
      const auto& word = entry.get_ref<const std::string&>();
      if (word.size() > kLongestWord || word.find('\0') != std::string::npos)
        return Invalid(key, fmt::format("an argument has a NUL byte or more than {} bytes", kLongestWord));
      const bool first = words.empty();
      if (first && word.empty()) return Invalid(key, "the program is empty");
      const bool checked = !is_version && !(first && word.starts_with(kEngineDirectory));
      if (checked) Keep(key, CheckPlaceholders(word, file_.per_rank, /*list_allowed=*/!first));
      if (!first && word.starts_with(kEngineDirectory)) CheckExists(key, word);
      words.push_back(word);
    }
    auto program = FindProgram(words.front(), directory_);
    if (!program.ok()) return Keep(key, program.status());
    words.front() = *std::move(program);
    if (!is_version) return;
    for (std::string& word : words) {  // it runs before any job
      if (word.starts_with(kEngineDirectory))
        word = (fs::path(directory_) / word.substr(kEngineDirectory.size())).string();
    }
  }

  // A script beside the file that is missing would fail every trial.
  void CheckExists(std::string_view key, const std::string& word) {
    const std::string name = word.substr(kEngineDirectory.size());
    if (name.find('{') != std::string::npos) return;
    std::error_code error;
    if (!fs::exists(fs::path(directory_) / name, error))
      Keep(key, absl::NotFoundError(fmt::format("'{}' does not exist in the directory of the engine's file",
                                                base::Printable(name))));
  }

  // Only a file of flags has words to stand in their place.
  void CheckArguments() {
    const bool has = std::find(file_.command.begin(), file_.command.end(), kArguments) != file_.command.end();
    if (!has || file_.format == kFlagsFormat || FindExportTarget(file_.format) == nullptr) return;
    Invalid("command",
            fmt::format("{} stands for the flags of format {}, and the format is {}; give {{file}}",
                        kArguments, kFlagsFormat, file_.format));
  }

  void ReadEnvironment() {
    const Json* environment = reader_.Find("environment");
    if (environment == nullptr) return;
    if (!environment->is_object()) return Invalid("environment", "give an object of texts by name");
    for (const auto& [name, value] : environment->items()) {
      if (!IsVariableName(name)) {
        return Invalid(
            "environment",
            fmt::format("'{}' is no name of a variable; use letters, digits and '_', and begin with "
                        "no digit",
                        base::Printable(name)));
      }
      if (!value.is_string())
        return Invalid("environment", fmt::format("{} is no text; quote it", base::Printable(name)));
      const auto& text = value.get_ref<const std::string&>();
      if (text.size() > kLongestWord || text.find('\0') != std::string::npos)
        return Invalid("environment", fmt::format("{} has a NUL byte or more than {} bytes",
                                                  base::Printable(name), kLongestWord));
      Keep(fmt::format("environment: {}", base::Printable(name)),
           CheckPlaceholders(text, file_.per_rank, /*list_allowed=*/false));
      file_.environment.emplace_back(name, text);
    }
  }

  void ReadLimits() {
    const Json* limits = reader_.Find("limits");
    if (limits == nullptr) return;
    base::FieldReader fields(kEngine, *limits, "limits");
    for (const auto& [name, limit] : {std::pair{"start_s", &file_.limits.start},
                                      {"stall_s", &file_.limits.stall},
                                      {"run_s", &file_.limits.run}}) {
      double seconds = limit->count();
      if (fields.Find(name) == nullptr) continue;
      fields.Number(name, seconds);
      if (!(seconds > 0 && seconds <= kLongestLimit))
        fields.Invalid(
            fmt::format("{} is {:g}; give seconds above 0, up to {:g}", name, seconds, kLongestLimit));
      *limit = std::chrono::duration<double>(seconds);
    }
    reader_.Fail(fields.Finish());
  }

  void ReadSpace() {
    const Json* space = reader_.Find("space");
    if (space == nullptr) return;
    if (!space->is_array() || space->size() > kMostFiles)
      return Invalid("space", "give a list of texts such as \"pp=1\"");
    for (const Json& entry : *space) {
      if (!entry.is_string()) return Invalid("space", "an entry is no text; give texts such as \"pp=1\"");
      file_.space.push_back(entry.get<std::string>());
    }
    const auto axes = ParseAxisValues(file_.space);
    if (!axes.ok()) return Keep("space", axes.status());
    for (const auto& [name, values] : *axes) {
      const PlanOption* option = FindPlanOption(name);
      if (option == nullptr) {
        Invalid("space", fmt::format("unknown axis '{}'; give an option of a plan", base::Printable(name)));
        continue;
      }
      for (const std::string& value : values) {
        if (IsRange(*option, value)) continue;  // what it holds depends on the model
        ParallelPlan plan;
        if (absl::Status status = option->parse(*option, value, plan); !status.ok()) Keep("space", status);
      }
    }
  }

  const std::string& directory_;
  base::FieldReader reader_;
  EngineFile file_;
};

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error) return absl::NotFoundError(fmt::format("cannot be read: {}", error.message()));
  if (bytes > kMostFileBytes)
    return absl::InvalidArgumentError(fmt::format("has {} bytes; the limit is {}", bytes, kMostFileBytes));
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return absl::NotFoundError("cannot be read, or is empty");
  return text.str();
}

}  // namespace

const EngineFile* EngineOffer::Find(std::string_view name) const {
  const auto found =
      std::find_if(engines.begin(), engines.end(), [&](const EngineFile& each) { return each.name == name; });
  return found == engines.end() ? nullptr : &*found;
}

absl::StatusOr<EngineFile> ParseEngineFile(std::string_view text, const std::string& directory) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto json, base::ParseJson(kEngine, text));
  return FileReader(json, directory).Read();
}

absl::StatusOr<std::vector<EngineFile>> LoadEngineFiles(const std::string& directory) {
  std::error_code error;
  const fs::path full = fs::canonical(directory, error);
  if (error || !fs::is_directory(full, error))
    return absl::NotFoundError(
        fmt::format("'{}' is no directory; give one with files of engines", base::Printable(directory)));
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(full, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".json") paths.push_back(entry->path());
  }
  if (error) {
    return absl::NotFoundError(
        fmt::format("'{}' cannot be read: {}", base::Printable(directory), error.message()));
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty() || paths.size() > kMostFiles) {
    return absl::InvalidArgumentError(fmt::format("'{}' has {} files *.json; it must have 1 to {}",
                                                  base::Printable(directory), paths.size(), kMostFiles));
  }
  std::vector<EngineFile> engines;
  for (const fs::path& path : paths) {
    const auto in = [&](const absl::Status& status) {
      return absl::Status(status.code(), fmt::format("{}: {}", path.string(), std::string(status.message())));
    };
    const auto text = ReadFile(path);
    if (!text.ok()) return in(text.status());
    auto engine = ParseEngineFile(*text, full.string());
    if (!engine.ok()) return in(engine.status());
    if (std::any_of(engines.begin(), engines.end(),
                    [&](const EngineFile& other) { return other.name == engine->name; })) {
      return in(absl::InvalidArgumentError(fmt::format(
          "name: another file of the directory describes {} too; give each its own", engine->name)));
    }
    engines.push_back(*std::move(engine));
  }
  return engines;
}

std::vector<v1::Engine> EngineMessages(const std::vector<EngineFile>& engines) {
  std::vector<v1::Engine> messages;
  for (const EngineFile& engine : engines) {
    v1::Engine& message = messages.emplace_back();
    message.set_name(engine.name);
    message.set_version(engine.version);
    message.set_format(engine.format);
    for (const std::string& axis : engine.space) message.add_space(axis);
  }
  return messages;
}

}  // namespace autocfg::worker
