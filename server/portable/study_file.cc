#include "server/portable/study_file.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/fnv1a.h"
#include "base/json_reader.h"
#include "base/os/atomic_file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "server/names/names.h"
#include "server/portable/study_checks.h"
#include "server/store/lock_file.h"
#include "server/store/output_file.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVersionKey = "autocfg_study";
constexpr int kCopiedTrialsPerRead = 500;

std::string JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  // Messages of the store are valid UTF-8, as their parsers require.
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

constexpr std::size_t kMostReasonBytes = 1000;

std::string DigestText(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

absl::Status CannotReadStudyFile(const std::string& path, int error) {
  return FileError(error != 0 ? error : EIO, fmt::format("{}: cannot be read", path));
}

// Reads a file line by line. Sums the digest of the lines before the last one read.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path), file_(path, std::ios::binary) {}

  bool opened() const { return file_.is_open(); }
  std::int64_t number() const { return number_; }
  std::uint64_t digest() const { return digest_; }
  const std::string& text() const { return line_; }

  absl::Status Error(std::string_view what) const {
    // A parser's message may quote any bytes of the file.
    const std::string line = base::OneLine(what, kMostReasonBytes);
    return absl::InvalidArgumentError(
        fmt::format("{}: line {}: {}", path_, number_, base::CleanUtf8(line, line.size())));
  }

  // Reads the next line. InvalidArgument: there is none, or it is too long or without an end.
  absl::Status Next() {
    if (number_ > 0) digest_ = base::Fnv1a("\n", base::Fnv1a(line_, digest_));
    ++number_;
    line_.clear();
    std::string part(std::size_t{64} << 10, '\0');
    while (true) {
      errno = 0;
      file_.getline(part.data(), static_cast<std::streamsize>(part.size()));
      const auto got = static_cast<std::size_t>(file_.gcount());
      if (file_.bad()) return CannotReadStudyFile(path_, errno);
      if (file_.eof()) return Error("the file is cut off; copy it again");
      const bool ended = !file_.fail();
      line_.append(part.data(), ended ? got - 1 : got);
      if (line_.size() > kMostStudyLineBytes)
        return Error(fmt::format("is longer than {}", base::BytesText(kMostStudyLineBytes)));
      if (ended) return absl::OkStatus();
      file_.clear();
    }
  }
  bool AtEnd() { return file_.peek() == std::ifstream::traits_type::eof(); }

 private:
  const std::string path_;
  std::ifstream file_;
  std::string line_;
  std::int64_t number_ = 0;
  std::uint64_t digest_ = base::kFnv1aOfNothing;
};

template <typename Message>
absl::Status ParseMessage(const std::string& text, Message& message) {
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &message);
  if (parsed.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(parsed.message().data(), parsed.message().size()));
}

