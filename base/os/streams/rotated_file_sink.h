// A file of lines that is rotated when it would exceed a size, for spdlog. If another program has renamed or
// removed the file, as logrotate does, the next line begins it anew. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "spdlog/sinks/base_sink.h"

namespace autocfg::base {

// Called within a line, by the thread that logs: neither may log to the same sink.
struct RotatedFileEvents {
  std::function<void()> on_anew = {};  // the file has been begun anew
  // The file cannot be begun anew, with the reason: lines still go to the one that was renamed. At most once
  // a second.
  std::function<void(const std::string& why)> on_failure = {};
};

class RotatedFileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Appends to the file, and creates it if there is none. A file that would exceed `file_bytes` becomes
  // NAME.1.EXT, NAME.1.EXT becomes NAME.2.EXT, ...; the oldest of `old_files` goes. Throws
  // spdlog::spdlog_ex if the file cannot be opened, as every line does that cannot be written.
  RotatedFileSink(std::string path, std::size_t file_bytes, std::size_t old_files, RotatedFileEvents events);

 private:
  using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device and inode

  bool IsGone() const;  // whether the path names another file than that of the lines, or none
  void Open();
  void BeginAnew();

  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override { file_->flush(); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override;

  const std::string path_;
  const std::size_t file_bytes_, old_files_;
  const RotatedFileEvents events_;
  std::unique_ptr<spdlog::sinks::sink> file_;
  std::shared_ptr<const FileId> id_;  // of the file that lines go to; file_ changes it
  std::chrono::steady_clock::time_point next_try_ = {};
};

}  // namespace autocfg::base
