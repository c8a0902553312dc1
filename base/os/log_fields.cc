#include "base/os/log_fields.h"

#include <utility>

namespace autocfg::base {
namespace {

thread_local const LogScope* innermost = nullptr;

}  // namespace

LogScope::LogScope(LogFields fields) : fields_(std::move(fields)), outer_(innermost) {
  for (std::string LogFields::*field :
       {&LogFields::study, &LogFields::trial, &LogFields::worker, &LogFields::lease, &LogFields::trace}) {
    if ((fields_.*field).empty()) fields_.*field = Current().*field;
  }
  innermost = this;
}

LogScope::~LogScope() { innermost = outer_; }

const LogFields& LogScope::Current() {
  static const LogFields kNone;
  return innermost == nullptr ? kNone : innermost->fields_;
}

}  // namespace autocfg::base
