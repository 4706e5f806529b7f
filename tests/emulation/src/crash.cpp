#include "crash.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "device_functions.h"
#include "memory.h"

namespace autopar::emulation {

namespace {

struct sigaction previous;

/// The instruction is executed again when this returns, and crashes as it would have.
void explain(int signal, siginfo_t* info, void*) {
  sigaction(signal, &previous, nullptr);
  char text[256];
  int length = 0;
  if (executes_kernel()) {
    length = std::snprintf(text, sizeof text,
                           "emulated kernel: block (%u,%u,%u), thread (%u,%u,%u) touched %p, which "
                           "is not mapped\n",
                           blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y,
                           threadIdx.z, info->si_addr);
  } else if (const int device = device_holding(info->si_addr, 1); device >= 0) {
    length = std::snprintf(text, sizeof text, "the host touched %p, memory of emulated device %d\n",
                           info->si_addr, device);
  }
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, text, static_cast<std::size_t>(length));
}

}  // namespace

void explain_crashes() {
  struct sigaction current;
  sigaction(SIGSEGV, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == explain) return;
  previous = current;
  struct sigaction ours {};
  ours.sa_sigaction = explain;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, nullptr);
}

bool& executes_kernel() {
  thread_local bool executes = false;
  return executes;
}

}  // namespace autopar::emulation
