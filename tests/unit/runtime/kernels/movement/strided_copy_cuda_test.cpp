#include "runtime/kernels/movement/strided_copy_cuda.h"

#include <emulation.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "runtime/devices/cuda/cuda_device.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime::cuda {
namespace {

using Strides = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

/// A copy, and how far from the start of their memory its sides begin, in elements.
struct Case {
  CopyLayout layout;
  std::int64_t in_begin = 0;
  std::int64_t out_begin = 0;
};

/// The elements that a layout reaches before and behind its first, as counts.
std::pair<std::int64_t, std::int64_t> reach(const Shape& shape, const Strides& strides) {
  std::pair<std::int64_t, std::int64_t> reach{0, 0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t last = (shape[d] - 1) * strides[d];
    (last < 0 ? reach.first : reach.second) += std::abs(last);
  }
  return reach;
}

std::int64_t elements_needed(const Shape& shape, const Strides& strides, std::int64_t begin) {
  return begin + reach(shape, strides).second + 1;
}

Bytes random_bytes(std::int64_t size, std::mt19937& random) {
  Bytes bytes(static_cast<std::size_t>(size));
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

/// The output's memory as it should be, element by element.
Bytes copied(const Case& c, const Bytes& in, Bytes out) {
  const Shape& shape = c.layout.shape;
  for (std::int64_t i = 0; i < graph::num_elements(shape); ++i) {
    std::int64_t from = c.in_begin;
    std::int64_t to = c.out_begin;
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      from += rest % shape[d] * c.layout.in_strides[d];
      to += rest % shape[d] * c.layout.out_strides[d];
    }
    const int bytes = c.layout.element_bytes;
    std::copy_n(in.begin() + from * bytes, bytes, out.begin() + to * bytes);
  }
  return out;
}

/// Runs cases as one StridedCopies and compares all of the memory.
void check(const std::vector<Case>& cases, std::mt19937& random,
           std::int64_t most_elements = FastDivisor::limit) {
  auto& device = static_cast<CudaDevice&>(*testing::device_under_test());
  std::vector<CopyLayout> layouts;
  std::vector<CopyPlace> places;
  std::vector<Bytes> expected;
  std::vector<std::shared_ptr<std::byte>> memory;
  for (const Case& c : cases) {
    const auto& [shape, in_strides, out_strides, bytes] = c.layout;
    const bool is_empty = graph::num_elements(shape) == 0;
    const Bytes in = random_bytes(
        bytes * (is_empty ? 1 : elements_needed(shape, in_strides, c.in_begin)), random);
    const Bytes out = random_bytes(
        bytes * (is_empty ? 1 : elements_needed(shape, out_strides, c.out_begin)), random);
    expected.push_back(copied(c, in, out));
    for (const Bytes* each : {&in, &out}) {
      memory.push_back(device.allocate(static_cast<std::int64_t>(each->size())));
      device.write(memory.back().get(), *each);
    }
    layouts.push_back(c.layout);
    places.push_back({memory[memory.size() - 2].get() + c.in_begin * bytes,
                      memory.back().get() + c.out_begin * bytes});
  }
  const CudaStridedCopies copies(layouts, most_elements);
  copies.run(places, device.compute_stream());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Bytes out(expected[i].size());
    device.read(out, memory[2 * i + 1].get());
    CAPTURE(graph::to_string(cases[i].layout.shape), graph::to_string(cases[i].layout.in_strides),
            graph::to_string(cases[i].layout.out_strides), cases[i].layout.element_bytes,
            cases[i].in_begin, cases[i].out_begin);
    REQUIRE(out == expected[i]);
  }
}

/// Strides of a tensor that lies in memory with its dimensions in the given order, with a gap
/// behind every row of the last.
Strides ordered_strides(const Shape& shape, const std::vector<std::size_t>& order,
                        std::int64_t gap) {
  Strides strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<std::int64_t>(1, shape[order[i]]);
    if (i + 1 == order.size()) stride += gap;
  }
  return strides;
}

