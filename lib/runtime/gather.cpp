#include "runtime/gather.h"

#include <cstdint>
#include <string>

namespace autopar::runtime {

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

std::vector<nlohmann::json> gather_json(const nlohmann::json& mine, Communicator& world) {
  const std::string text = mine.dump();
  std::vector<nlohmann::json> all;
  for (const auto& block : gather_bytes(std::as_bytes(std::span(text)), world)) {
    const auto* begin = reinterpret_cast<const char*>(block.data());
    all.push_back(nlohmann::json::parse(begin, begin + block.size()));
  }
  return all;
}

}  // namespace autopar::runtime
