#include "base/ordered_tasks.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace autocfg::base {
namespace {

constexpr auto kWait = std::chrono::milliseconds(2);

class Runner {
 public:
  explicit Runner(const OrderedTasks& tasks) : tasks_(tasks), ran_(tasks.count), errors_(tasks.count) {}

  // Takes tasks until there are none left. Of the threads that were started.
  void Work(std::size_t thread) {
    while (!stop_) {
      const std::size_t task = next_++;
      if (task >= tasks_.count) return;
      Run(thread, task);
    }
  }

  // As Work, on the calling thread, which hands over results between two tasks and waits for the last ones.
  bool WorkAndHandOver() {
    for (std::size_t done = 0; done < tasks_.count;) {
      if (stop_) return false;
      if (HasRun(done)) {
        if (errors_[done]) {
          Stop();
          return false;
        }
        if (!tasks_.done(done++)) {
          Stop();
          return false;
        }
        continue;
      }
      if (const std::size_t task = next_++; task < tasks_.count) {
        Run(0, task);
        continue;
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kWait, [&] { return ran_[done] != 0; });
      if (ran_[done]) continue;
      lock.unlock();
      if (!tasks_.goes_on()) {
        Stop();
        return false;
      }
    }
    return true;
  }

  void Stop() { stop_ = true; }

  void Rethrow() const {
    for (const std::exception_ptr& error : errors_) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  void Run(std::size_t thread, std::size_t task) {
    std::exception_ptr error;
    try {
      if (!tasks_.run(thread, task, stop_)) Stop();
    } catch (...) {
      error = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    errors_[task] = error;
    ran_[task] = 1;
    changed_.notify_one();
  }

  bool HasRun(std::size_t task) {
    const std::scoped_lock lock(mutex_);
    return ran_[task] != 0;
  }

  const OrderedTasks& tasks_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<char> ran_;                   // under the mutex
  std::vector<std::exception_ptr> errors_;  // written before `ran_`, read after it or after all have ended
};

}  // namespace

bool RunInOrder(const OrderedTasks& tasks, const TaskThreads& threads) {
  const auto most =
      std::max<std::size_t>(1, std::min(static_cast<std::size_t>(std::max(1, threads.count)), tasks.count));
  Runner runner(tasks);
  std::vector<double> cpu_s(most, 0);
  bool all = false;
  {
    std::vector<std::jthread> started;
    struct StopAtEnd {  // before the threads are joined, whatever is thrown
      Runner& runner;
      ~StopAtEnd() { runner.Stop(); }
    };
    const auto count_cpu = threads.cpu_seconds;
    for (std::size_t thread = 1; thread < most; ++thread) {
      started.emplace_back([&runner, &cpu_s, count_cpu, thread] {
        runner.Work(thread);
        if (count_cpu != nullptr) cpu_s[thread] = count_cpu();
      });
    }
    const StopAtEnd stop{runner};
    all = runner.WorkAndHandOver();
  }
  if (threads.add_cpu_seconds != nullptr) {
    for (const double seconds : cpu_s) *threads.add_cpu_seconds += seconds;
  }
  runner.Rethrow();
  return all;
}

}  // namespace autocfg::base
