#include "runtime/session.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/file_digest.h"
#include "bundle/meta_info.h"
#include "runtime/comm/ranks.h"
#include "runtime/gather.h"
#include "runtime/load_shard.h"
#include "runtime/rank_run.h"
#include "runtime/request_channel.h"
#include "runtime/session_rank.h"
#include "runtime/shape_cache.h"
#include "runtime/step_loop.h"
#include "runtime/tail_run.h"
#include "runtime/trace.h"

namespace autopar::runtime {
namespace {

using graph::Tensor;
using Clock = std::chrono::steady_clock;

bundle::MetaInfo load_info(const std::filesystem::path& dir,
                           const std::vector<std::string>& states) {
  bundle::MetaInfo info = bundle::load_meta_info(dir);
  set_states(info, states);
  return info;
}

/// Where each microbatch of a stage takes up to the timeout, the last stage waits for all before it
/// and the first one for the last microbatch of the last.
int patience_of(const bundle::MetaInfo& info) {
  const auto stages = static_cast<int>(info.stages.size());
  return stages == 1 ? 1 : stages + info.microbatches;
}

Ranks find_ranks(const std::filesystem::path& dir, const bundle::MetaInfo& info,
                 const SessionOptions& options) {
  const auto expected = static_cast<int>(info.ranks.size());
  Ranks ranks =
      launch_ranks(options.launch, {.count = expected,
                                    .what = dir.string(),
                                    .digest = [&] { return xxh3_of_file(dir / "meta-info.json"); },
                                    .patience = patience_of(info)});
  if (ranks.world_size() != expected)
    fail("{} has {} ranks, but {} processes were started; start {}", dir.string(), expected,
         ranks.world_size(), expected);
  if (ranks.are_all_here() && expected > 1 && options.device.gpu &&
      !options.device.host_collectives)
    fail(
        "--gpu {}: this process runs {} ranks, each on a GPU of its own; leave --gpu out, or let "
        "them share it with --collectives host",
        *options.device.gpu, expected);
  return ranks;
}

Pipeline pipeline_of(const bundle::MetaInfo& info) {
  Pipeline pipeline{.microbatches = info.microbatches};
  for (const bundle::StageInfo& stage : info.stages) pipeline.stages.push_back(stage.ranks);
  for (const bundle::PortInfo& port : info.profiles.front().inputs)
    if (!port.batch) pipeline.common_inputs.push_back(port.name);
  return pipeline;
}

/// On rank 0; see gather_output. `port` is one of profile.outputs.
Tensor whole_output(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                    const bundle::PortInfo& port, const RankRun& run, HostCommunicator& world) {
  std::size_t index = 0;  // among the outputs of this rank's shard
  for (const bundle::PortInfo* each = profile.outputs.data(); each != &port; ++each)
    if (each->ranges[at(world.rank())]) ++index;
  const auto part = [&](int microbatch) { return run.executable().read_output(index, microbatch); };
  return gather_output(info, port, part, world);
}

/// What runs before have made of the states that a run continues.
struct StepsBefore {
  std::int64_t first_row = 0;  ///< of the first run
  int steps = 0;
  std::size_t shape = 0;     ///< of the inputs
  bool is_profiled = false;  ///< then what it has left are another run's
};

/// What one rank knows of a run of all steps.
struct LoopRun {
  RankRun::Seconds seconds;
  NamedTensors last_inputs;                            ///< whole, as fed to the last step
  std::map<std::string, std::vector<Tensor>> choices;  ///< by input, then by step
};

/// All ranks get rank 0's choice.
Tensor choose_next(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                   const LoopOptions::Choice& choice, const RankRun& run, HostCommunicator& world) {
  const bundle::PortInfo& input = *find_port(profile.inputs, choice.input);
  const Tensor scores =
      whole_output(info, profile, *find_port(profile.outputs, choice.output), run, world);
  Tensor chosen = world.rank() == 0 ? choose(scores, input.type, input.shape)
                                    : Tensor::zeros(input.type, input.shape);
  world.broadcast(chosen.mutable_bytes().data(), chosen.size_bytes(), 0);
  return chosen;
}

LoopRun run_steps(RankRun& run, const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                  const NamedTensors& inputs, const LoopOptions& loop, const StepsBefore& before,
                  HostCommunicator& world) {
  LoopRun made;
  if (before.steps > 0) run.hand_on_states({before.first_row, before.steps - 1});
  for (int step = 0; step < loop.steps; ++step) {
    NamedTensors chosen;
    for (const auto& [input, steps] : made.choices) chosen[input] = steps.back();
    made.last_inputs = inputs_of_step(info, profile, inputs, loop, step, chosen, before.steps > 0);
    run.write_inputs(parts_of(info, profile, made.last_inputs, world.rank()));
    std::optional<StateRows> states;
    if (step + 1 < loop.steps) states = {before.first_row, before.steps + step};
    const RankRun::Seconds seconds = run.run(states);
    made.seconds.host += seconds.host;
    made.seconds.device += seconds.device;
    for (const LoopOptions::Choice& choice : loop.choices)
      made.choices[choice.input].push_back(choose_next(info, profile, choice, run, world));
  }
  return made;
}

/// The steps as a dimension in front.
Tensor stacked(const std::vector<Tensor>& steps) {
  graph::Shape shape = steps.front().shape();
  shape.insert(shape.begin(), std::ssize(steps));
  Tensor all = Tensor::zeros(steps.front().type(), shape);
  std::byte* to = all.mutable_bytes().data();
  for (const Tensor& step : steps) to = std::ranges::copy(step.bytes(), to).out;
  return all;
}

/// What one rank has measured, beside its seconds.
struct Measured {
  std::int64_t arena_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t launches = 0;
  double upload_seconds = 0;
};

/// The result's seconds, which are this rank's, become the slowest one's.
void add_measurements(RankRun& run, HostCommunicator& world, RunResult& result) {
  take_slowest(result.run_seconds, world);
  take_slowest(result.device_seconds, world);
  const nlohmann::json totals = bundle::to_json(run.collectives().totals());
  for (const nlohmann::json& of_rank : gather_json(totals, world))
    for (const nlohmann::json& total : of_rank)
      bundle::add_collective(result.collectives,
                             {total["kind"], total["mesh_axes"], total["count"], total["bytes"]});
  const Executable& executable = run.executable();
  const Measured mine{.arena_bytes = executable.arena_bytes(),
                      .peak_bytes = run.peak_bytes(),
                      .launches = executable.launches(),
                      .upload_seconds = executable.upload_seconds()};
  for (const Measured& of_rank : gather_all(world, mine)) {
    result.arena_bytes.push_back(of_rank.arena_bytes);
    result.peak_bytes.push_back(of_rank.peak_bytes);
    result.launches.push_back(of_rank.launches);
    result.upload_seconds.push_back(of_rank.upload_seconds);
  }
}

/// Computes the model's outputs of what the ranks have made, as often as they have made it. Its
/// span in the trace stands behind the last of the ranks'.
void run_tail(const TailRun& tail, const NamedTensors& inputs, int repeat, RunResult& result) {
  NamedTensors outputs;
  Clock::duration duration{};
  for (int i = 0; i < repeat; ++i) {
    const auto start = Clock::now();
    outputs = tail(inputs, result.outputs);
    duration = Clock::now() - start;
    result.tail_seconds.push_back(std::chrono::duration<double>(duration).count());
  }
  result.outputs = std::move(outputs);
  if (result.spans.empty()) return;
  Span span;
  span.node = "tail";
  span.duration = duration;
  for (const std::vector<Span>& of_rank : result.spans)
    for (const Span& other : of_rank)
      span.begin = std::max(span.begin, other.begin + other.duration);
  result.spans.front().push_back(span);
}

/// Rank 0 computes the tail, while the others wait; all of them fail where it does.
void run_tail_on_first(const TailRun& tail, const NamedTensors& inputs, int repeat,
                       HostCommunicator& world, RunResult& result) {
  std::string error;
  if (world.rank() == 0) try {
      run_tail(tail, inputs, repeat, result);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  world.barrier(loading_timeout);
  const std::string of_first = gather_json(error, world).front().get<std::string>();
  if (of_first.empty()) return;
  try {
    world.barrier();  // nobody ends, and is missed, before all know why
  } catch (const Error&) {
  }
  if (!error.empty()) fail("{}", error);
  throw GivenUp("rank 0 failed: " + of_first);
}

bool is_wanted(const bundle::MetaInfo& info, const RunOptions& options, const std::string& output) {
  return options.outputs.empty() || info.tail ||
         std::ranges::find(options.outputs, output) != options.outputs.end();
}

/// One rank's part in Session::run. Every rank gets the measurements, and rank 0 the outputs.
RunResult run_rank(RankRun& run, const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                   const TailRun& tail, const NamedTensors& inputs, const RunOptions& options,
                   const StepsBefore& before, HostCommunicator& world) {
  const auto run_once = [&] {
    run.collectives().reset_totals();
    return run_steps(run, info, profile, inputs, options.loop, before, world);
  };
  if (options.repeat > 1) run_once();
  RunResult result;
  LoopRun last;
  for (int i = 0; i < options.repeat; ++i) {
    last = run_once();
    result.run_seconds.push_back(last.seconds.host);
    result.device_seconds.push_back(last.seconds.device);
  }
  for (const auto& [input, steps] : last.choices) result.choices.emplace(input, stacked(steps));
  add_measurements(run, world, result);
  result.predicted_collectives = profile.collectives;
  result.predicted_peak_bytes = profile.peak_bytes;
  for (const bundle::PortInfo& port : profile.outputs) {
    if (!is_wanted(info, options, port.name)) continue;
    Tensor whole = whole_output(info, profile, port, run, world);
    if (world.rank() == 0) result.outputs.emplace(port.name, std::move(whole));
  }
  if (options.profile) {
    const NamedTensors first = inputs_of_step(info, profile, inputs, options.loop, 0, {});
    run.write_inputs(parts_of(info, profile, first, world.rank()));
    for (const nlohmann::json& spans : gather_json(to_json(run.profile()), world))
      result.spans.push_back(spans_from_json(spans));
  }
  if (info.tail) {
    result.peak_bytes.front() += info.tail->summary.weight_bytes;
    run_tail_on_first(tail, last.last_inputs, options.repeat, world, result);
  }
  return result;
}

void check_run_options(const RunOptions& options, const std::filesystem::path& dir) {
  if (options.repeat < 1) fail("a run of {} is to be made {} times", dir.string(), options.repeat);
  if (options.loop.continues && (options.repeat > 1 || options.profile))
    fail("a run of {} that continues the last one can neither be repeated nor profiled",
         dir.string());
}

bool gives_states(const bundle::MetaInfo& info, const NamedTensors& inputs) {
  return std::ranges::any_of(
      info.states, [&](const bundle::StateInfo& state) { return inputs.contains(state.input); });
}

}  // namespace

struct Session::Impl {
  std::filesystem::path dir;
  bundle::MetaInfo info;
  SessionOptions options;
  Ranks ranks;
  ShapeCache shapes{info, dir, options};
  std::vector<std::unique_ptr<SessionRank>> runs = {};  ///< by rank, null for other processes'
  TailRun tail = {};  ///< where rank 0 is here and the bundle has one
  StepsBefore before = {};
  std::string failure = {};  ///< why the session is over

