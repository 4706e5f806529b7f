// Reductions and sums along a row in every type that kernels are compiled for, ONNX's schemas
// leaving some out, and copies in every form that devices have: against loops.

#include <cmath>
#include <functional>
#include <limits>

#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

using Numbers = std::vector<double>;

std::vector<DataType> all_numbers() {
  std::vector<DataType> types = float_types;
  types.insert(types.end(), integer_types.begin(), integer_types.end());
  return types;
}

/// Three rows whose sums fit into 8 bits; of integers, no result but an exact one is near a whole
/// number, where it is cut.
std::vector<Numbers> rows_of(std::size_t length) {
  std::vector<Numbers> rows(3, Numbers(length, 1));
  for (std::size_t i = 0; i < length; ++i) rows[1][i] = i % 25 == 0 ? 1 : 0;
  rows[2].assign(length, 0);
  rows[2][0] = 3;
  rows[2][1] = 4;
  return rows;
}

double sum(const Numbers& row, const std::function<double(double)>& of) {
  double result = 0;
  for (const double x : row) result += of(x);
  return result;
}

struct Reduction {
  const char* op_type;
  std::function<double(const Numbers&)> of_row;
};

const Reduction reductions[] = {
    {"ReduceSum", [](const Numbers& row) { return sum(row, [](double x) { return x; }); }},
    {"ReduceMean",
     [](const Numbers& row) {
       return sum(row, [](double x) { return x; }) / static_cast<double>(row.size());
     }},
    {"ReduceProd",
     [](const Numbers& row) {
       double result = 1;
       for (const double x : row) result *= x;
       return result;
     }},
    {"ReduceMax", [](const Numbers& row) { return *std::ranges::max_element(row); }},
    {"ReduceMin", [](const Numbers& row) { return *std::ranges::min_element(row); }},
    {"ReduceSumSquare",
     [](const Numbers& row) { return sum(row, [](double x) { return x * x; }); }},
    {"ReduceL1", [](const Numbers& row) { return sum(row, [](double x) { return std::abs(x); }); }},
    {"ReduceL2",
     [](const Numbers& row) { return std::sqrt(sum(row, [](double x) { return x * x; })); }},
    {"ReduceLogSum",
     [](const Numbers& row) { return std::log(sum(row, [](double x) { return x; })); }},
    {"ReduceLogSumExp",
     [](const Numbers& row) { return std::log(sum(row, [](double x) { return std::exp(x); })); }},
};

Tensor axis(std::int64_t value) { return Tensor::of_int64({1}, std::span(&value, 1)); }
Tensor scalar(std::int64_t value) { return Tensor::of_int64({}, std::span(&value, 1)); }

}  // namespace

TEST_CASE("Reductions of short rows and of long ones, in every type there is a kernel for") {
  for (const std::size_t length : {4, 100}) {
    const std::vector<Numbers> rows = rows_of(length);
    Numbers all;
    for (const Numbers& row : rows) all.insert(all.end(), row.begin(), row.end());
    const Shape shape{3, static_cast<std::int64_t>(length)};
    for (const auto& [op_type, of_row] : reductions) {
      for (const DataType type : all_numbers()) {
        Numbers expected;
        for (const Numbers& row : rows) expected.push_back(of_row(row));
        if (!graph::is_floating_point(type))
          for (double& each : expected) each = std::trunc(each);
        CAPTURE(op_type, length);
        check_close(
            run_node({op_type, {}, {tensor_of(type, shape, all), axis(1)}, {{type, {3, 1}}}, {1}})
                .front(),
            expected);
      }
    }
  }
}

TEST_CASE("Sums and products along rows, in every type there is a kernel for") {
  const Shape shape{6, 40};
  for (const DataType type : all_numbers()) {
    for (const std::int64_t along : {0, 1}) {
      Numbers x(240, 1);
      for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 2;
      Numbers sums = x;
      const std::size_t step = along == 0 ? 40 : 1;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool is_first = along == 0 ? i < 40 : i % 40 == 0;
        if (!is_first) sums[i] += sums[i - step];
      }
      CAPTURE(along);
      check_close(
          run_node({"CumSum", {}, {tensor_of(type, shape, x), scalar(along)}, {{type, shape}}, {1}})
              .front(),
          sums);
    }
    Numbers products{2, 1, 3, 1};
    const Tensor x = tensor_of(type, {1, 4}, products);
    for (std::size_t i = 1; i < 4; ++i) products[i] *= products[i - 1];
    check_close(run_node({"CumProd", {}, {x, scalar(1)}, {{type, {1, 4}}}, {1}}).front(), products);
  }
}

