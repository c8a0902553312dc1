// The logical CPUs that a process may run on, on machines with however many. Thread-safe.
#pragma once

#include <sched.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

// More than any Linux numbers (CONFIG_NR_CPUS is at most 8192).
inline constexpr int kMostCpus = 8192;

// As sched_getaffinity(2) of this thread: 0, or -1 and errno.
using GetAffinity = std::function<int(std::size_t bytes, cpu_set_t* mask)>;

// Those that this thread may run on: at least one, ascending, each below kMostCpus. std::system_error says so
// where the system does not tell.
std::vector<int> AllowedCpus();
std::vector<int> AllowedCpus(const GetAffinity& get);  // for tests

// This thread, and those that it will start, run on these alone: at least one, each below kMostCpus.
// std::system_error where the machine does not have them or does not grant them.
void RunOnCpus(const std::vector<int>& cpus);

// "0,1,1031", in this order; nothing where it is no such list of numbers below kMostCpus.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);
std::string CpuListText(const std::vector<int>& cpus);

}  // namespace autocfg
