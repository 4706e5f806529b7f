#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

/// A test of one operator of the table of contrib, by which every_operator_test knows that it has
/// one: "com.microsoft", "Gelu", and what is tested.
#define OPERATOR_TEST(domain, op_type, what) \
  COUNTED_OPERATOR_TEST(domain, op_type, what, __COUNTER__)
#define COUNTED_OPERATOR_TEST(domain, op_type, what, count) \
  NUMBERED_OPERATOR_TEST(domain, op_type, what, count)
#define NUMBERED_OPERATOR_TEST(domain, op_type, what, count)                       \
  static const autopar::graph::RegisteredTest registered_##count(domain, op_type); \
  TEST_CASE(domain "::" op_type ": " what)

namespace autopar::graph {

/// Domain and operator.
using OperatorName = std::pair<std::string, std::string>;

/// The operators that have a test.
std::vector<OperatorName>& tested_operators();

struct RegisteredTest {
  RegisteredTest(const char* domain, const char* op_type) {
    tested_operators().emplace_back(domain, op_type);
  }
};

/// The numbers of a tensor, row-major, whatever its type.
struct Array {
  Array() = default;
  explicit Array(Shape extents, double value = 0)
      : shape(std::move(extents)), values(static_cast<std::size_t>(num_elements(shape)), value) {}
  Array(Shape extents, std::vector<double> numbers)
      : shape(std::move(extents)), values(std::move(numbers)) {}

  /// The element of these indices, one a dimension.
  template <typename... Index>
  double& operator()(Index... index) {
    return values[offset({static_cast<std::int64_t>(index)...})];
  }
  template <typename... Index>
  double operator()(Index... index) const {
    return values[offset({static_cast<std::int64_t>(index)...})];
  }
  std::int64_t extent(std::size_t dim) const { return shape[dim]; }

  Shape shape;
  std::vector<double> values;

 private:
  std::size_t offset(std::initializer_list<std::int64_t> index) const;
};

Tensor tensor_of(const Array& array, DataType type = DataType::float32);
Array array_of(const Tensor& tensor);

/// Numbers that are the same in each run of a test.
class Draw {
 public:
  Array numbers(const Shape& shape, double low = -2, double high = 2);
  /// Whole ones, of low to high, both included.
  Array integers(const Shape& shape, int low, int high);

 private:
  std::mt19937 random_{7};
};

/// `f` of each element, or of each two; shapes broadcast as ONNX's do.
Array map(const Array& x, const std::function<double(double)>& f);
Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f);
Array sum(const Array& a, const Array& b);
Array product(const Array& a, const Array& b);
/// The product of two matrices.
Array matmul(const Array& a, const Array& b);
Array transposed(const Array& a);
/// Each row, along the last dimension, as `f` changes it.
Array by_row(Array x, const std::function<void(std::vector<double>&)>& f);
/// exp over its sum, row by row.
Array softmax(const Array& x);
double sigmoid(double x);
double gelu(double x);
double tanh_gelu(double x);

/// A call of one operator.
class Call {
 public:
  Call(std::string domain, std::string op_type, std::int64_t version = 1)
      : domain_(std::move(domain)), op_type_(std::move(op_type)), version_(version) {}

  /// The next input.
  Call& in(const Array& array, DataType type = DataType::float32);
  /// The next input, which the model holds.
  Call& constant(const Array& array, DataType type = DataType::float32);
  Call& left_out();
  Call& set(const std::string& name, Attribute value);

  /// Imports a model of this call, by which the operator becomes its body, and runs that on the
  /// CPU; then computes the model once more as one whose inputs are all known. Both must give the
  /// same outputs, of which these are the first ones.
  std::vector<Array> run(int outputs = 1) const;
  /// The first output.
  Array result() const { return run().front(); }

 private:
  struct Input {
    std::optional<Tensor> tensor;
    bool is_constant = false;
  };

  std::string domain_;
  std::string op_type_;
  std::int64_t version_;
  std::vector<Input> inputs_;
  std::map<std::string, Attribute> attributes_;
};

/// Shapes are the same, and so are the numbers, but for what float32 rounds.
void check(const Array& found, const Array& expected, double tolerance = 2e-5);

}  // namespace autopar::graph