// Returns a number of an object; no value: it is missing, or something else.
std::optional<double> NumberIn(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

absl::Status ParseHead(const Lines& lines, Store::StudyCopy& copy, std::int64_t& trials) {
  // Bounds the depth: what follows descends into it.
  const absl::StatusOr<Json> parsed = base::ParseJson("", lines.text(), base::JsonPosition::kColumn);
  if (!parsed.ok() || !parsed->is_object() || !parsed->contains(kVersionKey))
    return lines.Error("this is not a study that autocfg exported; name a file of autocfg db export");
  const Json& head = *parsed;
  const std::optional<double> version = NumberIn(head, kVersionKey);
  if (!version || *version != static_cast<double>(kStudyFileVersion)) {
    return lines.Error(
        fmt::format("the file has version {}, and this program reads version {}; use a newer "
                    "autocfg",
                    head[kVersionKey].dump(), kStudyFileVersion));
  }
  const auto usage = head.find("usage");
  if (!head.contains("study") || usage == head.end() || !usage->is_object())
    return lines.Error("study or usage is missing");
  if (absl::Status status = ParseMessage(head["study"].dump(), copy.study); !status.ok())
    return lines.Error(fmt::format("study: {}", std::string(status.message())));
  const auto wall_s = NumberIn(*usage, "wall_s"), plan_cpu_s = NumberIn(*usage, "plan_cpu_s"),
             device_s = NumberIn(*usage, "device_s"), count = NumberIn(head, "trials");
  if (!wall_s || !plan_cpu_s || !device_s) return lines.Error("usage has no three times");
  copy.usage = {.wall_s = *wall_s, .plan_cpu_s = *plan_cpu_s, .device_s = *device_s};
  if (!count || !(*count >= 0 && *count <= static_cast<double>(kMostStudyFileTrials)))
    return lines.Error(fmt::format("trials is no number from 0 to {}", kMostStudyFileTrials));
  trials = static_cast<std::int64_t>(*count);
  if (head.contains("calibration")) {
    const std::optional<double> reused = NumberIn(head, "reused_ops");
    if (!reused || !(*reused >= 0 && *reused < 1e9)) return lines.Error("reused_ops is no number");
    copy.calibration = Store::Calibration();
    copy.calibration->reused_ops = static_cast<std::int64_t>(*reused);
    if (absl::Status status = ParseMessage(head["calibration"].dump(), copy.calibration->result);
        !status.ok())
      return lines.Error(fmt::format("calibration: {}", std::string(status.message())));
  }
  if (absl::Status status = CheckStudyHead(copy); !status.ok())
    return lines.Error(std::string(status.message()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Store::StudyCopy> ReadStudyCopy(Store& store, std::int64_t id) {
  Store::StudyCopy copy;
  AUTOCFG_ASSIGN_OR_RETURN(auto study, store.GetStudy(id));
  if (!IsEnd(study.state())) {
    return absl::FailedPreconditionError(
        fmt::format("{} has not ended; wait for its end, or cancel it", study.name()));
  }
  copy.study = std::move(study);
  AUTOCFG_ASSIGN_OR_RETURN(copy.usage, store.Usage(id));
  AUTOCFG_ASSIGN_OR_RETURN(copy.calibration, store.GetCalibration(id));
  std::int64_t after = 0;
  while (true) {
    AUTOCFG_ASSIGN_OR_RETURN(auto trials, store.ListTrials(id, after, kCopiedTrialsPerRead));
    if (trials.empty()) return copy;
    for (v1::Trial& trial : trials) copy.trials.push_back(std::move(trial));
    after = ParseTrialName(copy.trials.back().name())->number;
  }
}

absl::StatusOr<WrittenStudyFile> WriteStudyFile(const std::string& path, const Store::StudyCopy& copy,
                                                const std::string& database, bool replace) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto checked, CheckOutputFile(path, database, replace));
  base::AtomicFile file(checked.path);
  if (const std::error_code error = file.Open(0600); error) return CannotWriteOutput(path, error.value());
  WrittenStudyFile written;
  std::uint64_t digest = base::kFnv1aOfNothing;
  std::error_code failed;
  const auto append = [&](std::string line) {
    line += '\n';
    digest = base::Fnv1a(line, digest);
    written.bytes += line.size();
    if (!failed) failed = file.Append(line);
  };
  std::string head = fmt::format("{{\"{}\":{},\"study\":{},\"usage\":{},\"trials\":{}", kVersionKey,
                                 kStudyFileVersion, JsonOf(copy.study),
                                 Json{{"wall_s", copy.usage.wall_s},
                                      {"plan_cpu_s", copy.usage.plan_cpu_s},
                                      {"device_s", copy.usage.device_s}}
                                     .dump(),
                                 copy.trials.size());
  if (copy.calibration) {
    head += fmt::format(",\"reused_ops\":{},\"calibration\":{}", copy.calibration->reused_ops,
                        JsonOf(copy.calibration->result));
  }
  append(head + "}");
  for (const v1::Trial& trial : copy.trials) append(JsonOf(trial));
  written.trials = static_cast<std::int64_t>(copy.trials.size());
  append(Json{{"trials", written.trials}, {"digest", DigestText(digest)}}.dump());
  if (!failed) failed = file.Finish(replace);
  if (failed) return CannotWriteOutput(path, failed.value());
  return written;
}

absl::StatusOr<Store::StudyCopy> ReadStudyFile(const std::string& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found)
    return absl::NotFoundError(fmt::format("{}: there is no such file", path));
  if (kind == std::filesystem::file_type::none) return CannotReadStudyFile(path, error.value());
  if (kind != std::filesystem::file_type::regular)
    return absl::InvalidArgumentError(fmt::format("{}: is not a regular file; name one", path));
  if (const auto bytes = std::filesystem::file_size(path, error); error || bytes > kMostStudyFileBytes) {
    return absl::InvalidArgumentError(fmt::format("{}: is larger than {}, the most that is read", path,
                                                  base::BytesText(kMostStudyFileBytes)));
  }
  errno = 0;
  Lines lines(path);
  if (!lines.opened()) return CannotReadStudyFile(path, errno);
  Store::StudyCopy copy;
  std::int64_t trials = 0;
  AUTOCFG_RETURN_IF_ERROR(lines.Next());
  AUTOCFG_RETURN_IF_ERROR(ParseHead(lines, copy, trials));
  for (std::int64_t i = 0; i < trials; ++i) {
    AUTOCFG_RETURN_IF_ERROR(lines.Next());
    v1::Trial trial;
    if (absl::Status status = ParseMessage(lines.text(), trial); !status.ok())
      return lines.Error(std::string(status.message()));
    if (absl::Status status = CheckImportedTrial(trial); !status.ok())
      return lines.Error(std::string(status.message()));
    copy.trials.push_back(std::move(trial));
  }
  AUTOCFG_RETURN_IF_ERROR(lines.Next());
  const absl::StatusOr<Json> end = base::ParseJson("", lines.text(), base::JsonPosition::kColumn);
  if (!end.ok() || !end->is_object() || end->value("digest", Json()) != DigestText(lines.digest()))
    return lines.Error("the file was changed or damaged: its digest does not match; copy it again");
  if (!lines.AtEnd()) return lines.Error("there is more after the end; copy the file again");
  return copy;
}

}  // namespace autocfg::server
