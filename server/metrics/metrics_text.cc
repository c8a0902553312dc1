#include "server/metrics/metrics_text.h"

#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/os/process.h"
#include "base/os/process_usage.h"
#include "base/status_macros.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "proto/short_name.h"

namespace autocfg::server {
namespace {

// A registry of what is read at one time.
class Reading {
 public:
  prometheus::Family<prometheus::Gauge>& Gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
  }
  template <typename Number>
  void Gauge(const char* name, const char* help, Number value, const prometheus::Labels& labels = {}) {
    Gauges(name, help).Add(labels).Set(static_cast<double>(value));
  }
  void Counter(const char* name, const char* help, double value) {
    prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add({}).Increment(value);
  }
  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  prometheus::Registry registry_;
};

void ReadFigures(const StoreFigures& figures, Reading& reading) {
  reading.Gauge("autocfg_jobs_queued", "Jobs of running studies that wait for workers.", figures.jobs_queued);
  reading.Gauge("autocfg_leases_held", "Leases that workers hold.", figures.leases_held);
  auto& studies = reading.Gauges("autocfg_studies", "Studies in the database, by state.");
  for (const v1::StudyState state :
       {v1::STUDY_STATE_CREATED, v1::STUDY_STATE_RUNNING, v1::STUDY_STATE_PAUSED, v1::STUDY_STATE_DONE,
        v1::STUDY_STATE_FAILED, v1::STUDY_STATE_CANCELLED}) {
    const auto found = figures.studies.find(state);
    studies.Add({{"state", StateText(state)}})
        .Set(static_cast<double>(found == figures.studies.end() ? 0 : found->second));
  }
  auto& bytes = reading.Gauges("autocfg_database_bytes", "Sizes of the database's files.");
  bytes.Add({{"file", "database"}}).Set(static_cast<double>(figures.file_bytes));
  bytes.Add({{"file", "log"}}).Set(static_cast<double>(figures.log_bytes));
  reading.Gauge("autocfg_database_used_bytes", "Bytes of the database that are in use.", figures.used_bytes);
}

void ReadWorkers(const std::vector<WorkerRecord>& records, Dispatcher& dispatcher, Reading& reading) {
  std::map<std::string, std::int64_t> by_state;
  for (const auto state : {v1::WORKER_STATE_ACTIVE, v1::WORKER_STATE_DRAINING, v1::WORKER_STATE_SILENT})
    by_state[StateText(state)] = 0;
  std::int64_t used = 0, free = 0;
  for (const WorkerRecord& record : records) {
    const Presence::Seen seen = dispatcher.Seen(record.session.worker);
    const v1::WorkerState state = StateOf(record, seen.silent);
    ++by_state[StateText(state)];
    used += record.ranks_in_use;
    if (state == v1::WORKER_STATE_ACTIVE && seen.takes_jobs)
      free += record.inventory.slots() - record.ranks_in_use;
  }
  auto& workers = reading.Gauges("autocfg_workers", "Registered workers, by state.");
  for (const auto& [state, count] : by_state) workers.Add({{"state", state}}).Set(static_cast<double>(count));
  auto& slots =
      reading.Gauges("autocfg_slots", "Slots of workers: used by jobs, or free on workers that take jobs.");
  slots.Add({{"state", "used"}}).Set(static_cast<double>(used));
  slots.Add({{"state", "free"}}).Set(static_cast<double>(free));
}

void ReadProcess(const base::ProcessUsage& usage, Reading& reading) {
  reading.Gauge("autocfg_build_info", "Always 1; its labels are the version and the build.", 1,
                {{"version", base::Version()}, {"build", base::BuildId()}});
  reading.Gauge("process_start_time_seconds", "Start of the process, as Unix time.", usage.start_time_s);
  reading.Counter("process_cpu_seconds_total", "CPU time of the process, of user and system.", usage.cpu_s);
  reading.Gauge("process_resident_memory_bytes", "Resident memory of the process.", usage.resident_bytes);
  reading.Gauge("process_virtual_memory_bytes", "Virtual memory of the process.", usage.virtual_bytes);
  reading.Gauge("process_open_fds", "Open descriptors of the process.", usage.descriptors);
  reading.Gauge("process_max_fds", "Limit on the open descriptors of the process.", usage.most_descriptors);
}

}  // namespace

absl::StatusOr<std::string> MetricsText(const Metrics& metrics, Store& store, Dispatcher& dispatcher) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto figures, store.Figures());
  AUTOCFG_ASSIGN_OR_RETURN(const auto workers,
                           store.ListWorkers("", std::numeric_limits<int>::max(), /*gone=*/false));
  const auto usage = base::ReadProcessUsage();
  if (!usage) return absl::UnavailableError("/proc/self cannot be read; the process's memory is not known");
  Reading reading;
  ReadFigures(figures, reading);
  ReadWorkers(workers, dispatcher, reading);
  reading.Gauge("autocfg_store_failing", "1 if the last write failed in the storage, else 0.",
                store.Health().ok() ? 0 : 1);
  reading.Gauge("autocfg_calls_parked", "Calls of workers that wait for work or for news of their leases.",
                dispatcher.parked());
  ReadProcess(*usage, reading);
  std::vector<prometheus::MetricFamily> families = metrics.Collect();
  std::vector<prometheus::MetricFamily> read = reading.Collect();
  families.insert(families.end(), std::make_move_iterator(read.begin()), std::make_move_iterator(read.end()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace autocfg::server
