#include "cli/study_reader.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/numbers.h"
#include "cli/paths.h"
#include "cli/study_client.h"
#include "fmt/format.h"
#include "server/store/sqlite_store.h"

namespace autocfg {
namespace {

constexpr int kPage = 200;

class SocketReader final : public StudyReader {
 public:
  explicit SocketReader(const std::string& socket) : client_("unix:" + socket) {}
  absl::StatusOr<std::vector<v1::Study>> Studies() override { return client_.ListStudies(); }
  absl::StatusOr<v1::Study> Study(std::int64_t id) override {
    return client_.GetStudy(fmt::format("studies/{}", id));
  }
  absl::StatusOr<std::vector<v1::Trial>> Trials(std::int64_t study) override {
    return client_.ListTrials(fmt::format("studies/{}", study));
  }

 private:
  StudyClient client_;
};

class FileReader final : public StudyReader {
 public:
  explicit FileReader(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  absl::StatusOr<std::vector<v1::Study>> Studies() override {
    std::vector<v1::Study> all;
    std::int64_t before = 0;
    for (;;) {
      auto page = store_->ListStudies(before, kPage);
      if (!page.ok()) return page.status();
      if (page->empty()) return all;
      const auto last = ParseStudyId(page->back().name());
      if (!last.ok()) return last.status();
      before = *last;
      for (auto& study : *page) all.push_back(std::move(study));
    }
  }
  absl::StatusOr<v1::Study> Study(std::int64_t id) override { return store_->GetStudy(id); }
  absl::StatusOr<std::vector<v1::Trial>> Trials(std::int64_t study) override {
    std::vector<v1::Trial> all;
    std::int64_t after = 0;
    for (;;) {
      auto page = store_->ListTrials(study, after, kPage);
      if (!page.ok()) return page.status();
      if (page->empty()) return all;
      const auto last = ParseWhole("trial", LastPart(page->back().name()));
      if (!last.ok()) return last.status();
      after = *last;
      for (auto& trial : *page) all.push_back(std::move(trial));
    }
  }

 private:
  std::unique_ptr<Store> store_;
};

class EmptyReader final : public StudyReader {
 public:
  absl::StatusOr<std::vector<v1::Study>> Studies() override { return std::vector<v1::Study>(); }
  absl::StatusOr<v1::Study> Study(std::int64_t id) override {
    return absl::NotFoundError(fmt::format("no study {}: no search has been run yet", id));
  }
  absl::StatusOr<std::vector<v1::Trial>> Trials(std::int64_t) override { return std::vector<v1::Trial>(); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<StudyReader>> StudyReader::Open(const std::string& database) {
  const auto path = DatabasePath(database);
  if (!path.ok()) return path.status();
  std::error_code error;
  if (!std::filesystem::exists(*path, error)) {
    if (error) return absl::PermissionDeniedError(fmt::format("{}: {}", *path, error.message()));
    if (database.empty()) return std::make_unique<EmptyReader>();
    return absl::NotFoundError(fmt::format("{}: no such database; name one that a search has made", *path));
  }
  const auto socket = SocketPath(*path);
  if (!socket.ok()) return socket.status();
  if (IsListening(*socket)) return std::make_unique<SocketReader>(*socket);
  auto store = OpenSqliteStore(*path);
  if (!store.ok()) return store.status();
  return std::make_unique<FileReader>(*std::move(store));
}

}  // namespace autocfg
