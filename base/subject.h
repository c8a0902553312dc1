// Errors that carry the subject they are about as data, so that callers can name another subject (a command
// line option, a field of a request) without editing message texts. Thread-safe.
//
// The message of such a status is "SUBJECT: PROBLEM". Both parts are also an absl::Status payload.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace autocfg::base {

// Returns an error of `code` about `subject` ("plan", "model", "spec.cluster"): "SUBJECT: PROBLEM".
absl::Status SubjectError(absl::StatusCode code, std::string_view subject, std::string_view problem);

// SubjectError of the usual codes.
absl::Status InvalidArgument(std::string_view subject, std::string_view problem);
absl::Status Unimplemented(std::string_view subject, std::string_view problem);
absl::Status NotFound(std::string_view subject, std::string_view problem);

// SubjectError with a label that the message shows in place of the subject ("cluster of a100-80gb-sxm").
absl::Status SubjectError(absl::StatusCode code, std::string_view subject, std::string_view label,
                          std::string_view problem);

// Returns an error about one option or field of `subject`: "SUBJECT: PROBLEM". OptionOf returns `option`.
absl::Status OptionError(absl::StatusCode code, std::string_view subject, std::string_view option,
                         std::string_view problem);

// The parts of an error; empty if the status does not carry them.
std::string SubjectOf(const absl::Status& status);
std::string OptionOf(const absl::Status& status);

// Returns the problem without its subject; the whole message if the status carries no subject.
std::string ProblemOf(const absl::Status& status);

// Returns the same error about another subject: "SUBJECT: PROBLEM". OK statuses stay OK.
absl::Status WithSubject(std::string_view subject, const absl::Status& status);

// Returns the error with `outer` in front: "OUTER: MESSAGE". Its subject is `outer`; its problem and option are
// those of `status`, so that WithSubject replaces both subjects. OK statuses stay OK.
absl::Status Within(std::string_view outer, const absl::Status& status);

}  // namespace autocfg::base
