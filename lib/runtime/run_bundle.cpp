#include "runtime/run_bundle.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "graph/error.h"
#include "graph/onnx_import.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/executable.h"

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

/// One rank of a bundle, or a whole model: compiled, fed and timed.
class RankRun {
 public:
  RankRun(const Graph& graph, const RunOptions& options, Communicator& host,
          const LocalRanks& local)
      : host_(host),
        place_(options.device, host, local, options.timeout),
        collectives_(place_.world(), host, options.timeout),
        executable_(graph, {.collectives = &collectives_, .device = &place_.device()}),
        weight_bytes_(graph::constant_bytes(graph)) {
    for (const auto id : graph.inputs) input_names_.push_back(graph.value(id).name);
  }

  /// `parts`: this rank's parts of the inputs, by name. Seconds of each counted run.
  std::vector<double> run(const NamedTensors& parts, int repeat) {
    if (repeat > 1) run_once(parts);
    std::vector<double> seconds;
    for (int i = 0; i < repeat; ++i) {
      collectives_.reset_totals();
      seconds.push_back(run_once(parts));
    }
    return seconds;
  }

  /// Of a run that is not counted.
  std::vector<Span> profile(const NamedTensors& parts) {
    write_inputs(parts);
    host_.barrier();
    std::vector<Span> spans = executable_.profile();
    host_.barrier();
    return spans;
  }

  Tensor output(std::size_t i) const { return executable_.read_output(i); }

  const std::vector<bundle::CollectiveTotal>& collectives() const { return collectives_.totals(); }
  std::int64_t arena_bytes() const { return executable_.arena_bytes(); }
  std::int64_t launches() const { return executable_.launches(); }
  double upload_seconds() const { return executable_.upload_seconds(); }
  std::int64_t peak_bytes() const {
    return weight_bytes_ + executable_.derived_constant_bytes() + executable_.arena_bytes() -
           executable_.scratch_bytes();
  }

 private:
  void write_inputs(const NamedTensors& parts) {
    for (std::size_t i = 0; i < input_names_.size(); ++i)
      executable_.write_input(i, parts.at(input_names_[i]));
  }

  /// The ranks start together, so the time is the slowest one's plus what they wait for each other.
  double run_once(const NamedTensors& parts) {
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
  Executable executable_;
  std::int64_t weight_bytes_;
  std::vector<std::string> input_names_;
};

NamedTensors parts_of(const bundle::MetaInfo& info, const NamedTensors& inputs, int rank) {
  NamedTensors parts;
  for (const bundle::PortInfo& port : info.inputs) {
    const auto& ranges = port.ranges[static_cast<std::size_t>(rank)];
    parts.emplace(port.name, inputs.at(port.name).slice(*ranges).contiguous_copy());
  }
  return parts;
}

Graph load_shard(const bundle::MetaInfo& info, const std::filesystem::path& dir, int rank) {
  bundle::check_files(info, dir, rank);
  const bundle::RankInfo& of_rank = info.ranks[static_cast<std::size_t>(rank)];
  return graph::load_onnx(dir / of_rank.files.front().name, {});
}

/// The first error of all ranks that is a cause.
class FirstError {
 public:
  /// The exception that is being handled.
  void store() {
    const std::lock_guard lock(mutex_);
    try {
      throw;
    } catch (const GivenUp&) {
      if (!consequence_) consequence_ = std::current_exception();
    } catch (...) {
      if (!cause_) cause_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (cause_) std::rethrow_exception(cause_);
    if (consequence_) std::rethrow_exception(consequence_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::exception_ptr consequence_;
};

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
      RankRun run(load_shard(info, dir, rank), options, *worlds[r],
                  {.rank = rank, .count = static_cast<int>(ranks)});
      worlds[r]->barrier(loading_timeout);
      const NamedTensors parts = parts_of(info, inputs, rank);
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
      for (std::size_t i = 0; i < info.outputs.size(); ++i) {
        place(run.output(i), *info.outputs[i].ranges[r], result.outputs.at(info.outputs[i].name));
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
  RankRun run(load_shard(info, dir, rank), options, world, local);
  world.barrier(loading_timeout);

  RunResult result;
  const NamedTensors parts = parts_of(info, inputs, rank);
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
  for (std::size_t i = 0; i < info.outputs.size(); ++i) {
    const bundle::PortInfo& port = info.outputs[i];
    const auto blocks = gather_bytes(run.output(i).bytes(), world);
    if (rank != 0) continue;
    Tensor whole = Tensor::zeros(port.type, port.shape);
    for (std::size_t r = 0; r < blocks.size(); ++r) {
      graph::Shape shape;
      for (const Range& range : *port.ranges[r]) shape.push_back(range.size());
      place(Tensor(port.type, shape, blocks[r].data(), nullptr), *port.ranges[r], whole);
    }
    result.outputs.emplace(port.name, std::move(whole));
  }
  return result;
}

RunResult run_whole(const Graph& graph, const NamedTensors& inputs, const RunOptions& options) {
  const auto world = make_thread_communicators(1, options.timeout);
  RankRun run(graph, options, *world.front(), {});
  NamedTensors parts;
  for (const auto& [name, tensor] : inputs) parts.emplace(name, tensor.contiguous_copy());
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
