#include "graph/tensor.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <random>

#include "base/mapped_file.h"
#include "base/temporary_folder.h"

using namespace autopar;
using namespace autopar::graph;

namespace {

Tensor counting(const Shape& shape) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(num_elements(shape)));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::of_int64(shape, values);
}

/// The elements of a slice, picked one by one.
std::vector<std::int64_t> picked(const Tensor& whole, std::span<const Range> ranges) {
  std::vector<std::int64_t> result;
  const auto values = whole.values<std::int64_t>();
  for (std::int64_t flat = 0; flat < whole.elements(); ++flat) {
    std::int64_t rest = flat;
    bool inside = true;
    for (std::size_t d = whole.shape().size(); d-- > 0;) {
      const std::int64_t index = rest % whole.shape()[d];
      rest /= whole.shape()[d];
      inside = inside && index >= ranges[d].begin && index < ranges[d].end;
    }
    if (inside) result.push_back(values[static_cast<std::size_t>(flat)]);
  }
  return result;
}

}  // namespace

TEST_CASE("random slices hold the elements that picking one by one finds") {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  for (int trial = 0; trial < 300; ++trial) {
    Shape shape(static_cast<std::size_t>(below(5)));
    for (auto& extent : shape) extent = 1 + below(5);
    std::vector<Range> ranges;
    for (const auto extent : shape) {
      const std::int64_t begin = below(extent + 1);
      ranges.push_back({begin, begin + below(extent - begin + 1)});
    }
    const Tensor whole = counting(shape);
    const Tensor part = whole.slice(ranges);
    const auto expected = picked(whole, ranges);
    REQUIRE(part.to_int64s() == expected);
    std::vector<std::int64_t> by_runs;
    part.for_each_run([&](std::span<const std::byte> run) {
      const auto* first = reinterpret_cast<const std::int64_t*>(run.data());
      by_runs.insert(by_runs.end(), first, first + run.size() / sizeof(std::int64_t));
    });
    REQUIRE(by_runs == expected);
    REQUIRE(part.contiguous_copy().is_contiguous());
  }
}

TEST_CASE("a slice of rows is one run and shares the data") {
  const Tensor whole = counting({4, 3});
  const std::vector<Range> rows{{1, 3}, {0, 3}};
  const Tensor part = whole.slice(rows);
  int runs = 0;
  part.for_each_run([&](std::span<const std::byte>) { ++runs; });
  CHECK(runs == 1);
  CHECK(part.is_contiguous());
  CHECK(part.data() == whole.data() + 3 * sizeof(std::int64_t));
}

TEST_CASE("views outlive the tensor they were cut from") {
  Tensor part;
  {
    const Tensor whole = counting({8});
    part = whole.slice(std::vector<Range>{{6, 8}});
  }
  CHECK(part.to_int64s() == std::vector<std::int64_t>{6, 7});
}

TEST_CASE("pages of a file that are given back are read again, and memory stays as it is") {
  const TemporaryFolder folder;
  std::vector<std::int64_t> values(5000);
  std::iota(values.begin(), values.end(), 0);
  std::ofstream(folder / "weights", std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(std::int64_t)));
  const auto file = MappedFile::open(folder / "weights");
  Tensor whole = Tensor::mapped(DataType::int64, {50, 100}, file->bytes().data(), file);
  const Tensor columns = whole.slice(std::vector<Range>{{0, 50}, {20, 80}});
  const std::vector<std::int64_t> before = columns.to_int64s();
  for (const Tensor& tensor : {whole, columns}) tensor.release_pages();
  CHECK(whole.to_int64s() == values);
  whole.drop_data();
  CHECK_FALSE(whole.has_data());
  CHECK(whole.shape() == Shape{50, 100});
  CHECK(columns.to_int64s() == before);

  Tensor own = counting({5000});
  const Tensor view = own.slice(std::vector<Range>{{0, 5000}});
  own.release_pages();
  CHECK(own.to_int64s() == values);
  own.drop_data();
  CHECK_FALSE(own.has_data());
  CHECK(view.to_int64s() == values);
}

