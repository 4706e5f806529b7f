#include "runtime/session_rank.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/free_memory.h"
#include "runtime/check_collectives.h"
#include "runtime/gather.h"

namespace autopar::runtime {
namespace {

using graph::Graph;
using graph::Tensor;

/// Larger constants are a file's and are told apart by their places there.
constexpr std::int64_t largest_compared_bytes = 1 << 20;

/// Whether both are views of one file's same bytes, or have the same few bytes.
bool is_same_data(const Tensor& a, const Tensor& b) {
  const bool are_of_one_file =
      a.is_mapped() && b.is_mapped() && a.file()->identity() == b.file()->identity();
  if (are_of_one_file)
    return a.data() - a.file()->bytes().data() == b.data() - b.file()->bytes().data();
  return a.size_bytes() <= largest_compared_bytes && a.is_contiguous() && b.is_contiguous() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

std::map<std::string, Tensor> constants_of(const Graph& shard) {
  std::map<std::string, Tensor> constants;
  for (const graph::Value& value : shard.values)
    if (value.constant) constants.emplace(value.name, *value.constant);
  return constants;
}

/// One tensor for what is one weight of the rank, so that it is uploaded and packed once.
void share_weights(const std::map<std::string, Tensor>& weights, Graph& shard) {
  for (graph::Value& value : shard.values) {
    if (!value.constant) continue;
    if (value.constant->has_data() && !value.constant->is_contiguous())
      value.constant = value.constant->contiguous_copy();  // as a file would have it
    const auto weight = weights.find(value.name);
    const bool fits = weight != weights.end() && weight->second.type() == value.type &&
                      weight->second.shape() == value.shape;
    if (fits && (!value.constant->has_data() || is_same_data(weight->second, *value.constant)))
      value.constant = weight->second;
    if (!value.constant->has_data())
      fail(
          "weight '{}' is needed as {}, which no rank has; partition the model with this shape, "
          "too",
          value.name, graph::to_string(value.shape));
  }
}

}  // namespace

SessionRank::SessionRank(const Graph& shard, const DeviceOptions& device, HostCommunicator& host,
                         const LocalRanks& local, std::chrono::milliseconds timeout,
                         Pipeline pipeline)
    : host_(host),
      context_(device, host, local, timeout, pipeline.stages),
      pipeline_(std::move(pipeline)),
      weights_(constants_of(shard)) {}

void SessionRank::check_memory(const bundle::MetaInfo& info, const LocalRanks& local,
                               bool are_all_here) {
  if (!context_.device().shares_host_memory()) return;  // a GPU tells of its own memory
  const auto beside_weights = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return std::max<std::int64_t>(0,
                                  info.profiles.front().peak_bytes[r] - info.ranks[r].weight_bytes);
  };
  std::int64_t of_machine = 0;
  for (const int rank : local.in_world) of_machine += beside_weights(rank);
  const std::int64_t of_process = are_all_here ? of_machine : beside_weights(host_.rank());
  const auto check = [&](std::int64_t needed, const FreeMemory& free) {
    if (needed > free.bytes)
      fail(
          "{} rank{} of this machine need{} {} bytes beside the weights, and {} are free of {}: "
          "run fewer ranks here, or partition the model over more or with another --memory",
          local.count, local.count == 1 ? "" : "s", local.count == 1 ? "s" : "", needed, free.bytes,
          free.of);
  };
  check(std::max(of_machine, of_process), free_memory());
  check(of_process, free_address_space());
}

void SessionRank::make_states(std::vector<StateBuffer> states) {
  runs_.clear();
  context_.make_states(std::move(states));
}

RankRun& SessionRank::run_of(std::size_t shape, const ShapedProgram& program) {
  if (const auto kept = runs_.find(shape); kept != runs_.end()) return kept->second;
  if (!program.digest.empty()) check_digest(program.digest);
  Graph shard = program.shard(host_.rank());
  if (program.digest.empty()) compare_collectives(shard, host_);
  share_weights(weights_, shard);
  RankRun& run = runs_.try_emplace(shape, shard, context_, pipeline_).first->second;
  host_.barrier();  // a run waits no longer than ranks work
  return run;
}

void SessionRank::check_digest(const std::string& digest) {
  for (const nlohmann::json& other : gather_json(digest, host_))
    if (other != digest)
      fail("ranks made different programs for one shape: start all from the same build of autopar");
}

}  // namespace autopar::runtime
