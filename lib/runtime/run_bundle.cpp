#include "runtime/run_bundle.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "bundle/tail_info.h"
#include "graph/message_boxes.h"
#include "graph/onnx/onnx_import.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/executable.h"
#include "runtime/first_error.h"
#include "runtime/gather.h"
#include "runtime/tail_run.h"

namespace autopar::runtime {

namespace {

using graph::Graph;
using graph::Range;
using graph::Tensor;
using Clock = std::chrono::steady_clock;

/// What a pipeline is to the ranks' runs.
struct Pipeline {
  std::vector<std::vector<int>> stages;  ///< the world's ranks by stage
  int microbatches = 1;
  std::vector<std::string> common_inputs;  ///< that all microbatches have in common
};

class RankRun;

/// What one rank's run reads, step by step.
class RankFeed {
 public:
  virtual ~RankFeed() = default;
  virtual int steps() const { return 1; }
  /// LoopOptions::start.
  virtual std::int64_t first_row() const { return 0; }
  virtual InputParts parts(int step) = 0;
  /// Told when a step is done; all ranks at the same time.
  virtual void take(const RankRun&) {}
};

/// One rank of a bundle, or a whole model: compiled, fed and timed.
class RankRun {
 public:
  RankRun(const Graph& graph, const RunOptions& options, Communicator& host,
          const LocalRanks& local, const Pipeline& pipeline = {})
      : host_(host),
        place_(options.device, host, local, options.timeout),
        collectives_(place_.world(), host, options.timeout),
        microbatches_(pipeline.microbatches),
        executable_(compile(graph, pipeline)),
        weight_bytes_(graph::constant_bytes(graph)) {
    for (const auto id : graph.inputs) input_names_.push_back(graph.value(id).name);
  }

  /// Seconds of each counted run.
  std::vector<double> run(RankFeed& feed, int repeat) {
    if (repeat > 1) run_steps(feed);
    std::vector<double> seconds;
    for (int i = 0; i < repeat; ++i) {
      collectives_.reset_totals();
      device_seconds_.push_back(0);
      seconds.push_back(run_steps(feed));
    }
    return seconds;
  }

  /// A number for each counted run, by the device's clock.
  const std::vector<double>& device_seconds() const { return device_seconds_; }

  /// Of a run that is not counted.
  std::vector<Span> profile(const InputParts& parts) {
    write_inputs(parts);
    host_.barrier();
    std::vector<Span> spans = executable_.profile();
    host_.barrier();
    return spans;
  }

  Tensor output(std::size_t i, int microbatch = 0) const {
    return executable_.read_output(i, microbatch);
  }

  const std::vector<bundle::CollectiveTotal>& collectives() const { return collectives_.totals(); }
  std::int64_t arena_bytes() const { return executable_.arena_bytes(); }
  std::int64_t launches() const { return executable_.launches(); }
  double upload_seconds() const { return executable_.upload_seconds(); }
  std::int64_t peak_bytes() const {
    return weight_bytes_ + executable_.derived_constant_bytes() + executable_.arena_bytes() -
           executable_.scratch_bytes();
  }

 private:
  Executable compile(const Graph& graph, const Pipeline& pipeline) {
    collectives_.enter_stage(pipeline.stages, &place_.device());
    return {graph,
            {.collectives = &collectives_,
             .device = &place_.device(),
             .microbatches = pipeline.microbatches,
             .common_inputs = pipeline.common_inputs}};
  }

  void write_inputs(const InputParts& parts) {
    for (std::size_t i = 0; i < input_names_.size(); ++i) {
      const auto found = parts.find(input_names_[i]);
      if (found == parts.end()) continue;  // it has its value from the step before
      const std::vector<Tensor>& of_input = found->second;
      const std::byte* written = nullptr;
      for (int m = 0; m < microbatches_; ++m) {
        const std::byte* place = executable_.input(i, m).data;
        if (m > 0 && place == written) continue;
        executable_.write_input(i, of_input[static_cast<std::size_t>(m) % of_input.size()], m);
        written = place;
      }
    }
  }

  /// The ranks start together, so the time is the slowest one's plus what they wait for each other.
  double run_steps(RankFeed& feed) {
    double seconds = 0;
    for (int step = 0; step < feed.steps(); ++step) {
      write_inputs(feed.parts(step));
      host_.barrier();
      const auto start = Clock::now();
      executable_.run();
      if (step + 1 < feed.steps()) executable_.hand_on_states(feed.first_row(), step);
      host_.barrier();
      seconds += std::chrono::duration<double>(Clock::now() - start).count();
      if (!device_seconds_.empty()) device_seconds_.back() += executable_.device_seconds();
      feed.take(*this);
    }
    return seconds;
  }

