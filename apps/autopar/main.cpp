#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "base/problems.h"
#include "base/process_name.h"
#include "base/text.h"
#include "commands.h"
#include "failing.h"
#include "lack_of_memory.h"
#include "launch.h"
#include "log.h"

namespace {

constexpr int failed = 1;
constexpr int wrong_usage = 2;
/// Iterations of libgomp's spin loop: a fifth of a millisecond or less, where its default is 30
/// times as long. Most loops of a model end within it, and waking a thread takes a tenth of it.
constexpr const char* turns = "10000";

/// Makes the threads of a parallel loop spin for a moment and then sleep while they wait for each
/// other, which leaves the cores to other processes on a busy machine. Does nothing where the
/// environment sets a policy. Call it first: it executes the program again, since libgomp reads the
/// environment before main.
void use_short_waits(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv("GOMP_SPINCOUNT", turns, 0) != 0) return;
  execv(program.c_str(), argv);  // returns only where that is impossible; then waits are long
}

/// Whether the word is no command; then standard error has the one that was probably meant.
bool tells_unknown_command(const CLI::App& app, std::string_view word) {
  std::size_t least = word.size() / 3 + 2;  // edits that make another word of it
  std::string nearest;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::size_t distance = autopar::edit_distance(word, command->get_name());
    if (distance == 0) return false;
    if (distance >= least) continue;
    least = distance;
    nearest = command->get_name();
  }
  spdlog::error(
      "autopar has no command '{}'; {}", autopar::one_line(std::string(word)),
      nearest.empty() ? "autopar --help lists them" : fmt::format("did you mean '{}'?", nearest));
  return true;
}

/// Runs the subcommand; the exit code.
int run_command(int argc, char** argv) {
  CLI::App app{"autopar: split an ONNX model over several devices and run it", "autopar"};
  app.set_version_flag("--version", AUTOPAR_VERSION);
  app.require_subcommand(1);
  autopar::add_partition_command(app);
  autopar::add_plan_command(app);
  autopar::add_run_command(app);
  autopar::add_serve_command(app);
  autopar::add_generate_command(app);
  autopar::add_verify_command(app);
  autopar::add_inspect_command(app);
  autopar::add_calibrate_command(app);
  autopar::LogChoice log;
  log.add_to(app);
  for (CLI::App* command : app.get_subcommands({})) log.add_to(*command);
  app.parse_complete_callback([&] {
    if (const auto rank = autopar::presumed_rank(*app.get_subcommands().front()))
      autopar::set_process_name(fmt::format("[rank {}] ", *rank));
    log.start();
  });
  autopar::add_printed_texts(app);
  if (argc > 1 && argv[1][0] != '-' && tells_unknown_command(app, argv[1])) return wrong_usage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::RuntimeError& done) {  // with an exit code of its own
    return done.get_exit_code();
  } catch (const CLI::ParseError& usage) {
    app.exit(usage);
    return wrong_usage;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    autopar::fail("cannot write the results to standard output; is the disk full?");
  return 0;
}

/// The same, each error being told in a line.
int run_told(int argc, char** argv) {
  try {
    autopar::start_log();
    return run_command(argc, argv);
  } catch (const std::bad_alloc& error) {
    return autopar::fail_for_memory(error);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      spdlog::error("{}", autopar::one_line(error.what()));
    } else {
      spdlog::error(
          "a thread cannot be started: {}; raise the limit of processes (ulimit -u) or of memory "
          "(ulimit -v)",
          error.code().message());
    }
    return failed;
  } catch (const nlohmann::json::type_error&) {  // of what is written; what is read is checked
    spdlog::error("a name in the model, or its file's, is not UTF-8, as JSON needs it; rename it");
    return failed;
  } catch (const autopar::SeveralErrors& errors) {
    for (const std::string& line : errors.lines()) spdlog::error("{}", autopar::one_line(line));
    return failed;
  } catch (const std::exception& error) {
    spdlog::error("{}", autopar::one_line(error.what()));
    return failed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  use_short_waits(argv);
  autopar::end_in_one_line_without_memory();
  const int code = run_told(argc, argv);
  if (!autopar::ends_soon()) return code;
  spdlog::default_logger()->flush();
  std::_Exit(code);
}
