#include "base/os/rotated_file_sink.h"

#include <sys/stat.h>

#include "spdlog/sinks/rotating_file_sink.h"

namespace autocfg::base {

RotatedFileSink::RotatedFileSink(std::string path, std::size_t file_bytes, std::size_t old_files,
                                 std::function<void()> on_anew)
    : path_(std::move(path)), file_bytes_(file_bytes), old_files_(old_files), on_anew_(std::move(on_anew)) {
  Begin();
}

RotatedFileSink::FileId RotatedFileSink::IdOf(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino};
}

void RotatedFileSink::Begin() {
  auto file = std::make_unique<spdlog::sinks::rotating_file_sink_st>(path_, file_bytes_, old_files_);
  file->set_formatter(formatter_->clone());
  file_ = std::move(file);
  id_ = IdOf(path_);
}

void RotatedFileSink::sink_it_(const spdlog::details::log_msg& message) {
  if (IdOf(path_) != id_) {
    Begin();
    if (on_anew_) on_anew_();
  }
  file_->log(message);
  // The line may have rotated the file.
  if (IdOf(spdlog::sinks::rotating_file_sink_st::calc_filename(path_, 1)) == id_) id_ = IdOf(path_);
}

void RotatedFileSink::set_formatter_(std::unique_ptr<spdlog::formatter> formatter) {
  formatter_ = std::move(formatter);
  file_->set_formatter(formatter_->clone());
}

}  // namespace autocfg::base
