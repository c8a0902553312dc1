// What a process asks its host for: environment variables, names of the machine and its kernel, the time and
// random IDs. Thread-safe unless the environment changes concurrently.
#pragma once

#include <functional>
#include <string>

namespace autocfg::base {

// Returns the environment variable `name`; empty if unset.
std::string Environment(const char* name);

// Returns the result of gethostname(2); empty on failure.
std::string HostName();

// Returns an ID of the running kernel, and so of the machine that numbers the CPUs. All containers on a
// machine share it. Falls back to the host name if the kernel provides none.
std::string KernelId();

// A clock in Unix seconds. Injected, so that tests can supply their own. Several threads call a Clock.
using Clock = std::function<double()>;

// Returns the clock of the machine, which its administrator or NTP may step.
Clock SystemClock();

// Returns a clock that nobody steps: the system's time when the process first asked for this clock, plus the
// time that has passed since, including that in which the machine was suspended or the process stopped.
// Decisions (leases, budgets, who is silent) go by it.
Clock SteadyClock();

// Returns 128 bits of the system's randomness as 32 hexadecimal digits.
std::string RandomId();

}  // namespace autocfg::base