TEST_CASE("bytes of a file are read as the mapping has them, whatever becomes of its name") {
  const TemporaryFolder folder;
  const std::string text = "the bytes of some file";
  std::ofstream(folder / "weights") << text;
  const auto open = [&] {
    const auto file = MappedFile::open(folder / "weights");
    const std::span<const std::byte> tail = file->bytes().subspan(4);
    return Tensor::mapped(DataType::uint8, {static_cast<std::int64_t>(tail.size())}, tail.data(),
                          file);
  };
  const auto five_from = [](const Tensor& tensor, std::int64_t begin) {
    std::string out(5, ' ');
    tensor.read(begin, std::as_writable_bytes(std::span(out)));
    return out;
  };
  const Tensor read_before = open();
  CHECK(five_from(read_before, 0) == "bytes");
  const Tensor read_behind = open();
  const Tensor read_without = open();
  std::ofstream(folder / "other") << "something else that is longer";
  std::filesystem::rename(folder / "other", folder / "weights");
  CHECK(five_from(read_before, 9) == "some ");
  CHECK(five_from(read_behind, 9) == "some ");
  std::filesystem::remove(folder / "weights");
  CHECK(five_from(read_without, 13) == " file");
  CHECK(five_from(read_before.contiguous_copy(), 0) == "bytes");
}

TEST_CASE("a 4-bit tensor is cut between bytes only") {
  const std::vector<std::uint8_t> pairs{0x10, 0x32, 0x54, 0x76};
  const Tensor flat = [&] {
    Tensor t = Tensor::zeros(DataType::uint4, {2, 4});
    std::ranges::copy(std::as_bytes(std::span(pairs)), t.mutable_bytes().begin());
    return t;
  }();
  const std::vector<Range> even{{0, 2}, {2, 4}};
  const std::vector<Range> odd{{0, 2}, {1, 3}};
  CHECK(flat.slice(even).to_int64s() == std::vector<std::int64_t>{2, 3, 6, 7});
  CHECK_THROWS_AS(flat.slice(odd), InternalError);
}

TEST_CASE("a 2-bit tensor is cut between bytes, and widens with its sign") {
  Tensor tensor = Tensor::zeros(DataType::int2, {2, 4});
  tensor.mutable_bytes()[0] = std::byte{0xE4};  // 0, 1, -2, -1
  tensor.mutable_bytes()[1] = std::byte{0x1B};
  CHECK(tensor.to_int64s() == std::vector<std::int64_t>{0, 1, -2, -1, -1, -2, 1, 0});
  const std::vector<Range> row{{1, 2}, {0, 4}};
  CHECK(tensor.slice(row).to_int64s() == std::vector<std::int64_t>{-1, -2, 1, 0});
  const std::vector<Range> half{{0, 2}, {0, 2}};
  CHECK_THROWS_AS(tensor.slice(half), InternalError);
}

TEST_CASE("signed 4-bit elements widen with their sign") {
  Tensor tensor = Tensor::zeros(DataType::int4, {3});
  tensor.mutable_bytes()[0] = std::byte{0x8F};
  tensor.mutable_bytes()[1] = std::byte{0x07};
  CHECK(tensor.to_int64s() == std::vector<std::int64_t>{-1, -8, 7});
}

TEST_CASE("empty tensors have data, are contiguous and have no runs") {
  const Tensor empty = Tensor::zeros(DataType::float32, {3, 0});
  CHECK(empty.has_data());
  CHECK(empty.is_contiguous());
  empty.for_each_run([](std::span<const std::byte>) { FAIL("a run of nothing"); });
  CHECK(Tensor::absent(DataType::float32, {0}).has_data());
  CHECK_FALSE(Tensor::absent(DataType::float32, {1}).has_data());
}

TEST_CASE("the same bytes in the same layout are the same view") {
  const Tensor whole = counting({2, 2});
  const std::vector<Range> all{{0, 2}, {0, 2}};
  CHECK(whole.same_view(whole.slice(all)));
  CHECK_FALSE(whole.same_view(whole.reshaped({4})));
  CHECK_FALSE(whole.same_view(whole.contiguous_copy()));
}

TEST_CASE("values() refuses a wrong element size and data that is not aligned") {
  alignas(8) std::array<std::byte, 16> bytes{};
  const Tensor crooked(DataType::float32, {2}, bytes.data() + 1, nullptr);
  CHECK_FALSE(crooked.is_aligned());
  CHECK_THROWS_AS(crooked.values<float>(), InternalError);
  CHECK(crooked.contiguous_copy().values<float>()[0] == 0.0F);
  CHECK_THROWS_AS(counting({2}).values<float>(), InternalError);
}

TEST_CASE("a shape whose strides are beyond 64 bits is impossible, though it is empty") {
  constexpr std::int64_t large = std::int64_t{1} << 32;
  CHECK(is_possible({0, large}));
  CHECK_FALSE(is_possible({0, large, large}));
  CHECK_FALSE(is_possible({large, large, 0}));
  CHECK_FALSE(is_possible({-1}));
}
