// A thread of execution with a stack of its own that runs only when it is resumed: one per thread of the
// block that is being emulated. All of it happens on one thread of the operating system. For x86-64.
#pragma once

#include <cstddef>

namespace autocfg::cuda_emulator {

class Fiber {
 public:
  Fiber();  // throws std::bad_alloc where there is no memory for a stack
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Gives it something to run. It is at rest: new, or what it ran has returned.
  void Start(void (*body)(void*), void* argument);
  // Runs it until it yields or its body returns. Called from outside all fibers.
  void Resume();
  // Gives back control to Resume. Called from inside.
  void Yield();

  bool done() const { return body_ == nullptr; }

 private:
  static void Main(Fiber* self);

  void* stack_ = nullptr;     // with a page below it that faults
  void* position_ = nullptr;  // its stack pointer while it does not run
  void* outside_ = nullptr;   // that of its resumer while it runs
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  // What AddressSanitizer wants to know of stacks that change.
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
};

}  // namespace autocfg::cuda_emulator
