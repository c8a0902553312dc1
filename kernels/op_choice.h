// What ops have chosen for themselves among several ways to compute a shape, for logs: so that no choice is
// silent. A plain value.
#pragma once

#include <string>

namespace autocfg {

struct OpChoice {
  std::string text;   // one line: the shape, what computes it, and why that where it could be another
  bool usual = true;  // as expected of such a shape on such a device; what is not is to be said in any case
};

}  // namespace autocfg
