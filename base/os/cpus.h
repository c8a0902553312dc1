// The logical CPUs that a process may use, on machines of any size. Thread-safe.
#pragma once

#include <sched.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg::base {

// Above any Linux CPU number (CONFIG_NR_CPUS is at most 8192).
inline constexpr int kMostCpus = 8192;

// Same contract as sched_getaffinity(2) for the calling thread: returns 0, or -1 and sets errno.
using GetAffinity = std::function<int(std::size_t bytes, cpu_set_t* mask)>;

// Returns the CPUs that the calling thread may use: at least one, ascending, each below kMostCpus. Throws
// std::system_error if the system call fails.
std::vector<int> AllowedCpus();
std::vector<int> AllowedCpus(const GetAffinity& get);  // for tests

// Restricts the calling thread, and threads that it starts later, to `cpus`: at least one, each below
// kMostCpus. Throws std::system_error if the machine lacks them or denies them.
void RunOnCpus(const std::vector<int>& cpus);

// Parses a list such as "0,1,1031" and keeps its order. Returns nullopt if the text is not a list of numbers
// below kMostCpus.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);
std::string CpuListText(const std::vector<int>& cpus);

}  // namespace autocfg::base
