#include "onnx_runtime/packing.h"

#include <array>
#include <numeric>

#include <catch2/catch.hpp>

using namespace autopar;
using namespace autopar::onnx_runtime;

namespace {

using Bytes = std::vector<std::byte>;

/// Elements of one byte: 0, 1, 2, ...
Bytes counting(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

std::vector<int> numbers(const Bytes& bytes) {
  std::vector<int> result;
  for (const std::byte each : bytes) result.push_back(static_cast<int>(each));
  return result;
}

}  // namespace

TEST_CASE("Columns of a matrix are packed a block a rank, and go back to their places") {
  Bytes matrix = counting(2 * 4);
  const Blocks blocks(1, {2, 4}, 1, {3, 0, 1});
  CHECK_FALSE(blocks.are_in_tensor());
  CHECK(blocks.bytes() == std::vector<std::int64_t>{6, 0, 2});
  Bytes packed(8);
  blocks.copy(matrix.data(), packed.data(), Direction::from_tensor);
  CHECK(numbers(packed) == std::vector<int>{0, 1, 2, 4, 5, 6, 3, 7});
  Bytes back(8);
  blocks.copy(back.data(), packed.data(), Direction::to_tensor);
  CHECK(back == matrix);
}

TEST_CASE("Blocks of the outermost dimension lie in the tensor as they are") {
  const Blocks blocks(4, {1, 3, 5}, 1, {2, 1});
  CHECK(blocks.are_in_tensor());
  CHECK(blocks.elements() == std::vector<std::int64_t>{10, 5});
  CHECK(blocks.bytes() == std::vector<std::int64_t>{40, 20});
  CHECK(blocks.total_bytes() == 60);
}

TEST_CASE("A box is packed and goes back to its place") {
  Bytes tensor = counting(2 * 3 * 4);
  const std::array<graph::Range, 3> box = {{{0, 2}, {1, 3}, {1, 2}}};
  Bytes packed(4);
  copy_box(1, {2, 3, 4}, box, tensor.data(), packed.data(), Direction::from_tensor);
  CHECK(numbers(packed) == std::vector<int>{5, 9, 17, 21});
  Bytes back(tensor.size());
  copy_box(1, {2, 3, 4}, box, back.data(), packed.data(), Direction::to_tensor);
  CHECK(std::accumulate(back.begin(), back.end(), 0, [](int sum, std::byte each) {
          return sum + static_cast<int>(each);
        }) == 5 + 9 + 17 + 21);
  CHECK(back[17] == std::byte{17});
}

TEST_CASE("A scalar is a box of itself") {
  Bytes tensor = counting(2);
  Bytes packed(2);
  copy_box(2, {}, {}, tensor.data(), packed.data(), Direction::from_tensor);
  CHECK(packed == tensor);
}
