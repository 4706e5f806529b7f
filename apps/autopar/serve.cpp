#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/interruption.h"
#include "base/problems.h"
#include "commands.h"
#include "device_choice.h"
#include "input_options.h"
#include "launch.h"
#include "log.h"
#include "model_options.h"
#include "planner/independent_rows.h"
#include "planner/shape_source.h"
#include "planner/structure.h"
#include "runtime/session.h"
#include "serving/lasting_session.h"
#include "serving/model_server.h"
#include "serving/request_joiner.h"

namespace autopar {
namespace {

/// "2ms"
std::chrono::microseconds parsed_delay(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, double>, 3> units = {
      {{"us", 1}, {"ms", 1e3}, {"s", 1e6}}};
  constexpr double most = 60e6;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  for (const auto& [unit, microseconds] : units)
    if (error == std::errc() && std::string_view(rest, end) == unit && number >= 0 &&
        number * microseconds <= most)
      return std::chrono::microseconds(static_cast<std::int64_t>(number * microseconds));
  fail("--max-delay {}: give a time of up to a minute, such as 500us, 2ms or 1s", text);
}

/// Shapes of ports as the model declares them, where it says that an extent may vary.
void open_shapes(std::vector<runtime::ModelPort>& ports,
                 const std::map<std::string, graph::Shape>& declared) {
  for (runtime::ModelPort& port : ports) {
    const auto own = declared.find(port.name);
    if (own == declared.end() || !port.shape || own->second.size() != port.shape->size()) continue;
    for (std::size_t d = 0; d < own->second.size(); ++d)
      if (own->second[d] != (*port.shape)[d]) (*port.shape)[d] = -1;
  }
}

struct ServeCommand {
  std::filesystem::path dir;
  std::string limits;
  std::string name;
  DeviceChoice device;
  LaunchChoice launching;
  serving::ServerOptions options{.version = AUTOPAR_VERSION};
  std::optional<std::int64_t> most_rows;
  std::string delay;

  runtime::SessionOptions session_options;

  void run() {
    Problems problems;
    problems.collect([&] { session_options.device = device.checked(); });
    problems.collect([&] { session_options.launch = launching.checked(); });
    problems.collect([&] { session_options.shapes = planner::shape_source(dir, limits); });
    problems.collect([&] { check_joining(); });
    problems.throw_if_any();
    session_options.command = "serve";
    serving::LastingSession session(dir, session_options);
    if (session.get().has_first_rank())
      lead(session);
    else
      follow(session.get());
  }

 private:
  void check_joining() {
    constexpr std::int64_t most = 4096;
    if (most_rows && (*most_rows < 1 || *most_rows > most))
      fail("--max-batch {}: give 1 to {} rows", *most_rows, most);
    if (delay.empty()) return;
    options.most_delay = parsed_delay(delay);
    if (!most_rows) fail("--max-delay {}: it is for requests that --max-batch joins", delay);
  }

  serving::ServedModel served_model(const runtime::Session& session) const {
    serving::ServedModel model{
        .name = model_name(), .inputs = session.inputs(), .outputs = session.outputs()};
    const auto declared = planner::declared_shapes(dir);
    open_shapes(model.inputs, declared);
    open_shapes(model.outputs, declared);
    return model;
  }

  /// A place in use is known before weights are read.
  void lead(serving::LastingSession& session) const {
    const serving::ServedModel model = served_model(session.get());
    serving::check_types(model);
    serving::ModelServer server(model, options);
    session.get().load();
    std::optional<serving::RequestJoiner> joiner;
    if (most_rows) {
      joiner.emplace(session, planner::row_proof(dir, limits), *most_rows);
      joiner->check();
    }
    const InterruptionGuard guard;
    tell(fmt::format("serving '{}' at http://{}", model.name, server.place()));
    server.run(session, joiner ? &*joiner : nullptr, was_interrupted);
    session.get().end_lead();
  }

  /// Who ends a launcher ends rank 0 by that, which ends the others in order.
  void follow(runtime::Session& session) const {
    session.load();
    std::optional<InterruptionGuard> guard;
    if (!launching.rank) guard.emplace();
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
  add_limits_option(*sub, command->limits);
  sub->add_option("--listen", command->options.place,
                  "HOST:PORT or [ADDRESS]:PORT, without encryption or authentication; port 0 is "
                  "any that is free")
      ->capture_default_str();
  sub->add_option("--name", command->name, "The model's name in URLs (default: the bundle's)");
  sub->add_option("--max-body", command->options.most_body_bytes,
                  "Largest body of a request: 64MiB, 1048576")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->default_str("256MiB");
  sub->add_option("--max-batch", command->most_rows,
                  "Join requests that come together along the batch, up to so many rows a run; "
                  "answers have the bytes that they would have alone");
  sub->add_option("--max-delay", command->delay,
                  "How long a request may wait for others to be joined with: 2ms (default: none)");
  add_shape_cache_option(*sub, command->session_options.shape_cache_bytes);
  command->launching.add_to(*sub);
  command->device.add_to(*sub);
  add_operators_option(*sub);
  sub->callback([command] { command->run(); });
}

}  // namespace autopar
