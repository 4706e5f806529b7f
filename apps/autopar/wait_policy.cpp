#include "wait_policy.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace autopar {
namespace {

/// Iterations of libgomp's spin loop: a fifth of a millisecond or less, where its default is 30
/// times as long. Most loops of a model end within it, and waking a thread takes a tenth of it.
constexpr const char* turns = "10000";

}  // namespace

void use_short_waits(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv("GOMP_SPINCOUNT", turns, 0) != 0) return;
  execv(program.c_str(), argv);  // returns only where that is impossible; then waits are long
}

}  // namespace autopar