  Communicator& host_;
  RankDevice place_;
  CollectiveContext collectives_;
  int microbatches_;
  Executable executable_;
  std::int64_t weight_bytes_;
  std::vector<std::string> input_names_;
  std::vector<double> device_seconds_;
};

Pipeline pipeline_of(const bundle::MetaInfo& info) {
  Pipeline pipeline;
  for (const bundle::StageInfo& stage : info.stages) pipeline.stages.push_back(stage.ranks);
  pipeline.microbatches = info.microbatches;
  for (const bundle::PortInfo& port : info.inputs)
    if (!port.batch) pipeline.common_inputs.push_back(port.name);
  return pipeline;
}

/// A message between stages, from one rank's side.
struct MessageSize {
  int peer = 0;
  std::int64_t bytes = 0;
  std::string value;
};

/// Throws Error where a shard does not send and receive what meta-info says: its stages would wait
/// for each other.
void check_messages(const bundle::MetaInfo& info, const Graph& shard, int rank, bool sends) {
  std::vector<MessageSize> planned;
  for (const bundle::TransferInfo& transfer : info.transfers)
    for (const auto& [from, to, bytes] : transfer.messages)
      if ((sends ? from : to) == rank)
        planned.push_back({sends ? to : from, bytes, transfer.value});
  std::vector<MessageSize> found;
  for (const graph::Node& node : shard.nodes) {
    if (node.domain != graph::collective_domain || node.op_type != (sends ? "Send" : "Recv"))
      continue;
    const graph::Value& value = shard.value(sends ? node.inputs[0] : node.outputs[0]);
    for (const graph::MessageBox& box : graph::message_boxes(node, value.shape)) {
      const std::int64_t elements = graph::num_elements(box.ranges);
      found.push_back({box.peer, graph::bytes_of(value.type, elements), value.name});
    }
  }
  const auto order = [](const MessageSize& m) { return std::pair(m.peer, m.bytes); };
  std::ranges::stable_sort(planned, {}, order);
  std::ranges::stable_sort(found, {}, order);
  std::vector<MessageSize> missing;
  std::vector<MessageSize> superfluous;
  std::ranges::set_difference(planned, found, std::back_inserter(missing), {}, order, order);
  std::ranges::set_difference(found, planned, std::back_inserter(superfluous), {}, order, order);
  const auto refuse = [&](const MessageSize& message, const char* by, const char* but) {
    fail("rank {}: {} it {} {} bytes of '{}' {} rank {}, but not {}; partition the model again",
         rank, by, sends ? "sends" : "receives", message.bytes, message.value,
         sends ? "to" : "from", message.peer, but);
  };
  if (!missing.empty()) refuse(missing.front(), "by meta-info.json", "by its shard");
  if (!superfluous.empty()) refuse(superfluous.front(), "by its shard", "by meta-info.json");
}

std::size_t place_of(const Graph& shard, const std::vector<graph::ValueId>& ports,
                     const std::string& name) {
  const auto found =
      std::ranges::find_if(ports, [&](graph::ValueId id) { return shard.value(id).name == name; });
  if (found == ports.end())
    fail(
        "a shard has no '{}', which meta-info.json counts among its states; partition the model "
        "again",
        name);
  return static_cast<std::size_t>(found - ports.begin());
}

Graph load_shard(const bundle::MetaInfo& info, const std::filesystem::path& dir, int rank) {
  bundle::check_files(info, dir, rank);
  const bundle::RankInfo& of_rank = info.ranks[static_cast<std::size_t>(rank)];
  graph::ImportOptions as_it_is;
  as_it_is.unrolls = false;
  Graph shard = graph::load_onnx(dir / of_rank.files.front().name, as_it_is);
  for (const bool sends : {false, true}) check_messages(info, shard, rank, sends);
  const auto count = [&](const std::vector<bundle::PortInfo>& ports) {
    return std::ranges::count_if(ports, [&](const bundle::PortInfo& port) {
      return port.ranges[static_cast<std::size_t>(rank)].has_value();
    });
  };
  if (std::ssize(shard.outputs) != count(info.outputs))
    fail("rank {}: its shard has {} outputs, but meta-info.json {}; partition the model again",
         rank, shard.outputs.size(), count(info.outputs));
  for (const graph::ValueId id : shard.inputs) {
    const auto port = std::ranges::find(info.inputs, shard.value(id).name, &bundle::PortInfo::name);
    if (port == info.inputs.end() || !port->ranges[static_cast<std::size_t>(rank)])
      fail(
          "rank {}: its shard has an input '{}', but meta-info.json none; partition the model "
          "again",
          rank, shard.value(id).name);
  }
  for (const bundle::StateInfo& state : info.states)
    shard.states.push_back(
        {place_of(shard, shard.outputs, state.output), place_of(shard, shard.inputs, state.input)});
  return shard;
}

std::vector<bundle::CollectiveTotal> gather_totals(const std::vector<bundle::CollectiveTotal>& mine,
                                                   Communicator& world) {
  std::vector<bundle::CollectiveTotal> totals;
  for (const nlohmann::json& of_rank : gather_json(bundle::to_json(mine), world)) {
    for (const nlohmann::json& total : of_rank) {
      bundle::add_collective(totals,
                             {total["kind"], total["mesh_axes"], total["count"], total["bytes"]});
    }
  }
  return totals;
}

/// Where a port is among a shard's.
std::size_t place_in_shard(const std::vector<bundle::PortInfo>& ports, const std::string& name,
                           int rank) {
  std::size_t place = 0;
  for (const bundle::PortInfo& port : ports) {
    if (port.name == name) break;
    if (port.ranges[static_cast<std::size_t>(rank)]) ++place;
  }
  return place;
}

/// A rank's share of a bundle's inputs, and of what steps choose.
class BundleFeed final : public RankFeed {
 public:
  BundleFeed(const bundle::MetaInfo& info, const NamedTensors& inputs, const LoopOptions& loop,
             Communicator& world)
      : info_(info), inputs_(inputs), loop_(loop), world_(world) {}

