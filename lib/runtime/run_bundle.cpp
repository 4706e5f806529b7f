#include "runtime/run_bundle.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "graph/error.h"
#include "graph/message_boxes.h"
#include "graph/onnx_import.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/executable.h"
#include "runtime/first_error.h"

namespace autopar::runtime {

namespace {

using graph::Graph;
using graph::Range;
using graph::Tensor;
using Clock = std::chrono::steady_clock;

/// Writes a contiguous part of a tensor to its place.
void place(const Tensor& part, const std::vector<Range>& ranges, Tensor& whole) {
  if (part.elements() == 0) return;
  const std::int64_t element = graph::bytes_of(part.type(), 1);
  const std::byte* from = part.data();
  std::byte* to = whole.mutable_bytes().data();
  // Odometer over all dimensions but the last, whose elements follow one another.
  const std::size_t rank = ranges.size();
  const std::int64_t row = (rank == 0 ? 1 : ranges.back().size()) * element;
  std::vector<std::int64_t> index;
  for (std::size_t d = 0; d + 1 < rank; ++d) index.push_back(ranges[d].begin);
  while (true) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      offset = offset * whole.shape()[d] + (d + 1 < rank ? index[d] : ranges[d].begin);
    }
    std::memcpy(to + offset * element, from, static_cast<std::size_t>(row));
    from += row;
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == ranges[d - 1].end) {
      index[d - 1] = ranges[d - 1].begin;
      --d;
    }
    if (d == 0) return;
  }
}

/// What a pipeline is to the ranks' runs.
struct Pipeline {
  std::vector<std::vector<int>> stages;  ///< the world's ranks by stage
  int microbatches = 1;
  std::vector<std::string> common_inputs;  ///< that all microbatches have in common
};

/// This rank's parts of the inputs: by name, then by microbatch; one where all have the same.
using InputParts = std::map<std::string, std::vector<Tensor>>;

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
  std::vector<double> run(const InputParts& parts, int repeat) {
    if (repeat > 1) run_once(parts);
    std::vector<double> seconds;
    for (int i = 0; i < repeat; ++i) {
      collectives_.reset_totals();
      seconds.push_back(run_once(parts));
    }
    return seconds;
  }

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
      const std::vector<Tensor>& of_input = parts.at(input_names_[i]);
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
  double run_once(const InputParts& parts) {
    write_inputs(parts);
    host_.barrier();
    const auto start = Clock::now();
    executable_.run();
    host_.barrier();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Communicator& host_;
  RankDevice place_;
  CollectiveContext collectives_;
  int microbatches_;
  Executable executable_;
  std::int64_t weight_bytes_;
  std::vector<std::string> input_names_;
};

Pipeline pipeline_of(const bundle::MetaInfo& info) {
  Pipeline pipeline;
  for (const bundle::StageInfo& stage : info.stages) pipeline.stages.push_back(stage.ranks);
  pipeline.microbatches = info.microbatches;
  for (const bundle::PortInfo& port : info.inputs)
    if (!port.batch) pipeline.common_inputs.push_back(port.name);
  return pipeline;
}

/// The rows of the whole batch that a microbatch has: fewer than BatchInfo::rows, or none, at the
/// end.
Range rows_of(const bundle::PortInfo& port, int microbatch) {
  const std::int64_t all = port.shape[static_cast<std::size_t>(port.batch->dim)];
  const std::int64_t rows = port.batch->rows;
  return {std::min(all, microbatch * rows), std::min(all, (microbatch + 1) * rows)};
}

std::vector<Range> whole_ranges(const graph::Shape& shape) {
  std::vector<Range> ranges;
  for (const std::int64_t extent : shape) ranges.push_back({0, extent});
  return ranges;
}

/// A microbatch's tensor. Where rows are missing, the last one is repeated.
Tensor microbatch_of(const bundle::PortInfo& port, const Tensor& whole, int microbatch) {
  const auto dim = static_cast<std::size_t>(port.batch->dim);
  const Range rows = rows_of(port, microbatch);
  std::vector<Range> taken = whole_ranges(port.shape);
  taken[dim] = rows;
  if (rows.size() == port.batch->rows) return whole.slice(taken);
  graph::Shape shape = port.shape;
  shape[dim] = port.batch->rows;
  Tensor filled = Tensor::zeros(port.type, shape);
  std::vector<Range> put = whole_ranges(shape);
  put[dim] = {0, rows.size()};
  place(whole.slice(taken).contiguous_copy(), put, filled);
  if (port.shape[dim] == 0) return filled;
  taken[dim] = {port.shape[dim] - 1, port.shape[dim]};
  const Tensor last = whole.slice(taken).contiguous_copy();
  for (std::int64_t row = rows.size(); row < shape[dim]; ++row) {
    put[dim] = {row, row + 1};
    place(last, put, filled);
  }
  return filled;
}

