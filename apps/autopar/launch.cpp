#include "launch.h"

#include <cstdint>

#include "base/error.h"

namespace autopar {

runtime::LaunchOptions LaunchChoice::checked() const {
  if (!(timeout_seconds >= 0.001 && timeout_seconds <= 1e6))
    fail("--timeout {}: give seconds, above 0 and up to a million", timeout_seconds);
  const auto milliseconds = static_cast<std::int64_t>(timeout_seconds * 1000);
  return {.rank = rank,
          .rendezvous = rendezvous,
          .secret_file = secret_file,
          .tls = tls,
          .timeout = std::chrono::milliseconds(milliseconds)};
}

void LaunchChoice::add_to(CLI::App& command) {
  command.add_option("--rank", rank, "Run this rank alone, with --rendezvous");
  command.add_option("--rendezvous", rendezvous,
                     "HOST:PORT on rank 0's machine, where the ranks meet, the same for all");
  command.add_option("--secret-file", secret_file,
                     "What ranks that meet prove to know; by default AUTOPAR_SECRET's value or the "
                     "bundle's own");
  command.add_flag("--tls", tls, "Encrypt what goes between ranks that meet; give it to all");
  add_timeout_to(command);
}

void LaunchChoice::add_timeout_to(CLI::App& command) {
  command
      .add_option("--timeout", timeout_seconds,
                  "Seconds to wait for a rank that does not come or shows no sign that it works")
      ->capture_default_str();
}

}  // namespace autopar
