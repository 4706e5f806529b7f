#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/interruption.h"
#include "base/problems.h"
#include "commands.h"
#include "device_choice.h"
#include "input_options.h"
#include "launch.h"
#include "model_options.h"
#include "planner/shape_source.h"
#include "runtime/comm/mpi_launch.h"
#include "runtime/session.h"
#include "serving/lasting_session.h"
#include "serving/model_server.h"

namespace autopar {
namespace {

struct ServeCommand {
  std::filesystem::path dir;
  std::string name;
  DeviceChoice device;
  LaunchChoice launching;
  serving::ServerOptions options{.version = AUTOPAR_VERSION};

  runtime::SessionOptions session_options;

  void run() {
    Problems problems;
    problems.collect([&] { session_options.device = device.checked(); });
    problems.collect([&] { session_options.launch = launching.checked(); });
    problems.collect([&] { session_options.shapes = planner::shape_source(dir); });
    problems.throw_if_any();
    serving::LastingSession session(dir, session_options);
    if (session.get().has_first_rank())
      lead(session);
    else
      follow(session.get());
  }

 private:
  /// A place in use is known before weights are read.
  void lead(serving::LastingSession& session) const {
    serving::ServedModel model{
        .name = model_name(), .inputs = session.get().inputs(), .outputs = session.get().outputs()};
    serving::check_types(model);
    serving::ModelServer server(model, options);
    session.get().load();
    const InterruptionGuard guard;
    fmt::print(stderr, "serving '{}' at http://{}\n", model.name, server.place());
    server.run(session, was_interrupted);
    session.get().end_lead();
  }

  /// Who ends mpirun ends rank 0 by that, which ends the others in order.
  void follow(runtime::Session& session) const {
    session.load();
    std::optional<InterruptionGuard> guard;
    if (launching.rendezvous.empty() && runtime::started_by_launcher()) guard.emplace();
    session.follow();
  }

  std::string model_name() const {
    if (!name.empty()) return name;
    const std::filesystem::path whole = std::filesystem::weakly_canonical(dir);
    return whole.filename().string();
  }
};

}  // namespace

void add_serve_command(CLI::App& app) {
  auto command = std::make_shared<ServeCommand>();
  CLI::App* sub = app.add_subcommand(
      "serve", "Serve a bundle over HTTP by the Open Inference Protocol, version 2");
  sub->add_option("--dir", command->dir, "The bundle")->required();
  sub->add_option("--listen", command->options.place,
                  "HOST:PORT or [ADDRESS]:PORT, without encryption or authentication; port 0 is "
                  "any that is free")
      ->capture_default_str();
  sub->add_option("--name", command->name, "The model's name in URLs (default: the bundle's)");
  sub->add_option("--max-body", command->options.most_body_bytes,
                  "Largest body of a request: 64MiB, 1048576")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->default_str("256MiB");
  add_shape_cache_option(*sub, command->session_options.shape_cache_bytes);
  command->launching.add_to(*sub);
  command->device.add_to(*sub);
  add_operators_option(*sub);
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