Case random_case(std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::int64_t>(random() % n); };
  Case c;
  const std::size_t rank = random() % 7;
  constexpr std::int64_t extents[] = {1, 2, 3, 4, 5, 8, 16, 17, 33, 64};
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t room = 6000 / std::max<std::int64_t>(1, graph::num_elements(c.layout.shape));
    const std::int64_t extent = extents[random() % std::size(extents)];
    c.layout.shape.push_back(random() % 50 == 0 ? 0 : std::clamp<std::int64_t>(room, 1, extent));
  }
  std::shuffle(c.layout.shape.begin(), c.layout.shape.end(), random);
  c.layout.element_bytes = 1 << random() % 4;
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  c.layout.out_strides = ordered_strides(c.layout.shape, order, random() % 3 ? 0 : below(17));
  if (random() % 8 == 0) {
    std::shuffle(order.begin(), order.end(), random);
    c.layout.out_strides = ordered_strides(c.layout.shape, order, 0);
  }
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  c.layout.in_strides = ordered_strides(c.layout.shape, order, random() % 3 ? 0 : below(17));
  for (std::int64_t& stride : c.layout.in_strides) {
    if (random() % 6 == 0) stride = 0;
    if (random() % 6 == 0) stride = -stride;
    if (random() % 8 == 0) stride *= 2;
  }
  c.in_begin = reach(c.layout.shape, c.layout.in_strides).first + (random() % 3 ? 0 : below(17));
  c.out_begin = random() % 3 ? 0 : below(17);
  return c;
}

int alignment_of(std::int64_t bytes) {
  return static_cast<int>(std::gcd<std::int64_t>(bytes, widest_word));
}

TEST_CASE("Random copies agree with a loop, in every form") {
  std::mt19937 random(1);
  std::set<std::tuple<CopyForm, int, int>> seen;
  for (int round = 0; round < 1500; ++round) {
    emulation::set_seed(static_cast<std::uint64_t>(round));
    const Case c = random_case(random);
    check({c}, random);
    const int bytes = c.layout.element_bytes;
    int alignment = alignment_of(c.out_begin * bytes);
    if (!repeats_elements(c.layout))
      alignment = std::min(alignment, alignment_of(c.in_begin * bytes));
    for (const CopyJob& job : plan_copy(c.layout, std::max(alignment, bytes)))
      seen.emplace(job.form, job.load_bytes, job.store_bytes);
  }
  for (const int bytes : {1, 2, 4, 8}) {
    CAPTURE(bytes);
    CHECK(seen.contains({CopyForm::words, bytes, bytes}));
    CHECK(seen.contains({CopyForm::tiles, bytes, bytes}));
    CHECK(seen.contains({CopyForm::repeated, bytes, 16}));
  }
  CHECK(seen.contains({CopyForm::words, 16, 16}));
}

TEST_CASE("Elements of 16 bytes, as complex numbers have, are copied") {
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    Case c = random_case(random);
    c.layout.element_bytes = 16;
    check({c}, random);
  }
}

TEST_CASE("Copies of all forms go out together, and cross between them nowhere") {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    emulation::set_seed(static_cast<std::uint64_t>(round));
    std::vector<Case> cases;
    for (std::size_t i = 0; i < 1 + random() % 20; ++i) cases.push_back(random_case(random));
    check(cases, random);
  }
}

