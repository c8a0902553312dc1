// What a store keeps, and for how long.
#pragma once

#include <cstdint>
#include <vector>

namespace autocfg::server {

// Limits of a pruning; 0: no limit. Unfinished studies are never touched.
struct RetentionLimits {
  // Ended studies that ended longer ago, or are not among so many that ended last, lose the details of their
  // trials; those without a result are deleted.
  double studies_s = 0;
  std::int64_t studies = 0;
  // Bytes of the file in use. While it has more, ended studies lose their details, oldest first; then those
  // without a result are deleted; then those with one.
  std::int64_t bytes = 0;
  // Kept since a pruning first saw them: the IDs of requests; deregistered workers that no stored attempt
  // names.
  double requests_s = 30.0 * 86400;
  double workers_s = 30.0 * 86400;
};

// What a pruning did.
struct Pruned {
  std::vector<std::int64_t> reduced;  // studies that lost details
  std::vector<std::int64_t> deleted;  // studies
  std::int64_t requests = 0;
  std::int64_t op_times = 0;
  std::int64_t workers = 0;
  std::int64_t bytes_before = 0;  // in use
  std::int64_t bytes_after = 0;
};

}  // namespace autocfg::server
