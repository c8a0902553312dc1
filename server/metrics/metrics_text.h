// The metrics of a coordinator as Prometheus reads them: what was counted, and what is read when it asks.
// docs/operations.md, "Metrics", lists them. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/metrics/metrics.h"
#include "server/sched/dispatcher.h"
#include "server/store/store.h"

namespace autocfg::server {

// The content type of the text.
inline constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// Returns the metrics in Prometheus' text format. Reads the store. Errors: those of the store, and
// Unavailable if the system does not say what the process uses.
absl::StatusOr<std::string> MetricsText(const Metrics& metrics, Store& store, Dispatcher& dispatcher);

}  // namespace autocfg::server
