#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "base/problems.h"
#include "commands.h"
#include "wait_policy.h"

namespace {

constexpr int failed = 1;
constexpr int wrong_usage = 2;

/// Names out of a file may hold line breaks or a terminal's control sequences.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  autopar::use_short_waits(argv);
  spdlog::set_default_logger(spdlog::stderr_color_mt("autopar"));
  spdlog::set_pattern("%^%l%$: %v");

  CLI::App app{"autopar: split an ONNX model over several devices and run it", "autopar"};
  app.set_version_flag("--version", AUTOPAR_VERSION);
  app.require_subcommand(1);
  autopar::add_partition_command(app);
  autopar::add_plan_command(app);
  autopar::add_run_command(app);
  autopar::add_verify_command(app);
  autopar::add_inspect_command(app);
  autopar::add_calibrate_command(app);

  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      autopar::fail("cannot write the results to standard output; is the disk full?");
    }
    return 0;
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& usage) {
    app.exit(usage);
    return wrong_usage;
  } catch (const std::bad_alloc&) {
    spdlog::error("out of memory");
    return failed;
  } catch (const nlohmann::json::type_error&) {  // of what is written; what is read is checked
    spdlog::error("a name in the model, or its file's, is not UTF-8, as JSON needs it; rename it");
    return failed;
  } catch (const autopar::SeveralErrors& errors) {
    for (const std::string& line : errors.lines()) spdlog::error("{}", one_line(line));
    return failed;
  } catch (const std::exception& error) {
    spdlog::error("{}", one_line(error.what()));
    return failed;
  }
}
