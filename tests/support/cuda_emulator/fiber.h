// A fiber: a thread of execution with its own stack that runs only when resumed. The emulator uses one per
// thread of the running block. All fibers share one thread of the operating system. For x86-64.
#pragma once

#include <cstddef>

namespace autocfg::cuda_emulator {

class Fiber {
 public:
  Fiber();  // throws std::bad_alloc if there is no memory for a stack
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Sets the function to run. Requires a new fiber, or one whose previous function has returned.
  void Start(void (*body)(void*), void* argument);
  // Runs the fiber until it yields or its body returns. Call from outside all fibers.
  void Resume();
  // Returns control to Resume. Call from inside the fiber.
  void Yield();

  bool done() const { return body_ == nullptr; }

 private:
  static void Main(Fiber* self);

  void* stack_ = nullptr;     // with a guard page below it
  void* position_ = nullptr;  // stack pointer while suspended
  void* outside_ = nullptr;   // the resumer's stack pointer while running
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  // Stack switching data for AddressSanitizer.
  [[maybe_unused]] const void* outside_bottom_ = nullptr;
  [[maybe_unused]] std::size_t outside_size_ = 0;
};

}  // namespace autocfg::cuda_emulator
