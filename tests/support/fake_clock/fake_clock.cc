// Steps the clock of one process: preloaded (LD_PRELOAD), it adds a number of seconds to CLOCK_REALTIME. The
// number is the double in the file that FAKE_CLOCK names, and may change at any time. Waits until a moment of
// CLOCK_REALTIME follow the step, as they follow a step of the machine's clock. Other clocks are left alone.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

namespace {

constexpr long kNanoseconds = 1'000'000'000;
constexpr double kLongestWait = 0.03;  // seconds; then a wait looks at the clock again

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int RealTime(clockid_t clock, timespec* time) {
  static const auto next = Next<int (*)(clockid_t, timespec*)>("clock_gettime");
  return next(clock, time);
}

// Returns the seconds that are added now.
double Step() {
  static const volatile double* const step = [] {
    static const double none = 0;
    const char* path = std::getenv("FAKE_CLOCK");
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return &none;
    void* mapped = mmap(nullptr, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? &none : static_cast<const double*>(mapped);
  }();
  return *step;
}

void Add(timespec& time, double seconds) {
  const double whole = std::floor(seconds);
  time.tv_sec += static_cast<time_t>(whole);
  time.tv_nsec += static_cast<long>((seconds - whole) * 1e9);
  if (time.tv_nsec < kNanoseconds) return;
  time.tv_nsec -= kNanoseconds;
  ++time.tv_sec;
}

bool Before(const timespec& a, const timespec& b) {
  return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

// A wait until a moment of the stepped clock, or for a short time if that moment is far.
struct Wait {
  explicit Wait(const timespec& stepped) : until(stepped) {
    Add(until, -Step());
    if (until.tv_sec < 0) until = {};
    timespec soon{};
    RealTime(CLOCK_REALTIME, &soon);
    Add(soon, kLongestWait);
    whole = !Before(soon, until);
    if (!whole) until = soon;
  }
  timespec until;
  bool whole = true;
};

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int failed = RealTime(clock, time);
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) Add(*time, Step());
  return failed;
}

int gettimeofday(timeval* __restrict time, void* __restrict /*zone*/) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* time) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (time != nullptr) *time = now.tv_sec;
  return now.tv_sec;
}

// A wait that ended early returns as after a spurious wakeup.
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  static const auto next =
      Next<int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  const Wait wait(*until);
  const int result = next(condition, mutex, &wait.until);
  return result == ETIMEDOUT && !wait.whole ? 0 : result;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static const auto next =
      Next<int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  if (clock != CLOCK_REALTIME) return next(condition, mutex, clock, until);
  const Wait wait(*until);
  const int result = next(condition, mutex, clock, &wait.until);
  return result == ETIMEDOUT && !wait.whole ? 0 : result;
}

// Abseil waits with futexes.
long syscall(long number, ...) noexcept {
  static const auto next = Next<long (*)(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  const bool waits = number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 && a[3] != 0;
  if (!waits) return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  while (true) {
    const timespec* until = nullptr;
    std::memcpy(&until, &a[3], sizeof(until));
    const Wait wait(*until);
    const long result = next(number, a[0], a[1], a[2], &wait.until, a[4], a[5]);
    if (result != -1 || errno != ETIMEDOUT || wait.whole) return result;
  }
}
}
