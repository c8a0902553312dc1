// The file of `search --rejected`: a row for each plan that was enumerated and rejected (docs/formats.md).
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "base/os/atomic_file.h"

namespace autocfg::cli {

// Written beside its path and put in place at the end. Errors name the path and the cause.
class RejectedCsv {
 public:
  // `path`: from ReplaceablePath.
  explicit RejectedCsv(const std::string& path) : path_(path), file_(path) {}

  absl::Status Open();  // call first
  // InvalidArgument if a plan is invalid.
  absl::Status Add(const v1::RejectedPlans& message);
  absl::Status Finish();  // call last

  // Returns "plans.csv has 1,000,000 of 1,000,300 rejected plans; left out: out_of_memory 300"; empty if all
  // are in the file.
  std::string LeftOut() const;

 private:
  absl::Status Flush();

  const std::string path_;
  base::AtomicFile file_;
  std::string rows_;  // not written yet
  std::int64_t written_ = 0;
  std::map<std::string, std::int64_t> left_out_;
};

}  // namespace autocfg::cli
