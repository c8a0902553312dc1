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
  return Read([&] {
    StoreFigures figures;
    figures.jobs_queued = One<std::int64_t>(
        R"sql(
          SELECT count(*)
          FROM jobs j
          CROSS JOIN studies s ON s.id = j.study
          WHERE j.state = ? AND s.state = ?)sql",
        v1::TRIAL_STATE_QUEUED, v1::STUDY_STATE_RUNNING);
    figures.leases_held = One<std::int64_t>("SELECT count(*) FROM shares WHERE ending = 0");
    for (const auto& [state, count] :
         Rows<v1::StudyState, std::int64_t>("SELECT state, count(*) FROM studies GROUP BY state"))
      figures.studies[state] = count;
    figures.used_bytes = BytesInUse();
    if (file_.lock) {  // not in memory
      figures.file_bytes = BytesOfFile(file_.path);
      figures.log_bytes = BytesOfFile(file_.path + "-wal");
    }
    return figures;
  });
}

}  // namespace autocfg::server
