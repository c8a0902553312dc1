// A run that is exported to a training framework: what trains, on what, by which plan, and the evidence for
// the plan. Plain values; pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/plan/run.h"

namespace autocfg {

// What is known of the plan's step.
struct ExportEvidence {
  bool measured = false;            // by short runs; else predicted
  bool emulated = false;            // the short runs were emulated: every op took its modelled time
  double step_time_s = 0;           // 0: nothing is known, and the rest but engine and study has no meaning
  double low_s = 0;                 // the 95% interval of a measurement, the 90% interval of a prediction;
  double high_s = 0;                // 0: unknown
  std::string engine = {};          // whose step it is, or is to be predicted
  std::string device = {};          // that was measured; empty: a described one
  std::string build = {};           // of autocfg, that measured or predicted it
  std::int64_t memory_bytes = 0;    // of the worst rank, everything included; 0: unknown
  std::int64_t capacity_bytes = 0;  // of its device
  std::string runner_up = {};       // the next best plan, in the text form; empty: none
  double runner_up_step_time_s = 0;
  std::string study = {};  // its name; empty: it was not kept
  // How the trial of the plan ended, if it has no measurement: "studies/3/trials/1 failed: ...". Else empty.
  std::string trial = {};
};

// The plan is legal; its split is not auto.
struct ExportedRun : PlannedRun {
  ExportEvidence evidence = {};
  double tokens = 0;                         // of the whole run; 0: not said
  std::int64_t ranks_per_node = 0;           // where the cluster has no groups; 0: all ranks are on one node
  std::optional<double> memory_margin = {};  // of the search that found the plan; empty: not said
  // Path of the file for the line that starts it, quoted for a shell; empty: the target's usual name.
  std::string file_path = {};
};

// Returns the lines of a header: the plan; model, workload and cluster; the step time with its interval,
// whose it is and how it was found; the memory and what is left; the runner-up; days to the token target;
// the study. A line that nothing is known of is left out.
std::vector<std::string> EvidenceLines(const ExportedRun& run);

// Returns the steps that make the run's tokens, rounded up; 0 if they are not said.
std::int64_t StepsOf(const ExportedRun& run);

}  // namespace autocfg