  Impl(const std::filesystem::path& bundle_dir, const SessionOptions& chosen)
      : dir(bundle_dir),
        info(load_info(dir, chosen.states)),
        options(chosen),
        ranks(find_ranks(dir, info, options)) {}
  /// Each rank's device is released in the thread that took it. Where an error unwinds the session,
  /// no other rank is waited for.
  ~Impl() {
    if (std::uncaught_exceptions() > 0) abort();
    try {
      if (!runs.empty()) ranks.run_as_rank([&](auto& world, auto&) { take_run(world); });
    } catch (const std::exception&) {  // the others have ended before
    }
  }

  /// Whoever holds it when an error unwinds ends what its communicators wait for.
  std::unique_ptr<SessionRank> take_run(const HostCommunicator& world) {
    return std::move(runs[static_cast<std::size_t>(world.rank())]);
  }

  void abort() noexcept {
    for (const auto& run : runs)
      if (run) run->abort();
  }

  void run_as_rank(const Ranks::Task& task) {
    if (!failure.empty())
      fail("{}: a rank failed, and the session is over; make another: {}", dir.string(), failure);
    try {
      ranks.run_as_rank(task);
    } catch (const std::exception& error) {
      failure = error.what();
      abort();
      runs.clear();
      throw;
    }
  }

