#include "proto/convert/result_convert.h"

#include "proto/convert/breakdown_convert.h"
#include "proto/convert/message_fields.h"

namespace autocfg {

v1::MemoryBytes ToProto(const MemoryBytes& memory, std::int64_t capacity_bytes) {
  v1::MemoryBytes message;
  for (const MemoryRegion& region : kMemoryRegions)
    message.GetReflection()->SetInt64(&message, &FieldNamed(message, region.name), memory.*region.bytes);
  message.set_allocated(memory.Arena());
  message.set_reserved(memory.Reserved());
  message.set_total(memory.Total());
  message.set_capacity(capacity_bytes);
  return message;
}

MemoryBytes FromProto(const v1::MemoryBytes& message) {
  MemoryBytes memory;
  for (const MemoryRegion& region : kMemoryRegions)
    memory.*region.bytes = message.GetReflection()->GetInt64(message, &FieldNamed(message, region.name));
  return memory;
}

v1::Prediction ToProto(const Prediction& prediction) {
  v1::Prediction message;
  message.set_feasible(prediction.feasible);
  message.set_reason(prediction.reason);
  message.set_step_time_s(prediction.step_time_s);
  message.set_step_time_low_s(prediction.step_time_low_s);
  message.set_step_time_high_s(prediction.step_time_high_s);
  *message.mutable_memory_bytes() = ToProto(prediction.memory, prediction.capacity_bytes);
  message.mutable_memory_bytes()->set_total_low(prediction.memory_low_bytes);
  message.mutable_memory_bytes()->set_total_high(prediction.memory_high_bytes);
  *message.mutable_breakdown_s() = ToProto(prediction.breakdown);
  if (prediction.hidden_comm_s) message.mutable_breakdown_s()->set_hidden_comm(*prediction.hidden_comm_s);
  return message;
}

Prediction FromProto(const v1::Prediction& message) {
  Prediction prediction;
  prediction.feasible = message.feasible();
  prediction.reason = message.reason();
  prediction.step_time_s = message.step_time_s();
  prediction.step_time_low_s = message.step_time_low_s();
  prediction.step_time_high_s = message.step_time_high_s();
  prediction.memory = FromProto(message.memory_bytes());
  prediction.memory_low_bytes = message.memory_bytes().total_low();
  prediction.memory_high_bytes = message.memory_bytes().total_high();
  prediction.capacity_bytes = message.memory_bytes().capacity();
  prediction.breakdown = FromProto(message.breakdown_s());
  if (message.breakdown_s().has_hidden_comm()) prediction.hidden_comm_s = message.breakdown_s().hidden_comm();
  return prediction;
}

v1::Counts ToProto(const SearchCounts& counts) {
  v1::Counts message;
  message.set_enumerated(counts.enumerated);
  message.set_illegal(counts.illegal);
  message.set_out_of_memory(counts.out_of_memory);
  message.set_predicted(counts.predicted);
  message.set_evaluated(counts.evaluated);
  message.set_measured(counts.measured);
  for (const auto& [reason, count] : counts.rejected) (*message.mutable_rejected())[reason] = count;
  return message;
}

Sample FromProto(const v1::Measurement& message) {
  Sample sample;
  sample.step_time_s.assign(message.step_time_s().begin(), message.step_time_s().end());
  sample.device_s = message.device_s();
  sample.slice = message.slice();
  return sample;
}

std::optional<TrialOutcome> FromProto(v1::TrialState state) {
  switch (state) {
    case v1::TRIAL_STATE_MEASURED: return TrialOutcome::kMeasured;
    case v1::TRIAL_STATE_INFEASIBLE: return TrialOutcome::kOutOfMemory;
    case v1::TRIAL_STATE_FAILED: return TrialOutcome::kFailed;
    case v1::TRIAL_STATE_TIMED_OUT: return TrialOutcome::kTimedOut;
    case v1::TRIAL_STATE_LOST: return TrialOutcome::kLost;
    case v1::TRIAL_STATE_CANCELLED:
    case v1::TRIAL_STATE_UNSPECIFIED:
    case v1::TRIAL_STATE_QUEUED:
    case v1::TRIAL_STATE_RUNNING:
    case v1::TrialState_INT_MIN_SENTINEL_DO_NOT_USE_:
    case v1::TrialState_INT_MAX_SENTINEL_DO_NOT_USE_: break;
  }
  return std::nullopt;
}

}  // namespace autocfg
