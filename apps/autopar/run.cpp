#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "base/partial_file.h"
#include "base/problems.h"
#include "bundle/meta_info.h"
#include "commands.h"
#include "device_choice.h"
#include "failing.h"
#include "input_options.h"
#include "launch.h"
#include "log.h"
#include "model_options.h"
#include "planner/device_here.h"
#include "planner/shape_source.h"
#include "planner/summary.h"
#include "runtime/held_states.h"
#include "runtime/session.h"
#include "runtime/step_loop.h"
#include "runtime/tensor_files.h"
#include "runtime/trace.h"
#include "serving/answer_lines.h"

namespace autopar {

using planner::collectives_table;
using planner::in_bytes;
using planner::in_seconds;

namespace {

double mean(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

double median(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const std::size_t middle = seconds.size() / 2;
  return seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
}

/// Predictions that are further than this from what was measured are told.
constexpr double far_factor = 1.5;

struct RunCommand {
  std::filesystem::path dir;
  std::string limits;
  InputOptions inputs;
  std::filesystem::path output_dir;
  DeviceChoice device;
  LaunchChoice launching;
  runtime::SessionOptions session_options;
  runtime::RunOptions options;
  std::vector<std::string> choices;
  std::filesystem::path profile;
  std::filesystem::path requests;
  bool json = false;

  void run() {
    if (!requests.empty()) return run_requests();
    const bundle::MetaInfo info = checked_bundle();
    session_options.command = "run";
    session_options.on_failure = end_soon;
    runtime::Session session(dir, session_options);
    const WorkScope work = session.at_work();
    if (session.has_first_rank()) warn_of_host_collectives();
    const runtime::NamedTensors given = inputs.load(info, options.loop);
    const runtime::RunResult result = session.run(given, options);
    if (!session.has_first_rank()) return;
    if (!output_dir.empty()) write_outputs(session.outputs(), result);
    if (!profile.empty()) report_profile(result);
    report(session, result, predicted_seconds(info, given, result));
  }

 private:
  /// Reads what the bundle tells. Throws Error for all that is wrong with the options at once;
  /// inputs are read then, too, else later, when all ranks would know that one has failed.
  bundle::MetaInfo checked_bundle() {
    bundle::MetaInfo info;
    Problems problems;
    problems.collect([&] { check_options(); });
    problems.collect([&] { session_options.device = device.checked(); });
    problems.collect([&] { session_options.launch = launching.checked(); });
    problems.collect([&] {
      if (!profile.empty()) runtime::check_trace_file(profile, "--profile");
    });
    problems.collect([&] {
      check_loop_options();
      options.loop.choices = parsed_choices();
      info = bundle::load_meta_info(dir);
      session_options.shapes = planner::shape_source(dir, limits);
      runtime::set_states(info, session_options.states);
      runtime::check_loop(info, info.profiles.front(), options.loop);
      if (options.loop.is_loop() && info.profiles.size() == 1)  // else the inputs tell which it is
        runtime::held_after(info, info.profiles.front(), options.loop, false, nullptr);
      // Which steps an input is for is known.
      if (problems.any()) inputs.load(info, options.loop);
    });
    problems.throw_if_any();
    return info;
  }

  /// Rank 0's process reads the requests, and the others follow it.
  void run_requests() {
    Problems problems;
    problems.collect([&] { check_options(); });
    problems.collect([&] { check_alone_with_requests(); });
    problems.collect([&] { session_options.device = device.checked(); });
    problems.collect([&] { session_options.launch = launching.checked(); });
    problems.collect([&] { session_options.shapes = planner::shape_source(dir, limits); });
    problems.throw_if_any();
    session_options.command = "run --requests";
    const auto [count, refused] = answers();
    if (refused > 0) fail("{} of {} requests were refused; their answers say why", refused, count);
  }

  serving::AnsweredLines answers() const {
    serving::LastingSession session(dir, session_options);
    std::optional<serving::LineReader> lines;
    if (session.get().has_first_rank()) {
      warn_of_host_collectives();
      sweep_partial_files_in(output_dir.empty() ? "." : output_dir);
      lines.emplace(requests);
    }
    session.get().load();
    if (!lines) {
      session.get().follow();
      return {};
    }
    const serving::AnsweredLines answered =
        serving::answer_lines(session, *lines, output_dir, stdout);
    session.get().end_lead();
    return answered;
  }

  void check_alone_with_requests() const {
    const bool others = !inputs.files.empty() || inputs.random_seed || options.repeat != 1 ||
                        options.loop.steps != 1 || options.loop.start != 0 || !choices.empty() ||
                        !session_options.states.empty() || !profile.empty() || json;
    if (others)
      fail(
          "--requests {}: a request tells its inputs and is run once; leave out --input, "
          "--random-inputs, --repeat, --steps, --loop, --start, --choose, --profile and --json",
          requests.string());
  }

  void warn_of_host_collectives() const {
    const runtime::DeviceOptions& on = session_options.device;
    if (on.host_collectives && on.kind != runtime::DeviceOptions::Kind::cpu)
      spdlog::warn("collectives go through the host's memory, which is for tests: NCCL is faster");
  }

  std::vector<runtime::LoopOptions::Choice> parsed_choices() const {
    std::vector<runtime::LoopOptions::Choice> parsed;
    Problems problems;
    for (const std::string& text : choices) {
      const auto equals = text.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        problems.add("--choose {}: give OUTPUT=INPUT", text);
      else
        parsed.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
    problems.throw_if_any();
    return parsed;
  }

  void check_loop_options() const {
    const bool loops =
        !session_options.states.empty() || options.loop.start != 0 || !choices.empty();
    if (loops && !options.loop.is_loop())
      fail("--loop, --start and --choose are for several steps; give --steps");
  }

  void check_options() const {
    Problems problems;
    if (options.repeat < 1) problems.add("--repeat {}: give at least 1", options.repeat);
    if (std::filesystem::exists(output_dir) && !std::filesystem::is_directory(output_dir))
      problems.add("--output-dir {} is no folder; choose another place", output_dir.string());
    problems.throw_if_any();
  }

  /// Names that become equal when they are made safe get a number.
  void write_outputs(const std::vector<runtime::ModelPort>& outputs,
                     const runtime::RunResult& result) const {
    std::error_code error;
    std::filesystem::create_directories(output_dir, error);
    if (error) fail("--output-dir {} cannot be made: {}", output_dir.string(), error.message());
    std::set<std::string> taken;
    for (const runtime::ModelPort& output : outputs) {
      const std::string safe = runtime::safe_file_name(output.name);
      std::string name = safe;
      for (int i = 1; !taken.insert(name).second; ++i) name = fmt::format("{}_{}", safe, i);
      runtime::save_npy(output_dir / (name + ".npy"), result.outputs.at(output.name));
    }
    for (const auto& [input, steps] : result.choices) {
      const std::string name = "chosen-" + runtime::safe_file_name(input);
      runtime::save_npy(output_dir / (name + ".npy"), steps);
    }
  }

  void report_profile(const runtime::RunResult& result) const {
    runtime::save_trace(profile, result.spans, "--profile");
    if (!runtime::is_pipeline(result.spans)) return;
    std::string shares;
    for (const double share : runtime::idle_shares(result.spans))
      shares += fmt::format("{} rank {} {:.0f} %", shares.empty() ? "" : ",",
                            std::ranges::count(shares, '%'), 100 * share);
    tell("bubbles:" + shares);
  }

  /// What the bundle predicts of a run; nullopt where it was planned for inputs of other shapes or
  /// for another device than has run it, and of several steps.
  std::optional<double> predicted_seconds(const bundle::MetaInfo& info,
                                          const runtime::NamedTensors& given,
                                          const runtime::RunResult& result) const {
    const bool is_on_gpu = median(result.device_seconds) > 0;  // CPUs have no clock of their own
    if (options.loop.is_loop() || !planner::is_for_this_device(info.device, dir, is_on_gpu))
      return std::nullopt;
    const auto has_its_shapes = [&given](const bundle::ProfileInfo& each) {
      return std::ranges::all_of(each.inputs, [&given](const bundle::PortInfo& port) {
        const auto found = given.find(port.name);
        return found != given.end() && found->second.shape() == port.shape;
      });
    };
    const auto planned = std::ranges::find_if(info.profiles, has_its_shapes);
    if (planned == info.profiles.end()) return std::nullopt;
    return planned->cost_seconds;
  }

  /// A line where the prediction is far from what was measured.
  static void hint_at_calibration(double predicted, double measured) {
    const double factor = std::max(predicted, measured) / std::min(predicted, measured);
    if (factor <= far_factor) return;
    spdlog::info(
        "predicted and measured differ by a factor of {:.1f}: autopar calibrate measures this "
        "machine, and partition --device FILE plans with what it writes",
        factor);
  }

  void report(const runtime::Session& session, const runtime::RunResult& result,
              std::optional<double> predicted) const {
    const double seconds = median(result.run_seconds);
    if (json) {
      nlohmann::json measured{
          {"version", 1},
          {"ranks", session.num_ranks()},
          {"repeat", result.run_seconds.size()},
          {"seconds", seconds},
          {"mean_seconds", mean(result.run_seconds)},
          {"device_seconds", median(result.device_seconds)},
          {"collectives", bundle::to_json(result.collectives)},
          {"arena_bytes", result.arena_bytes},
          {"peak_bytes", result.peak_bytes},
          {"predicted_collectives", bundle::to_json(result.predicted_collectives)},
          {"predicted_peak_bytes", result.predicted_peak_bytes},
          {"launches_per_run", result.launches},
          {"upload_seconds", result.upload_seconds}};
      if (predicted) measured["predicted_seconds"] = *predicted;
      if (!result.tail_seconds.empty()) measured["tail_seconds"] = median(result.tail_seconds);
      fmt::print("{}\n", measured.dump(2));
      return;
    }
    tell(fmt::format("{} rank(s), {} a run{}, arena {} on the fullest rank", session.num_ranks(),
                     in_seconds(seconds),
                     predicted ? fmt::format(" ({} predicted)", in_seconds(*predicted)) : "",
                     in_bytes(std::ranges::max(result.arena_bytes))));
    if (predicted) hint_at_calibration(*predicted, seconds);
    if (!result.tail_seconds.empty())
      tell(fmt::format("and {} for the tail on rank 0's host",
                       in_seconds(median(result.tail_seconds))));
    tell("communication of a run, over all ranks:\n" + collectives_table(result.collectives));
    for (const runtime::ModelPort& output : session.outputs()) {
      fmt::print("{} {} {}\n", output.name, name_of(output.type),
                 graph::to_string(result.outputs.at(output.name).shape()));
    }
  }
};

}  // namespace

void add_run_command(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  CLI::App* sub = app.add_subcommand(
      "run", "Run a bundle: every rank in this process, or one rank, by --rank or under mpirun");
  sub->add_option("--dir", command->dir, "The bundle")->required();
  add_limits_option(*sub, command->limits);
  command->launching.add_to(*sub);
  command->device.add_to(*sub);
  command->inputs.add_to(*sub);
  add_operators_option(*sub);
  sub->add_option("--output-dir", command->output_dir, "Folder for the outputs, NAME.npy each");
  sub->add_option("--repeat", command->options.repeat, "Timed runs")->capture_default_str();
  sub->add_option("--steps", command->options.loop.steps,
                  "Runs one after the other, each with the states that the one before made; an "
                  "input's file may have an entry a step")
      ->capture_default_str();
  sub->add_option("--loop", command->session_options.states,
                  "Outputs that are inputs of the next step, present.*=past.* (default: as the "
                  "model was partitioned with); may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--start", command->options.loop.start,
                  "Rows that states hold at first, where they grow with each step")
      ->capture_default_str();
  sub->add_option(
         "--choose", command->choices,
         "OUTPUT=INPUT: the place of the largest element along the output's last dimension "
         "is the next step's input; may be repeated")
      ->allow_extra_args(false);
  add_shape_cache_option(*sub, command->session_options.shape_cache_bytes);
  sub->add_option("--profile", command->profile,
                  "Write a trace of one more run, for Chrome's or Perfetto's viewer");
  sub->add_option("--requests", command->requests,
                  "Requests as lines of JSON, FILE or - for standard input, each answered by a "
                  "line; folders of outputs are made in --output-dir");
  sub->add_flag("--json", command->json, "Print the measurements as JSON");
  sub->callback([command] {
    command->options.profile = !command->profile.empty();
    command->run();
  });
}

}  // namespace autopar
