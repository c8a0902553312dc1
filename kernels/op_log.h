// What is recorded about a rank's ops: the ops that it issues, in order, and the implementations that they
// choose. One rank, one thread.
#pragma once

#include <string>
#include <vector>

#include "search/ops/op_desc.h"

namespace autocfg {

// Receives ops in order of issue: a log (the dry device and the recording communicators; tests compare it
// with action_ops) or a clock (the paced device).
class OpSink {
 public:
  virtual ~OpSink() = default;
  virtual void Record(const OpDesc& op) = 0;
};

class OpLog final : public OpSink {
 public:
  void Record(const OpDesc& op) override { ops_.push_back(op); }
  void Clear() { ops_.clear(); }
  const std::vector<OpDesc>& ops() const { return ops_; }

 private:
  std::vector<OpDesc> ops_;
};

// An implementation that an op chose among several for a shape. Choices are logged, so that none is silent.
struct OpChoice {
  std::string text;   // one line: the shape, its implementation, and the reason if there was a choice
  bool usual = true;  // expected for this shape on this device; unusual choices are always reported
  bool own = false;   // unusual, and other ranks with the same shapes may have chosen otherwise
};

}  // namespace autocfg