  void drop(const std::vector<std::size_t>& unused) {
    if (unused.empty()) return;
    run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
      for (const std::size_t shape : unused)
        runs[static_cast<std::size_t>(world.rank())]->drop(shape);
    });
  }

  void load() {
    if (!runs.empty()) return;
    runs.resize(info.ranks.size());
    run_as_rank([&](HostCommunicator& world, const LocalRanks& local) {
      bundle::check_files(info, dir, world.rank());
      std::optional<graph::Graph> shard = load_shard(info, 0, dir, world.rank());
      // While the tail runs, this process's other ranks wait.
      const LocalRanks of_tail = ranks.are_all_here() ? LocalRanks{} : local;
      if (world.rank() == 0 && info.tail) {
        bundle::check_common_files(info.tail->files, dir);
        tail = load_tail(dir / info.tail->files.front().name, info.tail->summary,
                         threads_of(options.device, of_tail));
      }
      world.barrier(loading_timeout);
      auto run = std::make_unique<SessionRank>(*shard, options.device, world, local,
                                               patience_of(info) * options.launch.timeout,
                                               pipeline_of(info));
      shard.reset();
      world.barrier(loading_timeout);
      runs[static_cast<std::size_t>(world.rank())] = std::move(run);
    });
  }

  RunResult run(const NamedTensors& inputs, const RunOptions& run_options) {
    LoopOptions loop = run_options.loop;
    check_run_options(run_options, dir);
    const bool goes_on = loop.continues && before.steps > 0 && !gives_states(info, inputs);
    if (goes_on && before.is_profiled)
      fail("{}: a run cannot continue one that was profiled", dir.string());
    const StepsBefore from = goes_on ? before : StepsBefore{.first_row = loop.start};
    loop.start = from.first_row;
    const std::size_t shape = shapes.find(inputs, loop);
    if (goes_on && shape != before.shape)
      fail("{}: a run continues one whose inputs had other shapes", dir.string());
    const bundle::ProfileInfo& profile = shapes.program(shape).profile;
    check_loop(info, profile, loop, from.steps);
    check_inputs(info, profile, inputs, loop);
    load();
    RunResult result;
    run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
      const bool is_first = world.rank() == 0;
      std::unique_ptr<SessionRank> rank = take_run(world);
      RankRun& run = rank->run_of(shape, shapes.program(shape));
      RunResult of_rank = run_rank(run, info, profile, tail, inputs, run_options, from, world);
      runs[static_cast<std::size_t>(world.rank())] = std::move(rank);
      if (is_first || !ranks.are_all_here()) result = std::move(of_rank);
    });
    drop(shapes.keep(shape, std::ranges::max(result.arena_bytes)));
    before = {.first_row = from.first_row,
              .steps = from.steps + loop.steps,
              .shape = shape,
              .is_profiled = run_options.profile};
    return result;
  }
};

