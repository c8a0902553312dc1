// While alive, captures the log line by line instead of writing it. Thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {

class LogLines {
 public:
  LogLines() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_)); }
  ~LogLines() { spdlog::set_default_logger(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::vector<std::string> lines() const { return sink_->lines(); }
  // Returns the number of lines that contain `words`.
  int Count(const std::string& words) const {
    const std::vector<std::string> all = lines();
    return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    }));
  }

 private:
  class Sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::vector<std::string> lines() {
      std::lock_guard lock(mutex_);
      return lines_;
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      lines_.emplace_back(message.payload.data(), message.payload.size());
    }
    void flush_() override {}
    std::vector<std::string> lines_;
  };

  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace autocfg::server
