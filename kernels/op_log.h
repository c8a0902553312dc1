// The ops that a rank has issued, in order. The dry and paced devices and the recording communicators write it; tests compare it with
// layer_ops. One rank, one thread.
#pragma once

#include <vector>

#include "search/ops/op_desc.h"

namespace autocfg {

class OpLog {
 public:
  void Record(const OpDesc& op) { ops_.push_back(op); }
  void Clear() { ops_.clear(); }
  const std::vector<OpDesc>& ops() const { return ops_; }

 private:
  std::vector<OpDesc> ops_;
};

}  // namespace autocfg