Session::Session(const std::filesystem::path& bundle_dir, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(bundle_dir, options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<ModelPort> Session::inputs() const {
  std::vector<ModelPort> ports;
  for (const bundle::PortInfo& port : impl_->info.profiles.front().inputs)
    ports.push_back({port.name, port.type, port.shape});
  return ports;
}

std::vector<ModelPort> Session::outputs() const {
  std::vector<ModelPort> ports;
  for (const graph::ModelOutput& output :
       bundle::model_outputs(impl_->info, impl_->info.profiles.front())) {
    ports.push_back({output.name, output.type, std::nullopt});
    ModelPort& port = ports.back();
    if (!output.dims || std::ranges::any_of(*output.dims, [](const auto& d) { return !d; }))
      continue;
    port.shape.emplace();
    for (const auto& extent : *output.dims) port.shape->push_back(*extent);
  }
  return ports;
}

int Session::num_ranks() const { return impl_->ranks.world_size(); }
bool Session::has_first_rank() const { return impl_->ranks.has_first(); }
bool Session::has_all_ranks() const { return impl_->ranks.are_all_here(); }
void Session::load() { impl_->load(); }
RunResult Session::run(const NamedTensors& inputs, const RunOptions& options) {
  return impl_->run(inputs, options);
}

RunResult Session::lead(const NamedTensors& inputs, const RunOptions& options) {
  if (!impl_->ranks.are_all_here())
    impl_->run_as_rank([&](HostCommunicator& world, auto&) { send_request(&inputs, world); });
  return run(inputs, options);
}

void Session::follow(const RunOptions& options) {
  while (true) {
    std::optional<NamedTensors> inputs;
    impl_->run_as_rank([&](HostCommunicator& world, auto&) { inputs = wait_for_request(world); });
    if (!inputs) return;
    try {
      run(*inputs, options);
    } catch (const Error&) {  // rank 0 tells it, unless it is the session's end
      if (is_over()) throw;
    }
  }
}

void Session::end_lead() {
  if (impl_->ranks.are_all_here() || is_over()) return;
  impl_->run_as_rank([](HostCommunicator& world, auto&) { send_request(nullptr, world); });
}

void Session::check_ranks() {
  impl_->run_as_rank([](HostCommunicator& world, auto&) { world.check_members(); });
}

bool Session::is_over() const { return !impl_->failure.empty(); }

}  // namespace autopar::runtime
