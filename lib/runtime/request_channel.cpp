#include "runtime/request_channel.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"

namespace autopar::runtime {
namespace {

using graph::Tensor;
using nlohmann::json;

/// A barrier that nobody is late for: ten years.
constexpr auto however_long = std::chrono::hours(24 * 3650);
constexpr std::int64_t no_more = 0;  ///< as the header's bytes

void broadcast(std::string& text, HostCommunicator& world) {
  world.broadcast(reinterpret_cast<std::byte*>(text.data()), std::ssize(text), 0);
}

void broadcast(Tensor& tensor, HostCommunicator& world) {
  world.broadcast(tensor.mutable_bytes().data(), tensor.size_bytes(), 0);
}

std::int64_t broadcast_size(std::int64_t bytes, HostCommunicator& world) {
  world.broadcast(reinterpret_cast<std::byte*>(&bytes), sizeof bytes, 0);
  return bytes;
}

}  // namespace

void send_request(const NamedTensors* inputs, HostCommunicator& world) {
  world.barrier();
  if (inputs == nullptr) {
    broadcast_size(no_more, world);
    return;
  }
  json header = json::array();
  for (const auto& [name, tensor] : *inputs)
    header.push_back({name, graph::name_of(tensor.type()), tensor.shape()});
  std::string text = header.dump();
  broadcast_size(std::ssize(text), world);
  broadcast(text, world);
  for (const auto& [name, tensor] : *inputs) {
    Tensor copy = tensor.contiguous_copy();  // a collective's memory is never const
    broadcast(copy, world);
  }
}

std::optional<NamedTensors> wait_for_request(HostCommunicator& world) {
  world.barrier(however_long);
  const std::int64_t bytes = broadcast_size(0, world);
  if (bytes == no_more) return std::nullopt;
  std::string text(at(bytes), ' ');
  broadcast(text, world);
  NamedTensors inputs;
  for (const json& of_tensor : json::parse(text)) {
    Tensor tensor = Tensor::zeros(graph::parse_data_type(of_tensor[1].get<std::string>()),
                                  of_tensor[2].get<graph::Shape>());
    broadcast(tensor, world);
    inputs.emplace(of_tensor[0], std::move(tensor));
  }
  return inputs;
}

}  // namespace autopar::runtime
