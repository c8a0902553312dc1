// The log of a process. Version and BuildId are in build_id.cc.
#include "base/os/process.h"

#include <pthread.h>

#include <memory>
#include <utility>

#include "base/os/host.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace autocfg::base {

void SetLogLevel(LogLevel level) {
  spdlog::set_level(level == LogLevel::kInfo ? spdlog::level::info : spdlog::level::err);
  const std::string asked = Environment("AUTOCFG_LOG");
  const auto found = spdlog::level::from_str(asked);
  // from_str returns `off` for unknown words too.
  const bool known = found != spdlog::level::off || asked == "off";
  if (known) spdlog::set_level(found);
  if (!known && !asked.empty()) {
    spdlog::critical(
        "AUTOCFG_LOG: unknown level '{}'; expected trace, debug, info, warn, error, critical or off", asked);
  }
}

void SetUpLog(const std::string& program, LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(program + ": %v");
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  SetLogLevel(level);
}

void NameThread(const std::string& name) {
  constexpr std::size_t kMost = 15;
  ::pthread_setname_np(::pthread_self(), name.substr(0, kMost).c_str());
}

}  // namespace autocfg::base
