#include "base/os/streams/rotated_file_sink.h"

#include <sys/stat.h>

#include <cerrno>

#include "spdlog/sinks/rotating_file_sink.h"

namespace autocfg::base {
namespace {

constexpr std::chrono::seconds kBetweenTries(1);

}  // namespace

RotatedFileSink::RotatedFileSink(std::string path, std::size_t file_bytes, std::size_t old_files,
                                 RotatedFileEvents events)
    : path_(std::move(path)), file_bytes_(file_bytes), old_files_(old_files), events_(std::move(events)) {
  Open();
}

bool RotatedFileSink::IsGone() const {
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0) return errno == ENOENT || errno == ENOTDIR;
  return FileId(found.st_dev, found.st_ino) != *id_;
}

void RotatedFileSink::Open() {
  const auto id = std::make_shared<FileId>();
  spdlog::file_event_handlers handlers;
  handlers.after_open = [id](const spdlog::filename_t&, std::FILE* file) {  // after each rotation, too
    struct stat found {};
    if (::fstat(::fileno(file), &found) == 0) *id = {found.st_dev, found.st_ino};
  };
  auto file = std::make_unique<spdlog::sinks::rotating_file_sink_st>(path_, file_bytes_, old_files_,
                                                                     /*rotate_on_open=*/false, handlers);
  file->set_formatter(formatter_->clone());
  file_ = std::move(file);
  id_ = id;
}

void RotatedFileSink::BeginAnew() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_try_) return;
  try {
    Open();
    if (events_.on_anew) events_.on_anew();
  } catch (const spdlog::spdlog_ex& error) {
    next_try_ = now + kBetweenTries;
    if (events_.on_failure) events_.on_failure(error.what());
  }
}

void RotatedFileSink::sink_it_(const spdlog::details::log_msg& message) {
  if (IsGone()) BeginAnew();
  file_->log(message);
}

void RotatedFileSink::set_formatter_(std::unique_ptr<spdlog::formatter> formatter) {
  formatter_ = std::move(formatter);
  file_->set_formatter(formatter_->clone());
}

}  // namespace autocfg::base
