// Runs numbered tasks on several threads and hands over their results in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace autocfg::base {

// How many threads a computation may use, and how the CPU time of those that it starts is counted.
struct TaskThreads {
  int count = 1;
  // Returns the CPU seconds of the calling thread; null: CPU time is not counted.
  double (*cpu_seconds)() = nullptr;
  double* add_cpu_seconds = nullptr;  // where those of the threads started are added, by the calling thread
};

struct OrderedTasks {
  std::size_t count = 0;
  // Runs a task on thread `thread`, from 0 (the calling thread) to the number of threads - 1. Should return
  // soon once `stop` is set. A thread starts tasks in ascending order. False ends the rest.
  std::function<bool(std::size_t thread, std::size_t task, const std::atomic<bool>& stop)> run;
  // Called on the calling thread for each task that has run, in the order of the tasks. False ends the rest.
  std::function<bool(std::size_t task)> done;
  // Called on the calling thread every few milliseconds while it waits for others. False ends the rest.
  std::function<bool()> goes_on;
};

// Runs the tasks. Returns whether all were done: false if one of the functions ended them. All threads have
// ended when it returns. Rethrows the exception of the first task that threw one.
bool RunInOrder(const OrderedTasks& tasks, const TaskThreads& threads);

}  // namespace autocfg::base