TEST_CASE("A Range in every signed type") {
  for (const DataType type : {DataType::int8, DataType::int16, DataType::int32, DataType::int64,
                              DataType::float32, DataType::float64}) {
    const auto number = [&](double value) { return tensor_of(type, {}, {value}); };
    check_close(run_node({"Range", {}, {number(3), number(17), number(3)}, {{type, {5}}}}).front(),
                {3, 6, 9, 12, 15});
  }
}

namespace {

struct Copy {
  CopyLayout layout;
  std::int64_t in_elements = 0;
};

/// Rows that are moved, transposed, and repeated from one element each.
std::vector<Copy> copies_of(int bytes) {
  return {{{{6, 32}, {40, 1}, {32, 1}, bytes}, 240},
          {{{3, 64, 48}, {3072, 1, 64}, {3072, 48, 1}, bytes}, 9216},
          {{{5, 64}, {1, 0}, {64, 1}, bytes}, 5}};
}

using Bytes = std::vector<std::byte>;

Bytes expected_of(const Copy& copy, const Bytes& in) {
  const CopyLayout& layout = copy.layout;
  const auto size = static_cast<std::size_t>(layout.element_bytes);
  Bytes out(static_cast<std::size_t>(graph::num_elements(layout.shape)) * size);
  for_each_index(layout.shape, [&](const Shape& index) {
    std::int64_t from = 0;
    std::int64_t to = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      from += index[d] * layout.in_strides[d];
      to += index[d] * layout.out_strides[d];
    }
    std::copy_n(in.begin() + from * layout.element_bytes, size,
                out.begin() + to * layout.element_bytes);
  });
  return out;
}

void check_together(Device& device, const std::vector<Copy>& copies, Random& random) {
  std::vector<CopyLayout> layouts;
  std::vector<CopyPlace> places;
  std::vector<Bytes> expected;
  std::vector<std::shared_ptr<std::byte>> memory;
  for (const Copy& copy : copies) {
    Bytes in(static_cast<std::size_t>(copy.in_elements * copy.layout.element_bytes));
    for (std::byte& each : in) each = static_cast<std::byte>(random());
    expected.push_back(expected_of(copy, in));
    memory.push_back(device.allocate(static_cast<std::int64_t>(in.size())));
    device.write(memory.back().get(), in);
    memory.push_back(device.allocate(static_cast<std::int64_t>(expected.back().size())));
    layouts.push_back(copy.layout);
    places.push_back({memory[memory.size() - 2].get(), memory.back().get()});
  }
  device.make_strided_copies(layouts)->run(places, device.queue(Queue::computation));
  for (std::size_t i = 0; i < copies.size(); ++i) {
    Bytes out(expected[i].size());
    device.read(out, places[i].out);
    CAPTURE(graph::to_string(layouts[i].shape), layouts[i].element_bytes, copies.size());
    REQUIRE(out == expected[i]);
  }
}

}  // namespace

TEST_CASE("A device's copies in every form, by themselves and several at once") {
  Device* const device = device_under_test();
  if (device == nullptr) return;  // the CPU's have tests of their own
  Random random(3);
  for (const int bytes : {1, 2, 4, 8}) {
    for (const Copy& copy : copies_of(bytes)) {
      check_together(*device, {copy}, random);
      check_together(*device, std::vector<Copy>(5, copy), random);
    }
  }
}

TEST_CASE("A quantised convolution of many channels, in every type of bytes") {
  if (device_under_test() == nullptr) return;  // the CPU's have tests of their own
  constexpr std::int64_t images = 2, channels = 3, side = 5, rows = 20, taps = 3, places = 3;
  constexpr double scale = 0.5;
  Random random(5);
  for (const DataType x_type : {DataType::int8, DataType::uint8}) {
    for (const DataType w_type : {DataType::int8, DataType::uint8}) {
      const Tensor x = random_in(x_type, {images, channels, side, side}, random, 0, 9);
      Tensor w = random_in(w_type, {rows, channels, taps, taps}, random, 0, 5);
      std::vector<double> expected;
      for_each_index({images, rows, places, places}, [&](const Shape& out) {
        double sum = 0;
        for_each_index({channels, taps, taps}, [&](const Shape& tap) {
          sum += at(x, {out[0], tap[0], out[2] + tap[1], out[3] + tap[2]}) *
                 at(w, {out[1], tap[0], tap[1], tap[2]});
        });
        expected.push_back(scale * sum);
      });
      if (w_type == DataType::uint8) {  // such weights stand around 128
        std::vector<double> values = doubles(w);
        for (double& each : values) each += 128;
        w = tensor_of(w_type, w.shape(), values);
      }
      NodeRun node{"QuantizedConv",
                   {},
                   {x, w, tensor_of(DataType::float32, {1}, {scale})},
                   {{DataType::float32, {images, rows, places, places}}}};
      node.domain = "autopar.internal";
      CAPTURE(name_of(x_type), name_of(w_type));
      check_close(run_node(node).front(), expected, 100);
    }
  }
}
