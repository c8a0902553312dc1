// Macros that return errors to the caller: the early exits of functions that return absl::Status or
// absl::StatusOr.
//
//   absl::StatusOr<Plan> ReadPlan(const std::string& path) {
//     AUTOCFG_RETURN_IF_ERROR(CheckReadable(path));                 // returns its status unless it is OK
//     AUTOCFG_ASSIGN_OR_RETURN(const auto text, ReadFile(path));    // declares text, the value
//     Plan plan;
//     AUTOCFG_ASSIGN_OR_RETURN(plan.options, ParseOptions(text));   // assigns to an existing object
//     return plan;
//   }
//
// The error is returned unchanged. A caller that adds to the error, or returns another type, writes the test:
//
//   const auto text = ReadFile(path);
//   if (!text.ok()) return WithSubject("--plan", text.status());
//
// Callers of AUTOCFG_ASSIGN_OR_RETURN include absl/status/statusor.h, usually by the header that declares
// the function.
#pragma once

#include <utility>

#include "absl/status/status.h"

// Evaluates an expression of type absl::Status once. Returns the status from the enclosing function, or
// lambda, if it is not OK. One statement; the expression may contain commas.
#define AUTOCFG_RETURN_IF_ERROR(...) \
  AUTOCFG_RETURN_IF_ERROR_NAMED(AUTOCFG_STATUS_MACROS_JOIN(autocfg_status_, __COUNTER__), __VA_ARGS__)

// Evaluates an expression of type absl::StatusOr<T> once. Returns its status from the enclosing function, or
// lambda, if it is not OK. Otherwise moves the value to `lhs`, a declaration or an assignable expression.
// `lhs` must not contain a comma outside parentheses (use `auto`). Expands to several statements: the body of
// an `if` or a loop needs braces.
#define AUTOCFG_ASSIGN_OR_RETURN(lhs, ...)                                                         \
  AUTOCFG_ASSIGN_OR_RETURN_NAMED(AUTOCFG_STATUS_MACROS_JOIN(autocfg_status_or_, __COUNTER__), lhs, \
                                 __VA_ARGS__)

// Private. __COUNTER__ keeps names apart where a macro is used in a lambda within the expression of another.
#define AUTOCFG_RETURN_IF_ERROR_NAMED(status, ...)                        \
  do {                                                                    \
    if (absl::Status status = (__VA_ARGS__); !status.ok()) return status; \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot be in parentheses
#define AUTOCFG_ASSIGN_OR_RETURN_NAMED(result, lhs, ...) \
  auto result = (__VA_ARGS__);                           \
  if (!result.ok()) return std::move(result).status();   \
  lhs = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#define AUTOCFG_STATUS_MACROS_JOIN(a, b) AUTOCFG_STATUS_MACROS_JOIN_EXPANDED(a, b)
#define AUTOCFG_STATUS_MACROS_JOIN_EXPANDED(a, b) a##b
