// A small search and its answer, for tests of reports.
#pragma once

#include <string>

#include "autocfg/v1/study_service.pb.h"
#include "proto/answer/answer_json.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"

namespace autocfg::test {

// Returns the inputs of a search on two ranks of this machine.
inline SearchQuestion Question() {
  SearchQuestion question;
  question.model.name = "mine";
  question.model.layers = 4;
  question.model.hidden = 64;
  question.model.heads = 4;
  question.model.vocab = 512;
  FillDefaults(question.model, 32);
  question.cluster.name = "local:1x2";
  question.cluster.local = true;
  NodeGroup group;
  group.device.name = "cpu";
  group.device.memory_bytes = 1 << 30;
  group.gpus_per_node = 2;
  question.cluster.groups.push_back(group);
  question.workload = {16, 32, *ParsePrecision("fp64")};
  return question;
}

// Returns a plan that is predicted to take 500 ms; `measured_s` of 0: it was not measured.
inline v1::Candidate Candidate(const std::string& plan_text, double measured_s) {
  v1::Candidate candidate;
  *candidate.mutable_plan() = ToProto(*ParsePlanText(plan_text));
  candidate.set_plan_text(plan_text);
  candidate.mutable_predicted()->set_feasible(true);
  candidate.mutable_predicted()->set_step_time_s(0.5);
  candidate.mutable_predicted()->mutable_memory_bytes()->set_total(1000);
  if (measured_s > 0) {
    auto& measured = *candidate.mutable_measured();
    measured.set_median_step_time_s(measured_s);
    measured.set_ci95_s(measured_s / 100);
    measured.add_step_time_s(measured_s);
    measured.set_peak_memory_bytes(900);
  }
  return candidate;
}

// Returns an answer whose best plan and first runner-up were measured.
inline v1::Recommendation Answer() {
  v1::Recommendation answer;
  answer.set_study("studies/7");
  *answer.mutable_best() = Candidate("tp=1,pp=2,dp=1,mbs=2,recompute=full", 0.25);
  *answer.add_runners_up() = Candidate("tp=2,pp=1,dp=1,mbs=2", 0.375);
  *answer.add_runners_up() = Candidate("tp=1,pp=1,dp=2,mbs=2", 0);
  auto& counts = *answer.mutable_counts();
  counts.set_enumerated(30);
  counts.set_illegal(10);
  counts.set_predicted(20);
  counts.set_evaluated(20);
  counts.set_measured(2);
  (*counts.mutable_rejected())["heads_not_divisible"] = 10;
  answer.set_wall_s(12);
  return answer;
}

}  // namespace autocfg::test