  int steps() const override { return loop_.steps; }
  std::int64_t first_row() const override { return loop_.start; }

  InputParts parts(int step) override {
    if (step == 0) choices_.clear();
    NamedTensors chosen;
    for (const auto& [input, steps] : choices_) chosen[input] = steps.back();
    of_step_ = inputs_of_step(info_, inputs_, loop_, step, chosen);
    return parts_of(info_, of_step_, world_.rank());
  }

  /// The whole inputs of the step that was fed last, without states.
  const NamedTensors& last_inputs() const { return of_step_; }

  void take(const RankRun& run) override {
    for (const LoopOptions::Choice& choice : loop_.choices) {
      const auto& port = *std::ranges::find(info_.inputs, choice.input, &bundle::PortInfo::name);
      choices_[choice.input].push_back(
          choose(whole_output(choice.output, run), port.type, port.shape));
    }
  }

  /// By input, with a dimension in front for the steps.
  NamedTensors choices() const {
    NamedTensors result;
    for (const auto& [input, steps] : choices_) {
      graph::Shape shape = steps.front().shape();
      shape.insert(shape.begin(), std::ssize(steps));
      Tensor all = Tensor::zeros(steps.front().type(), shape);
      std::byte* to = all.mutable_bytes().data();
      for (const Tensor& step : steps) to = std::ranges::copy(step.bytes(), to).out;
      result.emplace(input, all);
    }
    return result;
  }

 private:
  /// Every rank gets it.
  Tensor whole_output(const std::string& name, const RankRun& run) {
    const auto& port = *std::ranges::find(info_.outputs, name, &bundle::PortInfo::name);
    const Tensor mine = run.output(place_in_shard(info_.outputs, name, world_.rank()));
    Tensor whole = Tensor::zeros(port.type, port.shape);
    const auto blocks = gather_bytes(mine.bytes(), world_);
    for (std::size_t r = 0; r < blocks.size(); ++r) {
      graph::Shape shape;
      for (const Range& range : *port.ranges[r]) shape.push_back(range.size());
      place_output(port, *port.ranges[r], 0, Tensor(port.type, shape, blocks[r].data(), nullptr),
                   whole);
    }
    return whole;
  }

  const bundle::MetaInfo& info_;
  const NamedTensors& inputs_;
  const LoopOptions& loop_;
  Communicator& world_;
  std::map<std::string, std::vector<Tensor>> choices_;
  NamedTensors of_step_;
};

/// Puts a part of an output into the whole one; the only part is the whole.
void take_output(const bundle::PortInfo& port, const std::vector<Range>& ranges, int microbatch,
                 Tensor part, NamedTensors& outputs) {
  const auto known = outputs.find(port.name);
  if (known == outputs.end() && part.shape() == port.shape) {
    outputs.emplace(port.name, std::move(part));
    return;
  }
  Tensor& whole =
      known != outputs.end()
          ? known->second
          : outputs.emplace(port.name, Tensor::zeros(port.type, port.shape)).first->second;
  place_output(port, ranges, microbatch, part, whole);
}

/// A whole model's inputs.
class WholeFeed final : public RankFeed {
 public:
  explicit WholeFeed(const NamedTensors& inputs) {
    for (const auto& [name, tensor] : inputs) parts_[name] = {tensor.contiguous_copy()};
  }
  InputParts parts(int) override { return parts_; }

