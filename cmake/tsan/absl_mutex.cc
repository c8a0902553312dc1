// Makes absl::Mutex and absl::CondVar visible to ThreadSanitizer. The system's libabsl is not instrumented,
// so accesses that it orders look like races.
//
// These definitions are linked into every ThreadSanitizer build of a program. They replace the library's
// definitions, for the program and for the libraries that it loads (gRPC too), and call them. As with absl's
// own annotations, accesses inside absl, including the evaluation of conditions, are ignored.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/base/dynamic_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

// Bounds of the program's code, defined by the linker.
extern "C" const char __executable_start;
extern "C" const char etext;

namespace {

#define AUTOCFG_TEXT_OF(name) #name
#define AUTOCFG_TEXT(name) AUTOCFG_TEXT_OF(name)
constexpr char kInnerNamespace[] = AUTOCFG_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
#undef AUTOCFG_TEXT
#undef AUTOCFG_TEXT_OF

// Returns the library's member function. `name` is its mangled name without absl's namespaces. Call it with
// `this` and the arguments.
template <typename Result, typename... Args>
auto Library(const char* name) {
  const std::string whole =
      "_ZN4absl" + std::to_string(std::strlen(kInnerNamespace)) + kInnerNamespace + name;
  void* const found = dlsym(RTLD_NEXT, whole.c_str());
  if (found == nullptr) {
    std::fprintf(stderr,
                 "cmake/tsan/absl_mutex.cc: no %s in libabsl_synchronization; adapt this file to that "
                 "version of absl\n",
                 whole.c_str());
    std::abort();
  }
  Result (*function)(Args...) = nullptr;
  std::memcpy(&function, &found, sizeof(function));
  return function;
}

bool IsOurs(const void* code) {
  const auto at = reinterpret_cast<std::uintptr_t>(code);
  return at >= reinterpret_cast<std::uintptr_t>(&__executable_start) &&
         at < reinterpret_cast<std::uintptr_t>(&etext);
}

constexpr unsigned kWrite = 0;
constexpr unsigned kRead = __tsan_mutex_read_lock;

// Wraps a call that acquires a mutex.
class Taking {
 public:
  Taking(void* mutex, unsigned how) : mutex_(mutex), how_(how) { __tsan_mutex_pre_lock(mutex_, how_); }
  ~Taking() { __tsan_mutex_post_lock(mutex_, how_, 0); }
  // Records the result of a try-lock.
  bool Taken(bool taken) {
    if (!taken) how_ |= __tsan_mutex_try_lock_failed;
    return taken;
  }

 private:
  void* const mutex_;
  unsigned how_;
};

// Wraps a call that releases a mutex.
class Giving {
 public:
  Giving(void* mutex, unsigned how) : mutex_(mutex), how_(how) { __tsan_mutex_pre_unlock(mutex_, how_); }
  ~Giving() { __tsan_mutex_post_unlock(mutex_, how_); }

 private:
  void* const mutex_;
  const unsigned how_;
};

// Call before a wait that releases a mutex and acquires it again. No caller waits with a reader lock.
void* GivenBack(void* mutex) {
  const Giving giving(mutex, kWrite);
  return mutex;
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  static const auto destroy = Library<void, Mutex*>("5MutexD1Ev");
  // A library counts an object's users by atomics that ThreadSanitizer does not see: the last use comes after
  // all others.
  if (!IsOurs(__builtin_return_address(0))) __tsan_acquire(this);
  __tsan_mutex_destroy(this, 0);
  // absl detects deadlocks with a table of all mutexes, under a lock of its own.
  ABSL_ANNOTATE_IGNORE_READS_AND_WRITES_BEGIN();
  destroy(this);
  ABSL_ANNOTATE_IGNORE_READS_AND_WRITES_END();
}

void Mutex::Lock() {
  static const auto lock = Library<void, Mutex*>("5Mutex4LockEv");
  const Taking taking(this, kWrite);
  lock(this);
}

bool Mutex::TryLock() {
  static const auto try_lock = Library<bool, Mutex*>("5Mutex7TryLockEv");
  Taking taking(this, kWrite | __tsan_mutex_try_lock);
  return taking.Taken(try_lock(this));
}

void Mutex::Unlock() {
  static const auto unlock = Library<void, Mutex*>("5Mutex6UnlockEv");
  const Giving giving(this, kWrite);
  unlock(this);
}

void Mutex::ReaderLock() {
  static const auto lock = Library<void, Mutex*>("5Mutex10ReaderLockEv");
  const Taking taking(this, kRead);
  lock(this);
}

bool Mutex::ReaderTryLock() {
  static const auto try_lock = Library<bool, Mutex*>("5Mutex13ReaderTryLockEv");
  Taking taking(this, kRead | __tsan_mutex_try_lock);
  return taking.Taken(try_lock(this));
}

void Mutex::ReaderUnlock() {
  static const auto unlock = Library<void, Mutex*>("5Mutex12ReaderUnlockEv");
  const Giving giving(this, kRead);
  unlock(this);
}

void Mutex::LockWhen(const Condition& condition) {
  static const auto lock = Library<void, Mutex*, const Condition&>("5Mutex8LockWhenERKNS0_9ConditionE");
  const Taking taking(this, kWrite);
  lock(this, condition);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static const auto lock = Library<bool, Mutex*, const Condition&, Time>(
      "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Taking taking(this, kWrite);
  return lock(this, condition, deadline);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  return LockWhenWithDeadline(condition, Now() + timeout);
}

void Mutex::ReaderLockWhen(const Condition& condition) {
  static const auto lock =
      Library<void, Mutex*, const Condition&>("5Mutex14ReaderLockWhenERKNS0_9ConditionE");
  const Taking taking(this, kRead);
  lock(this, condition);
}

bool Mutex::ReaderLockWhenWithDeadline(const Condition& condition, Time deadline) {
  static const auto lock = Library<bool, Mutex*, const Condition&, Time>(
      "5Mutex26ReaderLockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Taking taking(this, kRead);
  return lock(this, condition, deadline);
}

bool Mutex::ReaderLockWhenWithTimeout(const Condition& condition, Duration timeout) {
  return ReaderLockWhenWithDeadline(condition, Now() + timeout);
}

void Mutex::Await(const Condition& condition) {
  static const auto await = Library<void, Mutex*, const Condition&>("5Mutex5AwaitERKNS0_9ConditionE");
  const Taking again(GivenBack(this), kWrite);
  await(this, condition);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static const auto await =
      Library<bool, Mutex*, const Condition&, Time>("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Taking again(GivenBack(this), kWrite);
  return await(this, condition, deadline);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  return AwaitWithDeadline(condition, Now() + timeout);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto wait = Library<void, CondVar*, Mutex*>("7CondVar4WaitEPNS0_5MutexE");
  const Taking again(GivenBack(mutex), kWrite);
  wait(this, mutex);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto wait =
      Library<bool, CondVar*, Mutex*, Time>("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  const Taking again(GivenBack(mutex), kWrite);
  return wait(this, mutex, deadline);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  return WaitWithDeadline(mutex, Now() + timeout);
}

ABSL_NAMESPACE_END
}  // namespace absl
