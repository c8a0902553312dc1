// The keys of an answer's JSON that are fields of messages, by object: the writer (answer_json.cc) and the
// reader (answer_file.cc) follow from them. Internal to the directory.
#pragma once

#include <cstdint>
#include <string_view>

namespace autocfg::answer_keys {

enum class Form : std::uint8_t {
  kAlways,
  kSince,    // as kAlways, but files of earlier versions lack it
  kNull,     // null if the field is unset or zero
  kDerived,  // follows from others, and is not read
};

struct Key {
  std::string_view name;
  std::string_view field;  // of the message
  Form form = Form::kAlways;
  bool is_signed = false;
};

constexpr Key Always(std::string_view name, std::string_view field = "") {
  return {name, field.empty() ? name : field};
}
constexpr Key Signed(std::string_view name) { return {name, name, Form::kAlways, true}; }
constexpr Key Since(std::string_view name) { return {name, name, Form::kSince}; }
constexpr Key Null(std::string_view name, std::string_view field = "") {
  return {name, field.empty() ? name : field, Form::kNull};
}
constexpr Key Derived(std::string_view name) { return {name, name, Form::kDerived}; }

inline constexpr Key kWorkload[] = {Always("global_batch"), Always("seq_len"), Always("precision")};
inline constexpr Key kPrediction[] = {Since("feasible"), Since("reason"), Always("step_time_s"),
                                      Always("step_time_low_s"), Always("step_time_high_s")};
inline constexpr Key kHiddenComm = Null("hidden_comm_s", "hidden_comm");  // beside the parts of a step
inline constexpr Key kMeasurement[] = {Always("step_time_s", "median_step_time_s"),
                                       Always("ci95_s"),
                                       Derived("steps"),
                                       Always("build_id"),
                                       Always("device_fingerprint"),
                                       Derived("tokens_per_s"),
                                       Always("planned_memory_bytes"),
                                       Always("peak_memory_bytes"),
                                       Always("device_overhead_bytes"),
                                       Since("ranks_per_core"),
                                       Null("ranks_per_gpu", "ranks_per_device"),
                                       Always("slice"),
                                       Derived("emulated")};
inline constexpr Key kEffect[] = {Always("option"), Always("chosen"),  Always("instead"),
                                  Signed("costs"),  Always("because"), Since("only_this_changed")};
inline constexpr Key kCostsAlone = {"costs_alone", "costs_alone", Form::kNull, true};
inline constexpr Key kCounts[] = {Always("enumerated"), Always("illegal"),  Always("out_of_memory"),
                                  Always("predicted"),  Since("evaluated"), Always("measured")};
inline constexpr Key kSearch[] = {
    Always("wall_s"),          Always("plan_cpu_s"),          Derived("evaluated_per_s"),
    Always("device_s"),        Always("exhaustive_device_s"), Null("chance_of_better"),
    Null("stopped"),           Always("plans_left"),          Always("measured_op_times"),
    Always("reused_op_times"), Since("reused_trials"),        Always("estimated_op_times")};

}  // namespace autocfg::answer_keys
