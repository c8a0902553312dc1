// What the database holds, in numbers.
#include <filesystem>
#include <system_error>

#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

// Returns 0 for a file that is not there.
std::int64_t BytesOfFile(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(bytes);
}

}  // namespace

absl::StatusOr<StoreFigures> SqliteStore::Figures() {
  return Read([&]() -> absl::StatusOr<StoreFigures> {
    StoreFigures figures;
    SQLite::Statement queued = Query(
        R"sql(
          SELECT count(*)
          FROM jobs j
          CROSS JOIN studies s ON s.id = j.study
          WHERE j.state = ? AND s.state = ?)sql",
        static_cast<int>(v1::TRIAL_STATE_QUEUED), static_cast<int>(v1::STUDY_STATE_RUNNING));
    queued.executeStep();
    figures.jobs_queued = queued.getColumn(0).getInt64();
    figures.leases_held = db().execAndGet("SELECT count(*) FROM shares WHERE ending = 0").getInt64();
    SQLite::Statement studies(db(), "SELECT state, count(*) FROM studies GROUP BY state");
    while (studies.executeStep())
      figures.studies[static_cast<v1::StudyState>(studies.getColumn(0).getInt())] =
          studies.getColumn(1).getInt64();
    figures.used_bytes = BytesInUse();
    if (file_.lock) {  // not in memory
      figures.file_bytes = BytesOfFile(file_.path);
      figures.log_bytes = BytesOfFile(file_.path + "-wal");
    }
    return figures;
  });
}

}  // namespace autocfg::server
