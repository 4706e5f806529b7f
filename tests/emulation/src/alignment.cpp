#if defined(AUTOPAR_CHECKS_ALIGNMENT)

#include <cstdint>
#include <sstream>

#include "crash.h"
#include "emulation.h"

// Kernels are compiled with -fsanitize=alignment, whose reports come here: what x86 would read and
// write all the same is an error on a GPU.

namespace {

/// What GCC and Clang hand to the function below.
struct Access {
  const char* file;
  std::uint32_t line;
  std::uint32_t column;
  const void* type;
  unsigned char alignment_exponent;
  unsigned char kind;
};

}  // namespace

extern "C" void __ubsan_handle_type_mismatch_v1(Access* access, void* address) {
  if (!autopar::emulation::executes_kernel()) return;
  std::ostringstream operation;
  operation << "uses memory in " << access->file << ':' << access->line;
  autopar::emulation::require_aligned(operation.str().c_str(), address,
                                      std::size_t{1} << access->alignment_exponent);
}

#endif
