#include "tests/support/cuda_emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace autocfg::cuda_emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStackBytes = std::size_t{256} << 10;  // physical memory is used only if touched

// Returns the offset of a stack's start below its end. Offsets differ, because few cache lines can hold the
// same place of many pages.
std::size_t NextOffset() {
  constexpr std::size_t kStep = 192;
  static std::size_t next = 0;
  next = (next + kStep) % kPage;
  return next;
}

}  // namespace

// Saves the callee-saved registers on the stack and the stack pointer in *from, then resumes the context that
// was saved in `to` the same way.
extern "C" void AutocfgSwitchStack(void** from, void* to);
asm(R"(
.text
.type AutocfgSwitchStack,@function
.globl AutocfgSwitchStack
AutocfgSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size AutocfgSwitchStack, .-AutocfgSwitchStack
.type AutocfgStartStack,@function
AutocfgStartStack:
  movq %rbx, %rdi
  callq *%r12
  ud2
.size AutocfgStartStack, .-AutocfgStartStack
)");
extern "C" void AutocfgStartStack();

Fiber::Fiber() {
  stack_ = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack_ == MAP_FAILED || mprotect(stack_, kPage, PROT_NONE) != 0) throw std::bad_alloc();
  // The values that AutocfgSwitchStack pops: r15, r14, r13, r12, rbx, rbp, the return address. The entry code
  // then calls Main(this) with the stack aligned as the calling convention requires.
  auto** top = reinterpret_cast<void**>(static_cast<char*>(stack_) + kPage + kStackBytes - NextOffset()) - 9;
  top[3] = reinterpret_cast<void*>(&Fiber::Main);
  top[4] = this;
  top[6] = reinterpret_cast<void*>(&AutocfgStartStack);
  position_ = top;
}

Fiber::~Fiber() { munmap(stack_, kPage + kStackBytes); }

void Fiber::Start(void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
}

void Fiber::Resume() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, static_cast<char*>(stack_) + kPage, kStackBytes);
#endif
  AutocfgSwitchStack(&outside_, position_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::Yield() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, outside_bottom_, outside_size_);
#endif
  AutocfgSwitchStack(&position_, outside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, &outside_bottom_, &outside_size_);
#endif
}

void Fiber::Main(Fiber* self) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_bottom_, &self->outside_size_);
#endif
  for (;;) {
    self->body_(self->argument_);
    self->body_ = nullptr;
    self->Yield();
  }
}

}  // namespace autocfg::cuda_emulator