 private:
  InputParts parts_;
};

/// Null where the bundle has none.
std::unique_ptr<TailRun> load_tail(const std::optional<bundle::TailInfo>& tail,
                                   const std::filesystem::path& dir, int threads) {
  if (!tail) return nullptr;
  bundle::check_tail_files(*tail, dir);
  return std::make_unique<TailRun>(dir / tail->files.front().name, tail->summary, threads);
}

/// Computes the model's outputs of what the ranks have made, as often as they have made it. Its
/// span in the trace stands behind the last of the ranks'.
void run_tail(const TailRun& tail, const NamedTensors& inputs, const RunOptions& options,
              RunResult& result) {
  NamedTensors outputs;
  Clock::duration duration{};
  for (int i = 0; i < options.repeat; ++i) {
    const auto start = Clock::now();
    outputs = tail.run(inputs, result.outputs);
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
void run_tail_on_first(const TailRun* tail, const NamedTensors& inputs, const RunOptions& options,
                       Communicator& world, RunResult& result) {
  std::string error;
  if (tail != nullptr) try {
      run_tail(*tail, inputs, options, result);
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
  fail("rank 0 failed: {}", of_first);
}

/// The bundle as this run has it.
std::pair<bundle::MetaInfo, std::optional<bundle::TailInfo>> load_bundle(
    const std::filesystem::path& dir, const NamedTensors& inputs, const RunOptions& options) {
  bundle::MetaInfo info = bundle::load_meta_info(dir);
  auto tail = bundle::load_tail_info(dir, info);
  prepare_loop(info, tail, options.loop);
  check_inputs(info, inputs, options.loop);
  return {std::move(info), std::move(tail)};
}

/// Keeps, by repetition, the larger of what ranks took.
void take_slowest(std::vector<double>& slowest, const std::vector<double>& of_rank) {
  slowest.resize(of_rank.size(), 0);
  for (std::size_t i = 0; i < of_rank.size(); ++i) slowest[i] = std::max(slowest[i], of_rank[i]);
}

}  // namespace

RunResult run_in_threads(const std::filesystem::path& dir, const NamedTensors& inputs,
                         const RunOptions& options) {
  const auto [info, tail_info] = load_bundle(dir, inputs, options);
  const auto ranks = info.ranks.size();
  auto worlds = make_thread_communicators(static_cast<int>(ranks), options.timeout);
  const auto tail = load_tail(tail_info, dir, threads_of(options.device, {.rank = 0, .count = 1}));
  NamedTensors last_inputs;

  RunResult result;
  result.arena_bytes.resize(ranks);
  result.peak_bytes.resize(ranks);
  result.launches.resize(ranks);
  result.upload_seconds.resize(ranks);
  if (options.profile) result.spans.resize(ranks);
  FirstError error;
  std::mutex assembling;
  const auto run_rank = [&](std::size_t r) {
    try {
      const int rank = static_cast<int>(r);
      std::optional<Graph> shard = load_shard(info, dir, rank);
      worlds[r]->barrier(loading_timeout);
      RankRun run(*shard, options, *worlds[r], {.rank = rank, .count = static_cast<int>(ranks)},
                  pipeline_of(info));
      shard.reset();
      worlds[r]->barrier(loading_timeout);
      BundleFeed feed(info, inputs, options.loop, *worlds[r]);
      const auto seconds = run.run(feed, options.repeat);
      NamedTensors choices = feed.choices();
      if (rank == 0) last_inputs = feed.last_inputs();
      if (options.profile) result.spans[r] = run.profile(feed.parts(0));
      const std::lock_guard lock(assembling);
      result.choices = std::move(choices);
      result.arena_bytes[r] = run.arena_bytes();
      result.peak_bytes[r] = run.peak_bytes();
      result.launches[r] = run.launches();
      result.upload_seconds[r] = run.upload_seconds();
      take_slowest(result.run_seconds, seconds);
      take_slowest(result.device_seconds, run.device_seconds());
      for (const auto& total : run.collectives()) {
        bundle::add_collective(result.collectives, total);
      }
      std::size_t of_shard = 0;
      for (const bundle::PortInfo& port : info.outputs) {
        if (!port.ranges[r]) continue;
        for (const int m : microbatches_read(info, port))
          take_output(port, *port.ranges[r], m, run.output(of_shard, m), result.outputs);
        ++of_shard;
      }
    } catch (...) {
      error.store();
      worlds[r]->abort();
    }
  };
  {
    std::vector<std::jthread> started;
    for (std::size_t r = 0; r < ranks; ++r) started.emplace_back(run_rank, r);
  }
  error.rethrow();
  if (tail) {
    result.peak_bytes.front() += tail->summary().weight_bytes;
    run_tail(*tail, last_inputs, options, result);
  }
  return result;
}

RunResult run_as_rank(const std::filesystem::path& dir, const NamedTensors& inputs,
                      const RunOptions& options, Communicator& world, const LocalRanks& local) {
  const auto [info, tail_info] = load_bundle(dir, inputs, options);
  if (static_cast<std::size_t>(world.size()) != info.ranks.size()) {
    fail("{} has {} ranks, but {} processes were started; start {}", dir.string(),
         info.ranks.size(), world.size(), info.ranks.size());
  }
  const int rank = world.rank();
  std::optional<Graph> shard = load_shard(info, dir, rank);
  const auto tail =
      rank == 0 ? load_tail(tail_info, dir, threads_of(options.device, local)) : nullptr;
  world.barrier(loading_timeout);
  RankRun run(*shard, options, world, local, pipeline_of(info));
  shard.reset();
  world.barrier(loading_timeout);

  RunResult result;
  BundleFeed feed(info, inputs, options.loop, world);
  const std::vector<double> seconds = run.run(feed, options.repeat);
  result.choices = feed.choices();
  const NamedTensors last_inputs = feed.last_inputs();
  for (const double each : seconds)
    result.run_seconds.push_back(std::ranges::max(gather_values(each, world)));
  for (const double each : run.device_seconds())
    result.device_seconds.push_back(std::ranges::max(gather_values(each, world)));
  result.arena_bytes = gather_values(run.arena_bytes(), world);
  result.peak_bytes = gather_values(run.peak_bytes(), world);
  result.launches = gather_values(run.launches(), world);
  result.upload_seconds = gather_values(run.upload_seconds(), world);
  result.collectives = gather_totals(run.collectives(), world);
  if (options.profile) {
    const auto by_rank = gather_json(to_json(run.profile(feed.parts(0))), world);
    for (const nlohmann::json& spans : by_rank) result.spans.push_back(spans_from_json(spans));
  }
  std::size_t of_shard = 0;
  for (const bundle::PortInfo& port : info.outputs) {
    Tensor whole = Tensor::zeros(port.type, port.shape);
    const bool is_mine = port.ranges[static_cast<std::size_t>(rank)].has_value();
    for (const int m : microbatches_read(info, port)) {
      const Tensor mine = is_mine ? run.output(of_shard, m) : Tensor();
      const auto blocks =
          gather_bytes(is_mine ? mine.bytes() : std::span<const std::byte>(), world);
      if (rank != 0) continue;
      for (std::size_t r = 0; r < blocks.size(); ++r) {
        if (!port.ranges[r]) continue;
        graph::Shape shape;
        for (const Range& range : *port.ranges[r]) shape.push_back(range.size());
        place_output(port, *port.ranges[r], m, Tensor(port.type, shape, blocks[r].data(), nullptr),
                     whole);
      }
    }
    if (is_mine) ++of_shard;
    if (rank == 0) result.outputs.emplace(port.name, std::move(whole));
  }
  if (tail_info) {
    result.peak_bytes.front() += tail_info->summary.weight_bytes;
    run_tail_on_first(tail.get(), last_inputs, options, world, result);
  }
  return result;
}

RunResult run_whole(const Graph& graph, const NamedTensors& inputs, const RunOptions& options) {
  const auto world = make_thread_communicators(1, options.timeout);
  RankRun run(graph, options, *world.front(), {});
  WholeFeed feed(inputs);
  RunResult result;
  result.run_seconds = run.run(feed, options.repeat);
  result.device_seconds = run.device_seconds();
  result.arena_bytes = {run.arena_bytes()};
  result.peak_bytes = {run.peak_bytes()};
  result.launches = {run.launches()};
  result.upload_seconds = {run.upload_seconds()};
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    result.outputs.emplace(graph.value(graph.outputs[i]).name, run.output(i));
  }
  return result;
}

}  // namespace autopar::runtime
