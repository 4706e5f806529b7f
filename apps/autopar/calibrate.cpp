#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "device_choice.h"
#include "launch.h"
#include "log.h"
#include "planner/calibration.h"
#include "progress.h"

namespace autopar {

namespace {

struct CalibrateCommand {
  planner::CalibrationOptions options{.progress = show_progress};
  DeviceChoice device;
  LaunchChoice launching;

  void run() {
    options.device = device.checked();
    options.launch = launching.checked();
    const std::optional<std::string> told = planner::calibrate(options);
    if (!told) return;
    tell(*told);
    fmt::print("{}\n", options.out.string());
  }
};

}  // namespace

void add_calibrate_command(CLI::App& app) {
  auto command = std::make_shared<CalibrateCommand>();
  CLI::App* sub = app.add_subcommand(
      "calibrate",
      "Measure this machine and write a device file: once, before plan and partition use it");
  sub->add_option("--out", command->options.out, "The device file to write")->required();
  sub->add_flag("--force", command->options.force, "Replace an existing file");
  sub->add_option("--ranks", command->options.ranks,
                  "Ranks that work at once (default: those that were started, else 2 threads)");
  sub->add_option("--mesh", command->options.mesh,
                  "The ranks as a mesh, e.g. 2x4: a link for each axis");
  sub->add_option("--name", command->options.name, "What the file calls the device")
      ->capture_default_str();
  sub->add_flag("--quick", command->options.quick, "Seconds instead of a minute or two, and rough");
  command->launching.add_to(*sub);
  command->device.add_to(*sub);
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
