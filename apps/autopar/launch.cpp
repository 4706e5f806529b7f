#include "launch.h"

#include <cstdint>

#include "base/error.h"
#include "runtime/comm/launcher.h"

namespace autopar {

runtime::LaunchOptions LaunchChoice::checked() const {
  if (!(timeout_seconds >= 0.001 && timeout_seconds <= 1e6))
    fail("--timeout {}: give seconds, above 0 and up to a million", timeout_seconds);
  runtime::check_launcher(launcher);
  const auto milliseconds = static_cast<std::int64_t>(timeout_seconds * 1000);
  return {.rank = rank,
          .rendezvous = rendezvous,
          .secret_file = secret_file,
          .tls = tls,
          .timeout = std::chrono::milliseconds(milliseconds),
          .launcher = launcher};
}

void LaunchChoice::add_to(CLI::App& command) {
  command.add_option("--rank", rank, "Run this rank alone, with --rendezvous");
  command.add_option("--rendezvous", rendezvous,
                     "HOST:PORT on rank 0's machine, where the ranks meet, the same for all "
                     "(default: AUTOPAR_RENDEZVOUS, else as the launcher tells)");
  command
      .add_option("--launcher", launcher,
                  "Who may have started this process as one rank: torchrun, mpi, slurm, "
                  "kubernetes, auto for any, or none: run all ranks here")
      ->capture_default_str();
  command.add_option("--secret-file", secret_file,
                     "What ranks that meet prove to know; by default AUTOPAR_SECRET's value or the "
                     "bundle's own");
  command.add_flag("--tls", tls, "Encrypt what goes between ranks that meet; give it to all");
  command
      .add_option("--timeout", timeout_seconds,
                  "Seconds to wait for a rank that does not come or shows no sign that it works")
      ->capture_default_str();
}

std::optional<int> presumed_rank(const CLI::App& command) {
  const CLI::Option* const rank = command.get_option_no_throw("--rank");
  if (rank == nullptr) return std::nullopt;
  runtime::LaunchOptions options{.rendezvous = command["--rendezvous"]->as<std::string>(),
                                 .launcher = command["--launcher"]->as<std::string>()};
  if (rank->count() > 0) options.rank = rank->as<int>();
  return runtime::presumed_rank(runtime::process_surroundings(), options);
}

}  // namespace autopar
