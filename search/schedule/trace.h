// What a rank did when: the rows that trainer and timer both write, so that predicted against measured is
// a join on (rank, action). Plain values.
#pragma once

#include <cstdint>

#include "search/schedule/action.h"

namespace autocfg {

struct TraceRow {
  std::int32_t rank = 0;
  Lane lane = Lane::kCompute;
  std::int32_t action = 0;  // index in the rank's program
  double start_s = 0;       // since the step began (trainer: since the first rank began it)
  double end_s = 0;
};

}  // namespace autocfg
