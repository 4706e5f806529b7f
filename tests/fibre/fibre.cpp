#include "fibre/fibre.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <new>

// GCC tells of sanitizers by macros, clang by features.
#ifdef __has_feature
#define AUTOPAR_HAS_FEATURE(name) __has_feature(name)
#else
#define AUTOPAR_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || AUTOPAR_HAS_FEATURE(address_sanitizer)
#define AUTOPAR_FIBRE_ASAN
#endif
#if defined(__SANITIZE_THREAD__) || AUTOPAR_HAS_FEATURE(thread_sanitizer)
#define AUTOPAR_FIBRE_TSAN
#endif

#ifdef AUTOPAR_FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef AUTOPAR_FIBRE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace autopar {

namespace {

namespace context = boost::context::detail;

constexpr std::size_t guard_bytes = 4096;
#if defined(AUTOPAR_FIBRE_ASAN) || defined(AUTOPAR_FIBRE_TSAN)
constexpr std::size_t stack_bytes = 256 << 10;
#else
constexpr std::size_t stack_bytes = 128 << 10;
#endif

void start_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* stack,
                  [[maybe_unused]] std::size_t bytes, [[maybe_unused]] void* thread) {
#ifdef AUTOPAR_FIBRE_ASAN
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#endif
#ifdef AUTOPAR_FIBRE_TSAN
  __tsan_switch_to_fiber(thread, 0);
#endif
}

void finish_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** stack,
                   [[maybe_unused]] std::size_t* bytes) {
#ifdef AUTOPAR_FIBRE_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
#endif
}

}  // namespace

/// Where a fibre starts: one task after the other, so that the stack is set up once.
struct Fibre::Entry {
  static void run(context::transfer_t transfer) {
    auto* fibre = static_cast<Fibre*>(transfer.data);
    finish_switch(nullptr, &fibre->owner_stack_, &fibre->owner_stack_bytes_);
    fibre->owner_context_ = transfer.fctx;
    while (true) {
      (*fibre->task_)();
      fibre->suspend();
    }
  }
};

Fibre::Fibre(int number) : skipped_(static_cast<std::size_t>(number) % 32 * 128) {
  void* mapping = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  mprotect(mapping_, guard_bytes, PROT_NONE);
  make();
}

Fibre::~Fibre() {
  unmake();
  munmap(mapping_, guard_bytes + stack_bytes);
}

void Fibre::make() {
  const std::size_t bytes = stack_bytes - skipped_;
  context_ = context::make_fcontext(mapping_ + guard_bytes + bytes, bytes, &Entry::run);
#ifdef AUTOPAR_FIBRE_TSAN
  thread_ = __tsan_create_fiber(0);
#endif
}

void Fibre::unmake() {
#ifdef AUTOPAR_FIBRE_ASAN
  ASAN_UNPOISON_MEMORY_REGION(mapping_ + guard_bytes, stack_bytes);
#endif
#ifdef AUTOPAR_FIBRE_TSAN
  __tsan_destroy_fiber(thread_);
#endif
}

void Fibre::abandon() {
  unmake();
  fake_stack_ = nullptr;
  make();
}

void Fibre::resume(const std::function<void()>& task) {
  task_ = &task;
#ifdef AUTOPAR_FIBRE_TSAN
  owner_thread_ = __tsan_get_current_fiber();
#endif
  void* fake_stack = nullptr;
  start_switch(&fake_stack, mapping_ + guard_bytes, stack_bytes, thread_);
  context_ = context::jump_fcontext(context_, this).fctx;
  finish_switch(fake_stack, nullptr, nullptr);
}

void Fibre::suspend() {
  start_switch(&fake_stack_, owner_stack_, owner_stack_bytes_, owner_thread_);
  owner_context_ = context::jump_fcontext(owner_context_, nullptr).fctx;
  finish_switch(fake_stack_, &owner_stack_, &owner_stack_bytes_);
}

}  // namespace autopar
