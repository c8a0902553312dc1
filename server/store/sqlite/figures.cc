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

absl::StatusOr<StoreFigures> Store::Figures() {
  return impl_->Read([&] {
    StoreFigures figures;
    figures.jobs_queued = impl_->One<std::int64_t>(
        R"sql(
          SELECT count(*)
          FROM jobs j
          CROSS JOIN studies s ON s.id = j.study
          WHERE j.state = ? AND s.state = ?)sql",
        v1::TRIAL_STATE_QUEUED, v1::STUDY_STATE_RUNNING);
    figures.leases_held = impl_->One<std::int64_t>("SELECT count(*) FROM shares WHERE ending = 0");
    for (const auto& [state, count] :
         impl_->Rows<v1::StudyState, std::int64_t>("SELECT state, count(*) FROM studies GROUP BY state"))
      figures.studies[state] = count;
    figures.used_bytes = impl_->BytesInUse();
    if (impl_->file_.lock) {  // not in memory
      figures.file_bytes = BytesOfFile(impl_->file_.path);
      figures.log_bytes = BytesOfFile(impl_->file_.path + "-wal");
    }
    return figures;
  });
}

}  // namespace autocfg::server
