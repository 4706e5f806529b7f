#include "runtime/session.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/file_digest.h"
#include "bundle/meta_info.h"
#include "bundle/secret_file.h"
#include "runtime/agreement.h"
#include "runtime/comm/ranks.h"
#include "runtime/gather.h"
#include "runtime/held_states.h"
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
  bundle::check_common_files(info.files, dir);
  bundle::check_common_files(info.structure, dir);
  set_states(info, states);
  return info;
}

/// Collectives of GPUs show no signs of work. Where each microbatch of a stage takes up to the
/// timeout, the last stage waits for all before it and the first one for the last microbatch of the
/// last.
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
                                    .secret_file = dir / bundle::secret_file});
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
                  const NamedTensors& inputs, const LoopOptions& loop, HostCommunicator& world) {
  LoopRun made;
  for (int step = 0; step < loop.steps; ++step) {
    NamedTensors chosen;
    for (const auto& [input, steps] : made.choices) chosen[input] = steps.back();
    made.last_inputs = inputs_of_step(info, profile, inputs, loop, step, chosen);
    run.write_inputs(parts_of(info, profile, made.last_inputs, world.rank()));
    const auto states = !loop.is_loop()         ? RankRun::States::apart
                        : step + 1 < loop.steps ? RankRun::States::handed_on
                                                : RankRun::States::read;
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
  world.barrier();
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
/// `states`: those that begin anew with the run; null where none does.
RunResult run_rank(RankRun& run, StateBuffers* states, const bundle::MetaInfo& info,
                   const bundle::ProfileInfo& profile, const TailRun& tail,
                   const NamedTensors& inputs, const RunOptions& options, HostCommunicator& world) {
  const auto run_once = [&] {
    run.collectives().reset_totals();
    if (states != nullptr) states->begin(options.loop.start);
    return run_steps(run, info, profile, inputs, options.loop, world);
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

InputShapes shapes_of(const NamedTensors& inputs) {
  InputShapes shapes;
  for (const auto& [name, tensor] : inputs) shapes.emplace(name, tensor.shape());
  return shapes;
}

/// Where no graph can be made for the shapes that states are to have.
void check_state_shapes(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                        const InputShapes& wanted) {
  for (const bundle::StateInfo& state : info.states) {
    const bundle::PortInfo& port = *find_port(profile.inputs, state.input);
    if (const graph::Shape& shape = wanted.at(state.input); shape != port.shape)
      fail("input '{}' would be {}, but the bundle was made for {}", port.name,
           graph::to_string(shape), graph::to_string(port.shape));
  }
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
  TailRun tail = {};         ///< where rank 0 is here and the bundle has one
  PortSymbols symbols = {};  ///< where the bundle has states
  HeldStates held = {};      ///< that the ranks' buffers have
  std::string failure = {};  ///< why the session is over

  Impl(const std::filesystem::path& bundle_dir, const SessionOptions& chosen)
      : dir(bundle_dir),
        info(load_info(dir, chosen.states)),
        options(chosen),
        ranks(find_ranks(dir, info, options)) {
    if (!ranks.are_all_here()) {
      const auto given = given_to_session(options, xxh3_of_file(dir / "meta-info.json"));
      run_as_rank([&](HostCommunicator& world, auto&) { require_agreement(given, world); });
    }
    if (!info.states.empty()) symbols = port_symbols(info, dir);
  }
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
      abort();
      runs.clear();
      failure = error.what();
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

  /// But for what is compiled.
  void load_shards() {
    if (!runs.empty()) return;
    runs.resize(info.ranks.size());
    run_as_rank([&](HostCommunicator& world, const LocalRanks& local) {
      bind_reader(options.device, local);
      bundle::check_files(info, dir, world.rank());
      std::optional<graph::Graph> shard = load_shard(info, 0, dir, world.rank());
      // While the tail runs, this process's other ranks wait.
      const LocalRanks of_tail = ranks.are_all_here() ? LocalRanks{} : local;
      if (world.rank() == 0 && info.tail) {
        bundle::check_common_files(info.tail->files, dir);
        tail = load_tail(dir / info.tail->files.front().name, info.tail->summary,
                         threads_of(options.device, of_tail));
      }
      world.barrier();
      auto run = std::make_unique<SessionRank>(*shard, options.device, world, local,
                                               patience_of(info) * options.launch.timeout,
                                               pipeline_of(info));
      shard.reset();
      run->check_memory(info, local, ranks.are_all_here());
      world.barrier();
      runs[static_cast<std::size_t>(world.rank())] = std::move(run);
    });
  }

  void load() {
    if (!runs.empty()) return;
    load_shards();
    on_each([&](SessionRank& rank, HostCommunicator&) { rank.run_of(0, shapes.program(0)); });
  }

  using RankTask = std::function<void(SessionRank& rank, HostCommunicator& world)>;
  void on_each(const RankTask& task) {
    run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
      std::unique_ptr<SessionRank> rank = take_run(world);
      try {
        task(*rank, world);
      } catch (const std::exception& error) {
        if (options.on_failure) options.on_failure(error.what());
        throw;
      }
      runs[static_cast<std::size_t>(world.rank())] = std::move(rank);
    });
  }

  /// The states that a run goes on from; null where it begins anew.
  const HeldStates* held_before(const NamedTensors& inputs, const LoopOptions& loop) const {
    if (!loop.continues || held.states.empty() || gives_states(info, inputs)) return nullptr;
    if (!held.lost.empty()) fail("{}: a run cannot continue one that {}", dir.string(), held.lost);
    return &held;
  }

  /// By rank: the peak of a run with a shape's graph and the states that the ranks hold.
  std::vector<std::int64_t> predicted_peaks(const bundle::ProfileInfo& profile,
                                            const HeldStates& states) const {
    std::vector<std::int64_t> peaks = profile.peak_bytes;
    for (std::size_t rank = 0; rank < peaks.size(); ++rank)
      peaks[rank] += bytes_beside(states, profile, static_cast<int>(rank));
    return peaks;
  }

  void check_memory(const bundle::ProfileInfo& profile, const HeldStates& states) const {
    const std::vector<std::int64_t> peaks = predicted_peaks(profile, states);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank)
      if (peaks[rank] > std::max(info.memory_limit_bytes, profile.peak_bytes[rank]))
        fail(
            "{}: rank {} would need {} bytes for the model and states of so many rows, and the "
            "limit is {}: keep fewer rows, or partition the model with another --memory",
            dir.string(), rank, peaks[rank], info.memory_limit_bytes);
  }

  void require_agreement_on(const NamedTensors& inputs, const RunOptions& run_options) {
    if (ranks.are_all_here()) return;
    const WorkScope work(ranks.listener());
    const std::vector<Given> given = given_to_run(inputs, run_options);
    run_as_rank([&](HostCommunicator& world, auto&) { require_agreement(given, world); });
  }

  /// Inputs and options are those that all processes have in common.
  RunResult run(const NamedTensors& inputs, const RunOptions& run_options) {
    const WorkScope work(ranks.listener());
    const LoopOptions& loop = run_options.loop;
    check_run_options(run_options, dir);
    const HeldStates* before = held_before(inputs, loop);
    const InputShapes wanted =
        loop.is_loop() ? step_shapes(info, symbols, inputs, loop, before) : shapes_of(inputs);
    std::size_t shape = shapes.find(wanted, inputs, loop);
    const bundle::ProfileInfo& profile = shapes.program(shape).profile;
    check_loop(info, profile, loop);
    if (loop.is_loop()) check_state_shapes(info, profile, wanted);
    HeldStates after =
        loop.is_loop() ? held_after(info, profile, loop, gives_states(info, inputs), before) : held;
    check_inputs(info, profile, inputs, loop);
    if (loop.is_loop()) check_memory(profile, after);
    load_shards();
    if (before != nullptr)
      on_each([&](SessionRank& rank, auto&) { rank.kept(held.shape).hand_on_states(); });
    else if (!are_alike(after, held)) {
      on_each([&](SessionRank& rank, HostCommunicator& world) {
        rank.make_states(buffers_of(after, world.rank()));
      });
      shapes.drop_all();
      shape = shapes.find(wanted, inputs, loop);
    }
    after.shape = shape;
    after.lost = !loop.is_loop() ? "was no loop" : run_options.profile ? "was profiled" : "";
    held = std::move(after);
    RunResult result = run_shape(shape, inputs, run_options, before == nullptr);
    drop(shapes.keep(shape, std::ranges::max(result.arena_bytes)));
    return result;
  }

  /// States begin anew, or go on.
  RunResult run_shape(std::size_t shape, const NamedTensors& inputs, const RunOptions& run_options,
                      bool begins) {
    const ShapedProgram& program = shapes.program(shape);
    RunResult result;
    on_each([&](SessionRank& rank, HostCommunicator& world) {
      RankRun& run = rank.run_of(shape, program);
      StateBuffers* states = begins && run_options.loop.is_loop() ? rank.states() : nullptr;
      RunResult of_rank =
          run_rank(run, states, info, program.profile, tail, inputs, run_options, world);
      if (world.rank() == 0 || !ranks.are_all_here()) result = std::move(of_rank);
    });
    result.predicted_peak_bytes = predicted_peaks(program.profile, held);
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
WorkScope Session::at_work() { return WorkScope(impl_->ranks.listener()); }
RunResult Session::run(const NamedTensors& inputs, const RunOptions& options) {
  impl_->require_agreement_on(inputs, options);
  return impl_->run(inputs, options);
}

RunResult Session::lead(const NamedTensors& inputs, const RunOptions& options) {
  if (!impl_->ranks.are_all_here())
    impl_->run_as_rank(
        [&](HostCommunicator& world, auto&) { send_request(inputs, options, world); });
  return impl_->run(inputs, options);
}

void Session::follow() {
  while (true) {
    std::optional<RunRequest> next;
    impl_->run_as_rank([&](HostCommunicator& world, auto&) { next = wait_for_request(world); });
    if (!next) return;
    try {
      impl_->run(next->inputs, next->options);
    } catch (const Error&) {  // rank 0 tells it, unless it is the session's end
      if (is_over()) throw;
    }
  }
}

void Session::end_lead() {
  if (impl_->ranks.are_all_here() || is_over()) return;
  impl_->run_as_rank([](HostCommunicator& world, auto&) { send_end(world); });
}

void Session::check_ranks() {
  impl_->run_as_rank([](HostCommunicator& world, auto&) { world.check_members(); });
}

bool Session::is_over() const { return !impl_->failure.empty(); }

}  // namespace autopar::runtime
