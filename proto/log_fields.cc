#include "proto/log_fields.h"

#include "base/os/trace_parent.h"

namespace autocfg {

base::LogFields FieldsOfJob(std::string_view name) {
  constexpr std::string_view kStudies = "studies/", kTrials = "/trials/";
  if (!name.starts_with(kStudies)) return {};
  const std::string_view study = name.substr(0, name.find('/', kStudies.size()));
  base::LogFields fields{.study = std::string(study)};
  if (name.substr(study.size()).starts_with(kTrials)) fields.trial = std::string(name);
  return fields;
}

base::LogFields FieldsOfLease(const v1::LeaseWorkResponse& lease, const std::string& worker) {
  base::LogFields fields = FieldsOfJob(lease.job().name());
  fields.worker = worker;
  fields.lease = lease.lease_id();
  fields.trace = base::TraceOf(lease.job().trace_parent());
  return fields;
}

}  // namespace autocfg