TEST_CASE("Copies of one width are one launch, eight at a time") {
  std::mt19937 random(3);
  const Case piece{{{6, 32}, {96, 1}, {32, 1}, 2}, 32, 0};
  const auto launches = [&](const std::vector<Case>& cases) {
    const auto before = emulation::counters();
    check(cases, random);
    return emulation::counters().launches - before.launches;
  };
  CHECK(launches({piece, piece, piece}) == 1);
  CHECK(launches(std::vector<Case>(8, piece)) == 1);
  CHECK(launches(std::vector<Case>(9, piece)) == 2);
  const Case unaligned_in{piece.layout, 33, 0};
  const Case unaligned_out{piece.layout, 32, 1};
  CHECK(launches({piece, unaligned_in, piece, unaligned_out}) == 2);
  CHECK(launches({unaligned_in, unaligned_out}) == 1);
  const Case repeated{{{6, 32}, {1, 0}, {32, 1}, 2}, 0, 0};
  const Case repeated_unaligned_in{repeated.layout, 1, 0};
  const Case repeated_unaligned_out{repeated.layout, 0, 1};
  CHECK(launches({repeated, repeated_unaligned_in}) == 1);
  CHECK(launches({repeated, repeated_unaligned_out}) == 2);
  const Case empty{{{0, 32}, {96, 1}, {32, 1}, 2}, 0, 0};
  CHECK(launches({empty, piece}) == 1);
  CHECK(launches({empty}) == 0);
}

TEST_CASE("Split and Concat are one kernel each") {
  std::mt19937 random(5);
  const auto type = DataType::float16;
  const std::vector<graph::Tensor> parts(3, testing::random_in(type, {4, 16}, random, -1, 1));
  const std::vector<std::pair<DataType, Shape>> shapes(3, {type, {4, 16}});
  const std::map<std::string, graph::Attribute> axis = {{"axis", std::int64_t{1}}};
  const auto kernels = [&](const testing::NodeRun& node) {
    const auto before = emulation::counters();
    testing::run_node(node);
    return emulation::counters().kernels - before.kernels;
  };
  CHECK(kernels({"Concat", axis, {parts[0], parts[1], parts[2]}, {{type, {4, 48}}}}) == 1);
  CHECK(kernels({"Split", axis, {testing::random_in(type, {4, 48}, random, -1, 1)}, shapes}) == 1);
}

TEST_CASE("What is too large for one launch, or has too many dimensions, is cut") {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    Case c = random_case(random);
    const std::int64_t most = 64 + static_cast<std::int64_t>(random() % 3000);
    for (const CopyJob& job : plan_copy(c.layout, widest_word, most)) {
      CHECK(std::int64_t{job.layout.words} * std::max(1U, job.matrix.rows) *
                std::max(1U, job.matrix.columns) * job.store_bytes <=
            most * c.layout.element_bytes);
      CHECK(job.in_offset % job.load_bytes == 0);
      CHECK(job.out_offset % job.store_bytes == 0);
    }
    check({c}, random, most);
  }
  // A row that is cut stays wide, and its parts begin where wide words can.
  for (const CopyLayout& row :
       {CopyLayout{{2047}, {1}, {1}, 1}, CopyLayout{{2, 2044}, {2045, 1}, {2044, 1}, 4},
        CopyLayout{{2, 2044}, {0, 0}, {2046, 1}, 2}})
    for (const CopyJob& job : plan_copy(row, widest_word, 1500)) {
      CHECK(job.in_offset % job.load_bytes == 0);
      CHECK(job.out_offset % job.store_bytes == 0);
    }
  CHECK(plan_copy({{4096}, {1}, {1}, 1}, widest_word, 1500).front().load_bytes == widest_word);
  // Rows that are launched one by one begin at wide words on one side alone.
  for (const CopyLayout& rows :
       {CopyLayout{{2, 16}, {64, 1}, {17, 1}, 4}, CopyLayout{{2, 16}, {17, 1}, {64, 1}, 4}}) {
    const auto jobs = plan_copy(rows, widest_word, 16);
    CHECK(jobs.size() == 2);
    for (const CopyJob& job : jobs) {
      CHECK(job.in_offset % job.load_bytes == 0);
      CHECK(job.out_offset % job.store_bytes == 0);
    }
  }
  Case deep;
  deep.layout.shape = {2, 3, 2, 2, 2, 2, 2, 2, 3, 2, 2};
  std::vector<std::size_t> order(deep.layout.shape.size());
  std::iota(order.begin(), order.end(), 0);
  deep.layout.out_strides = ordered_strides(deep.layout.shape, order, 0);
  std::ranges::reverse(order);
  deep.layout.in_strides = ordered_strides(deep.layout.shape, order, 1);
  deep.layout.element_bytes = 4;
  CHECK(plan_copy(deep.layout, 4).size() > 1);
  check({deep}, random);
}