InputParts parts_of(const bundle::MetaInfo& info, const NamedTensors& inputs, int rank) {
  InputParts parts;
  for (const bundle::PortInfo& port : info.inputs) {
    const auto& ranges = port.ranges[static_cast<std::size_t>(rank)];
    if (!ranges) continue;
    const Tensor& whole = inputs.at(port.name);
    std::vector<Tensor>& of_port = parts[port.name];
    if (!port.batch) {
      of_port.push_back(whole.slice(*ranges).contiguous_copy());
      continue;
    }
    for (int m = 0; m < info.microbatches; ++m)
      of_port.push_back(microbatch_of(port, whole, m).slice(*ranges).contiguous_copy());
  }
  return parts;
}

/// What a run reads from the ranks: the microbatches of an output that are not dropped.
std::vector<int> microbatches_read(const bundle::MetaInfo& info, const bundle::PortInfo& port) {
  if (!port.batch) return {info.microbatches - 1};
  std::vector<int> read;
  for (int m = 0; m < info.microbatches; ++m)
    if (rows_of(port, m).size() > 0) read.push_back(m);
  return read;
}

/// Writes one rank's part of a microbatch's output to its place in the whole batch's.
void place_output(const bundle::PortInfo& port, const std::vector<Range>& ranges, int microbatch,
                  const Tensor& part, Tensor& whole) {
  if (!port.batch) return place(part, ranges, whole);
  const auto dim = static_cast<std::size_t>(port.batch->dim);
  const Range rows = rows_of(port, microbatch);
  const std::int64_t kept = std::min(ranges[dim].end, rows.size());
  if (kept <= ranges[dim].begin) return;
  std::vector<Range> taken = whole_ranges(part.shape());
  taken[dim].end = kept - ranges[dim].begin;
  std::vector<Range> put = ranges;
  put[dim] = {rows.begin + ranges[dim].begin, rows.begin + kept};
  place(part.slice(taken).contiguous_copy(), put, whole);
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

Graph load_shard(const bundle::MetaInfo& info, const std::filesystem::path& dir, int rank) {
  bundle::check_files(info, dir, rank);
  const bundle::RankInfo& of_rank = info.ranks[static_cast<std::size_t>(rank)];
  Graph shard = graph::load_onnx(dir / of_rank.files.front().name, {});
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
  return shard;
}

/// Every rank's block of bytes, known lengths or not.
std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> mine,
                                                 Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(ranks);
  const std::vector<std::int64_t> length_bytes(ranks, sizeof length);
  world.all_gather(reinterpret_cast<const std::byte*>(&length),
                   reinterpret_cast<std::byte*>(lengths.data()), length_bytes);
  std::int64_t total = 0;
  for (const std::int64_t each : lengths) total += each;
  std::vector<std::byte> all(static_cast<std::size_t>(total));
  world.all_gather(mine.data(), all.data(), lengths);
  std::vector<std::vector<std::byte>> blocks;
  auto begin = all.begin();
  for (const std::int64_t each : lengths) {
    blocks.emplace_back(begin, begin + each);
    begin += each;
  }
  return blocks;
}

template <typename T>
std::vector<T> gather_values(const T& mine, Communicator& world) {
  std::vector<T> all;
  for (const auto& block : gather_bytes(std::as_bytes(std::span(&mine, 1)), world)) {
    std::memcpy(&all.emplace_back(), block.data(), sizeof(T));
  }
  return all;
}

/// Every rank's text, parsed.
std::vector<nlohmann::json> gather_json(const nlohmann::json& mine, Communicator& world) {
  const std::string text = mine.dump();
  std::vector<nlohmann::json> all;
  for (const auto& block : gather_bytes(std::as_bytes(std::span(text)), world)) {
    const auto* begin = reinterpret_cast<const char*>(block.data());
    all.push_back(nlohmann::json::parse(begin, begin + block.size()));
  }
  return all;
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

}  // namespace

