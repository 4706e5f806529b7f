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

json to_json(const RunOptions& options) {
  const LoopOptions& loop = options.loop;
  json choices = json::array();
  for (const LoopOptions::Choice& choice : loop.choices)
    choices.push_back({choice.output, choice.input});
  return {{"steps", loop.steps},
          {"start", loop.start},
          {"choices", std::move(choices)},
          {"continues", loop.continues},
          {"past", loop.past ? json(*loop.past) : json()},
          {"capacity", loop.capacity},
          {"repeat", options.repeat},
          {"outputs", options.outputs},
          {"profile", options.profile}};
}

RunOptions run_options_from(const json& text) {
  RunOptions options;
  options.loop.steps = text["steps"];
  options.loop.start = text["start"];
  for (const json& choice : text["choices"]) options.loop.choices.push_back({choice[0], choice[1]});
  options.loop.continues = text["continues"];
  if (!text["past"].is_null()) options.loop.past = text["past"].get<std::int64_t>();
  options.loop.capacity = text["capacity"];
  options.repeat = text["repeat"];
  options.outputs = text["outputs"].get<std::vector<std::string>>();
  options.profile = text["profile"];
  return options;
}

}  // namespace

void send_end(HostCommunicator& world) {
  world.barrier();
  broadcast_size(no_more, world);
}

void send_request(const NamedTensors& inputs, const RunOptions& options, HostCommunicator& world) {
  world.barrier();
  json tensors = json::array();
  for (const auto& [name, tensor] : inputs)
    tensors.push_back({name, graph::name_of(tensor.type()), tensor.shape()});
  std::string text = json{{"options", to_json(options)}, {"inputs", std::move(tensors)}}.dump();
  broadcast_size(std::ssize(text), world);
  broadcast(text, world);
  for (const auto& [name, tensor] : inputs) {
    Tensor copy = tensor.contiguous_copy();  // a collective's memory is never const
    broadcast(copy, world);
  }
}

std::optional<RunRequest> wait_for_request(HostCommunicator& world) {
  world.barrier(however_long);
  const std::int64_t bytes = broadcast_size(0, world);
  if (bytes == no_more) return std::nullopt;
  std::string text(at(bytes), ' ');
  broadcast(text, world);
  const json header = json::parse(text);
  RunRequest request{.inputs = {}, .options = run_options_from(header["options"])};
  for (const json& of_tensor : header["inputs"]) {
    Tensor tensor = Tensor::zeros(graph::parse_data_type(of_tensor[1].get<std::string>()),
                                  of_tensor[2].get<graph::Shape>());
    broadcast(tensor, world);
    request.inputs.emplace(of_tensor[0], std::move(tensor));
  }
  return request;
}

}  // namespace autopar::runtime
