// An implementation that an op chose among several for a shape. Choices are logged, so that none is silent. A
// plain value.
#pragma once

#include <string>

namespace autocfg {

struct OpChoice {
  std::string text;   // one line: the shape, its implementation, and the reason if there was a choice
  bool usual = true;  // expected for this shape on this device; unusual choices are always reported
};

}  // namespace autocfg
