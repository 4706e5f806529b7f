#include "runtime/gather.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "runtime/batch_parts.h"

namespace autopar::runtime {

using graph::Range;
using graph::Tensor;

std::vector<nlohmann::json> gather_json(const nlohmann::json& mine, HostCommunicator& world) {
  const std::string text = mine.dump();
  std::vector<nlohmann::json> all;
  for (const std::vector<char>& each : gather_lists<char>(world, text))
    all.push_back(nlohmann::json::parse(each));
  return all;
}

void take_slowest(std::span<double> seconds, HostCommunicator& world) {
  world.all_reduce(reinterpret_cast<std::byte*>(seconds.data()),
                   reinterpret_cast<std::byte*>(seconds.data()), std::ssize(seconds),
                   graph::DataType::float64, ReduceOp::max);
}

namespace {

/// The ranks whose parts are taken: of those that have the same part, the first.
std::vector<int> contributors(const bundle::PortInfo& port) {
  std::vector<int> ranks;
  for (auto own = port.ranges.begin(); own != port.ranges.end(); ++own)
    if (*own && std::find(port.ranges.begin(), own, *own) == own)
      ranks.push_back(static_cast<int>(own - port.ranges.begin()));
  return ranks;
}

Tensor receive_part(const bundle::PortInfo& port, const std::vector<Range>& ranges, int from,
                    HostCommunicator& world) {
  graph::Shape shape;
  for (const Range& range : ranges) shape.push_back(range.size());
  Tensor part = Tensor::zeros(port.type, shape);
  world.receive(part.mutable_bytes().data(), part.size_bytes(), from);
  return part;
}

}  // namespace

Tensor gather_output(const bundle::MetaInfo& info, const bundle::PortInfo& port,
                     const std::function<Tensor(int microbatch)>& part, HostCommunicator& world) {
  const std::vector<int> ranks = contributors(port);
  const std::vector<int> microbatches = microbatches_read(info, port);
  if (world.rank() != 0) {
    if (std::ranges::find(ranks, world.rank()) == ranks.end()) return {};
    for (const int m : microbatches) {
      const Tensor mine = part(m);
      world.send(mine.data(), mine.size_bytes(), 0);
    }
    return {};
  }
  std::optional<Tensor> whole;
  for (const int rank : ranks) {
    const std::vector<Range>& ranges = *port.ranges[static_cast<std::size_t>(rank)];
    for (const int m : microbatches) {
      Tensor received = rank == 0 ? part(m) : receive_part(port, ranges, rank, world);
      if (received.shape() == port.shape) {  // the only part is the whole
        whole = std::move(received);
        continue;
      }
      if (!whole) whole = Tensor::zeros(port.type, port.shape);
      place_output(port, ranges, m, received, *whole);
    }
  }
  return whole ? *whole : Tensor::zeros(port.type, port.shape);
}

}  // namespace autopar::runtime
