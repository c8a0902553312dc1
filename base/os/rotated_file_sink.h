// A file of lines that is rotated when it would exceed a size, for spdlog. If another program has renamed or
// removed the file, as logrotate does, the next line begins it anew. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "spdlog/sinks/base_sink.h"

namespace autocfg::base {

class RotatedFileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Appends to the file, and creates it if there is none. A file that would exceed `file_bytes` becomes
  // NAME.1.EXT, NAME.1.EXT becomes NAME.2.EXT, ...; the oldest of `old_files` goes. Throws
  // spdlog::spdlog_ex if the file cannot be opened, as every line does that cannot be written. `on_anew` (may
  // be empty) is called when a line has begun the file anew; it must not log here.
  RotatedFileSink(std::string path, std::size_t file_bytes, std::size_t old_files,
                  std::function<void()> on_anew = {});

 private:
  using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device and inode; 0 and 0: there is no file

  static FileId IdOf(const std::string& path);
  void Begin();

  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override { file_->flush(); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override;

  const std::string path_;
  const std::size_t file_bytes_, old_files_;
  const std::function<void()> on_anew_;
  std::unique_ptr<spdlog::sinks::sink> file_;
  FileId id_;  // of the file that lines go to
};

}  // namespace autocfg::base