void check_inputs(const std::vector<bundle::PortInfo>& ports, const NamedTensors& inputs) {
  std::string known;
  for (const bundle::PortInfo& port : ports) known += (known.empty() ? "" : ", ") + port.name;
  for (const auto& [name, tensor] : inputs) {
    if (std::ranges::find(ports, name, &bundle::PortInfo::name) == ports.end()) {
      fail("--input {}: the model has no such input; it has {}", name, known);
    }
  }
  for (const bundle::PortInfo& port : ports) {
    const auto found = inputs.find(port.name);
    if (found == inputs.end()) {
      fail("no tensor for input '{}': give --input {}=FILE.npy, or --random-inputs SEED", port.name,
           port.name);
    }
    const Tensor& tensor = found->second;
    if (tensor.type() != port.type || tensor.shape() != port.shape) {
      fail("input '{}' is {} of {}, but the bundle was made for {} of {}", port.name,
           graph::to_string(tensor.shape()), name_of(tensor.type()), graph::to_string(port.shape),
           name_of(port.type));
    }
  }
}

RunResult run_in_threads(const std::filesystem::path& dir, const NamedTensors& inputs,
                         const RunOptions& options) {
  const bundle::MetaInfo info = bundle::load_meta_info(dir);
  check_inputs(info.inputs, inputs);
  const auto ranks = info.ranks.size();
  auto worlds = make_thread_communicators(static_cast<int>(ranks), options.timeout);

  RunResult result;
  result.arena_bytes.resize(ranks);
  result.peak_bytes.resize(ranks);
  result.launches.resize(ranks);
  result.upload_seconds.resize(ranks);
  if (options.profile) result.spans.resize(ranks);
  for (const bundle::PortInfo& port : info.outputs) {
    result.outputs.emplace(port.name, Tensor::zeros(port.type, port.shape));
  }
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
      const InputParts parts = parts_of(info, inputs, rank);
      const auto seconds = run.run(parts, options.repeat);
      if (options.profile) result.spans[r] = run.profile(parts);
      const std::lock_guard lock(assembling);
      result.arena_bytes[r] = run.arena_bytes();
      result.peak_bytes[r] = run.peak_bytes();
      result.launches[r] = run.launches();
      result.upload_seconds[r] = run.upload_seconds();
      result.run_seconds.resize(seconds.size(), 0);
      for (std::size_t i = 0; i < seconds.size(); ++i) {
        result.run_seconds[i] = std::max(result.run_seconds[i], seconds[i]);
      }
      for (const auto& total : run.collectives()) {
        bundle::add_collective(result.collectives, total);
      }
      std::size_t of_shard = 0;
      for (const bundle::PortInfo& port : info.outputs) {
        if (!port.ranges[r]) continue;
        for (const int m : microbatches_read(info, port))
          place_output(port, *port.ranges[r], m, run.output(of_shard, m),
                       result.outputs.at(port.name));
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
  return result;
}

RunResult run_as_rank(const std::filesystem::path& dir, const NamedTensors& inputs,
                      const RunOptions& options, Communicator& world, const LocalRanks& local) {
  const bundle::MetaInfo info = bundle::load_meta_info(dir);
  if (static_cast<std::size_t>(world.size()) != info.ranks.size()) {
    fail("{} has {} ranks, but {} processes were started; start {}", dir.string(),
         info.ranks.size(), world.size(), info.ranks.size());
  }
  check_inputs(info.inputs, inputs);
  const int rank = world.rank();
  std::optional<Graph> shard = load_shard(info, dir, rank);
  world.barrier(loading_timeout);
  RankRun run(*shard, options, world, local, pipeline_of(info));
  shard.reset();
  world.barrier(loading_timeout);

  RunResult result;
  const InputParts parts = parts_of(info, inputs, rank);
  const std::vector<double> seconds = run.run(parts, options.repeat);
  for (const double each : seconds) {
    result.run_seconds.push_back(std::ranges::max(gather_values(each, world)));
  }
  result.arena_bytes = gather_values(run.arena_bytes(), world);
  result.peak_bytes = gather_values(run.peak_bytes(), world);
  result.launches = gather_values(run.launches(), world);
  result.upload_seconds = gather_values(run.upload_seconds(), world);
  result.collectives = gather_totals(run.collectives(), world);
  if (options.profile) {
    const auto by_rank = gather_json(to_json(run.profile(parts)), world);
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
  return result;
}

RunResult run_whole(const Graph& graph, const NamedTensors& inputs, const RunOptions& options) {
  const auto world = make_thread_communicators(1, options.timeout);
  RankRun run(graph, options, *world.front(), {});
  InputParts parts;
  for (const auto& [name, tensor] : inputs) parts[name] = {tensor.contiguous_copy()};
  RunResult result;
  result.run_seconds = run.run(parts, options.repeat);
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
