#pragma once

#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

/// What ranks tell each other about a run, in the order of ranks; every rank gets all.
namespace autopar::runtime {

/// Every rank's block of bytes, known lengths or not.
std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> mine,
                                                 Communicator& world);

template <typename T>
std::vector<T> gather_values(const T& mine, Communicator& world) {
  std::vector<T> all;
  for (const auto& block : gather_bytes(std::as_bytes(std::span(&mine, 1)), world))
    std::memcpy(&all.emplace_back(), block.data(), sizeof(T));
  return all;
}

/// Every rank's text, parsed.
std::vector<nlohmann::json> gather_json(const nlohmann::json& mine, Communicator& world);

}  // namespace autopar::runtime
