#include "serving/joined_tensors.h"

#include <numeric>

#include "unit/serving/names.h"

namespace autopar::serving {
namespace {

/// Counts from `first`.
Tensor counted(const Shape& shape, std::int64_t first) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(graph::num_elements(shape)));
  std::iota(values.begin(), values.end(), first);
  return Tensor::of_int64(shape, values);
}

}  // namespace

TEST_CASE("what is joined along any dimension comes apart again") {
  for (int dim = 0; dim < 3; ++dim) {
    Shape small = {2, 3, 2};
    Shape large = small;
    large[static_cast<std::size_t>(dim)] = 5;
    small[static_cast<std::size_t>(dim)] = 1;
    const Tensor a = counted(small, 0);
    const Tensor b = counted(large, 100);
    const std::vector<const Tensor*> parts = {&a, &b, &a};
    const Tensor whole = joined(parts, dim);
    CHECK(whole.shape()[static_cast<std::size_t>(dim)] == 7);
    const auto back = parted(whole, dim, std::vector<std::int64_t>{1, 5, 1});
    REQUIRE(back);
    CHECK((*back)[0].contiguous_copy().to_int64s() == a.to_int64s());
    CHECK((*back)[1].contiguous_copy().to_int64s() == b.to_int64s());
    CHECK((*back)[1].shape() == large);
    CHECK((*back)[2].contiguous_copy().to_int64s() == a.to_int64s());
  }
}

TEST_CASE("an output may have several indices for a row, but no fraction of one") {
  const Tensor whole = counted({6, 2}, 0);
  const auto parts = parted(whole, 0, std::vector<std::int64_t>{2, 1});
  REQUIRE(parts);
  CHECK((*parts)[0].shape() == Shape{4, 2});
  CHECK((*parts)[1].contiguous_copy().to_int64s() == std::vector<std::int64_t>{8, 9, 10, 11});
  CHECK_FALSE(parted(whole, 0, std::vector<std::int64_t>{2, 2}));
  CHECK_FALSE(parted(whole, 2, std::vector<std::int64_t>{1}));
}

TEST_CASE("slices and tensors without elements are joined, too") {
  const Tensor table = counted({2, 4}, 0);
  const Tensor slice = table.slice(std::vector<graph::Range>{{0, 2}, {1, 3}});
  const Tensor none = Tensor::zeros(graph::DataType::int64, {0, 2});
  const std::vector<const Tensor*> parts = {&none, &slice, &none};
  CHECK(joined(parts, 0).to_int64s() == std::vector<std::int64_t>{1, 2, 5, 6});
  const std::vector<const Tensor*> empty = {&none, &none};
  CHECK(joined(empty, 1).shape() == Shape{0, 4});
}

}  // namespace autopar::serving
