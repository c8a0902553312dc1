// Sinks for the ops that a rank issues, in order: a log (the dry device and the recording communicators;
// tests compare it with layer_ops) or a clock (the paced device). One rank, one thread.
#pragma once

#include <vector>

#include "search/ops/op_desc.h"

namespace autocfg {

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

}  // namespace autocfg