// What is picked

CopyJob only_job(const CopyLayout& layout, int alignment = 16) {
  const auto jobs = plan_copy(layout, alignment);
  REQUIRE(jobs.size() == 1);
  return jobs[0];
}

TEST_CASE("Words are as wide as runs, strides and alignment allow") {
  const auto width = [](const CopyLayout& layout, int alignment) {
    const CopyJob job = only_job(layout, alignment);
    CHECK(job.form == CopyForm::words);
    CHECK(job.load_bytes == job.store_bytes);
    return job.load_bytes;
  };
  const CopyLayout whole{{5, 64}, {64, 1}, {64, 1}, 2};
  CHECK(only_job(whole).layout.dimensions == 1);
  CHECK(only_job(whole).layout.words == 5 * 64 * 2 / 16);
  for (const int alignment : {2, 4, 8, 16}) CHECK(width(whole, alignment) == alignment);
  CHECK(width({{5, 64}, {68, 1}, {64, 1}, 2}, 16) == 8);
  CHECK(width({{5, 64}, {64, 1}, {66, 1}, 2}, 16) == 4);
  CHECK(width({{5, 63}, {64, 1}, {64, 1}, 2}, 16) == 2);
  CHECK(width({{5, 64}, {-64, 1}, {64, 1}, 4}, 16) == 16);
  CHECK(width({{5, 64}, {0, 1}, {64, 1}, 1}, 16) == 16);
  CHECK(width({{64}, {-1}, {1}, 4}, 16) == 4);
  CHECK(width({{64}, {2}, {1}, 4}, 16) == 4);
  // Heads before the sequence: rows of 64 halves stay together.
  CHECK(width({{2, 12, 128, 64}, {98304, 64, 768, 1}, {98304, 8192, 64, 1}, 2}, 16) == 16);
}

TEST_CASE("A transpose takes tiles, of pairs where pairs stay together") {
  const CopyJob plain = only_job({{7, 40, 50}, {2000, 1, 40}, {2000, 50, 1}, 2});
  CHECK(plain.form == CopyForm::tiles);
  CHECK(plain.load_bytes == 2);
  CHECK(plain.matrix.rows == 40);
  CHECK(plain.matrix.columns == 50);
  CHECK(plain.layout.words == 7);
  const CopyJob pairs = only_job({{40, 50, 2}, {2, 80, 1}, {100, 2, 1}, 2});
  CHECK(pairs.form == CopyForm::tiles);
  CHECK(pairs.load_bytes == 4);
  CHECK(only_job({{3, 50}, {1, 3}, {50, 1}, 2}).form == CopyForm::words);
}

TEST_CASE("What repeats along rows is read once for a wide word") {
  const CopyJob rows = only_job({{5, 64}, {1, 0}, {64, 1}, 2});
  CHECK(rows.form == CopyForm::repeated);
  CHECK(rows.load_bytes == 2);
  CHECK(rows.store_bytes == 16);
  CHECK(rows.layout.words == 5 * 8);
  CHECK(only_job({{5, 64}, {1, 0}, {64, 1}, 2}, 8).form == CopyForm::words);
  CHECK(only_job({{5, 63}, {1, 0}, {64, 1}, 2}).form == CopyForm::words);
  CHECK(only_job({{5, 64}, {1, 0}, {65, 1}, 2}).form == CopyForm::words);
}

}  // namespace
}  // namespace autopar::runtime::cuda
