// Where the ops that a rank issues go, in order: into a log (the dry device, the recording communicators;
// tests compare it with layer_ops) or onto a clock (the paced device). One rank, one thread.
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
