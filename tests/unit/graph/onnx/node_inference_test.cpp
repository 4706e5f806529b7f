#include "graph/onnx/node_inference.h"

#include <onnx/defs/parser.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Contains;

namespace {

using Dims = std::vector<std::optional<Shape>>;

/// A node in ONNX's text form, "y = Add (a, b)", with what is known of its inputs.
class Sketch {
 public:
  explicit Sketch(const std::string& text, std::int64_t opset = 21) {
    onnx::NodeProto node;
    REQUIRE(onnx::OnnxParser::Parse(node, text.c_str()).IsOK());
    context_.node = node;
    context_.opsets[""] = opset;
  }

  /// The next input; a left-out one stands for nothing.
  Sketch& in(DataType type, const Shape& shape) {
    values_.push_back(std::make_unique<Value>(Value{"", type, shape, std::nullopt}));
    return *this;
  }
  Sketch& constant(const Tensor& tensor) {
    values_.push_back(std::make_unique<Value>(Value{"", tensor.type(), tensor.shape(), tensor}));
    return *this;
  }
  Sketch& left_out() {
    values_.push_back(nullptr);
    return *this;
  }

  const NodeInContext& context() {
    context_.inputs.clear();
    for (const auto& value : values_) context_.inputs.push_back(value.get());
    context_.schema = &schema_of(context_.node, context_.opsets, "model.onnx");
    return context_;
  }
  std::vector<OutputType> outputs() { return infer_outputs(context(), "model.onnx"); }
  Dims shapes() {
    Dims shapes;
    for (const OutputType& output : outputs()) shapes.push_back(output.shape);
    return shapes;
  }

 private:
  NodeInContext context_;
  std::vector<std::unique_ptr<Value>> values_;
};

Tensor integers(const std::vector<std::int64_t>& values) {
  return Tensor::of_int64({std::ssize(values)}, values);
}

}  // namespace

TEST_CASE("types and shapes of outputs follow from those of inputs") {
  const auto outputs = Sketch("y = MatMul (a, b)")
                           .in(DataType::float16, {2, 3, 4})
                           .in(DataType::float16, {4, 5})
                           .outputs();
  REQUIRE(outputs.size() == 1);
  CHECK(outputs[0].type == DataType::float16);
  CHECK(outputs[0].shape == Shape{2, 3, 5});
  const auto both =
      Sketch("v, i = TopK (x, k)").in(DataType::float32, {2, 9}).constant(integers({4})).outputs();
  REQUIRE(both.size() == 2);
  CHECK(both[0].type == DataType::float32);
  CHECK(both[1].type == DataType::int64);
  CHECK(both[1].shape == Shape{2, 4});
}

TEST_CASE("inference reads small constants, and leaves open what only a run tells") {
  CHECK(Sketch("y = Reshape (x, s)")
            .in(DataType::float32, {2, 6})
            .constant(integers({3, -1}))
            .shapes() == Dims{Shape{3, 4}});
  CHECK(Sketch("y = Reshape (x, s)")
            .in(DataType::float32, {2, 6})
            .in(DataType::int64, {2})
            .shapes() == Dims{std::nullopt});
  CHECK(Sketch("y = NonZero (x)").in(DataType::float32, {2, 6}).shapes() == Dims{std::nullopt});
}

TEST_CASE("an input that is left out is none") {
  CHECK(Sketch("y = Clip (x, , high)")
            .in(DataType::float32, {2, 6})
            .left_out()
            .in(DataType::float32, {})
            .shapes() == Dims{Shape{2, 6}});
}

TEST_CASE("functions are inferred by their bodies") {
  CHECK(Sketch("y = Gelu (x)").in(DataType::float32, {2, 6}).shapes() == Dims{Shape{2, 6}});
}

TEST_CASE("shapes that ONNX's inference leaves open though constants tell them") {
  Tensor keeps = Tensor::zeros(DataType::boolean, {4});
  keeps.mutable_bytes()[1] = keeps.mutable_bytes()[3] = std::byte{1};
  CHECK(Sketch("y = Compress <axis = 1> (x, keeps)")
            .in(DataType::float32, {3, 5})
            .constant(keeps)
            .shapes() == Dims{Shape{3, 2}});
  CHECK(Sketch("y = Compress (x, keeps)").in(DataType::float32, {3, 5}).constant(keeps).shapes() ==
        Dims{Shape{2}});
  CHECK(Sketch("y = MaxUnpool <kernel_shape = [2, 2]> (x, i, s)")
            .in(DataType::float32, {1, 1, 2, 2})
            .in(DataType::int64, {1, 1, 2, 2})
            .constant(integers({1, 1, 5, 5}))
            .shapes() == Dims{Shape{1, 1, 5, 5}});
  CHECK(Sketch("y = Resize (x, , , sizes)")
            .in(DataType::float32, {0, 2, 4})
            .left_out()
            .left_out()
            .constant(integers({0, 2, 8}))
            .shapes() == Dims{Shape{0, 2, 8}});
}

TEST_CASE("a Range counts in 64 bits") {
  const auto range = [](DataType type, std::int64_t start, std::int64_t limit, std::int64_t step) {
    Sketch sketch("y = Range (a, b, c)");
    for (const std::int64_t number : {start, limit, step}) {
      Tensor constant = Tensor::zeros(type, {});
      if (type == DataType::int32) {
        const auto narrow = static_cast<std::int32_t>(number);
        std::memcpy(constant.mutable_bytes().data(), &narrow, sizeof narrow);
      } else {
        std::memcpy(constant.mutable_bytes().data(), &number, sizeof number);
      }
      sketch.constant(constant);
    }
    return sketch.shapes();
  };
  constexpr std::int64_t lowest = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t highest = std::numeric_limits<std::int32_t>::max();
  CHECK(range(DataType::int32, 1, 10, 3) == Dims{Shape{3}});
  CHECK(range(DataType::int32, 10, 1, -4) == Dims{Shape{3}});
  CHECK(range(DataType::int32, 1, highest, -1) == Dims{Shape{0}});
  CHECK(range(DataType::int32, lowest, highest, 1 << 30) == Dims{Shape{4}});
  CHECK(range(DataType::int32, highest, lowest, lowest) == Dims{Shape{2}});
  CHECK(range(DataType::int32, lowest, highest, lowest) == Dims{Shape{0}});
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  CHECK(range(DataType::int64, 0, far, far) == Dims{Shape{1}});
  CHECK_THROWS_WITH(range(DataType::int64, -2, far, far), Contains("more than 64 bits apart"));
  CHECK_THROWS_WITH(range(DataType::int64, 0, far, 1), Contains("impossible shape"));
  CHECK_THROWS_WITH(range(DataType::int64, 0, 4, 0), Contains("its step is 0"));
}

TEST_CASE("shape arithmetic is propagated where all of it is known") {
  Sketch sum("y = Add (a, b)");
  sum.constant(integers({2, 3})).constant(integers({4, 5}));
  const auto known = propagate_data(sum.context(), sum.outputs()[0]);
  REQUIRE(known);
  CHECK(known->to_int64s() == std::vector<std::int64_t>{6, 8});

  Sketch unknown("y = Add (a, b)");
  unknown.constant(integers({2, 3})).in(DataType::int64, {2});
  CHECK_FALSE(propagate_data(unknown.context(), unknown.outputs()[0]));
  Sketch floats("y = Add (a, b)");
  const std::vector<float> numbers{1, 2};
  floats.constant(Tensor::of_float({2}, numbers)).constant(Tensor::of_float({2}, numbers));
  CHECK_FALSE(propagate_data(floats.context(), floats.outputs()[0]));
}

namespace {

/// What inference says of the node; "none" where it has nothing against it.
std::string message(Sketch sketch) {
  try {
    sketch.outputs();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("errors name file, node and what does not fit") {
  const auto conv = [](const std::string& attributes, const Shape& weights) {
    return std::move(Sketch("y = Conv " + attributes + " (x, w)")
                         .in(DataType::float32, {1, 4, 8, 8})
                         .in(DataType::float32, weights));
  };
  CHECK_THAT(message(conv("<strides = [0, 1]>", {2, 4, 3, 3})),
             Contains("model.onnx") && Contains("(Conv)") &&
                 Contains("its attribute 'strides' is not positive"));
  CHECK_THAT(message(conv("<group = 0>", {2, 4, 3, 3})), Contains("'group' is not positive"));
  CHECK_THAT(message(conv("<group = 2>", {2, 4, 3, 3})),
             Contains("data 1x4x8x8 and weights 2x4x3x3 in 2 group(s) do not fit"));
  CHECK_THAT(message(std::move(Sketch("y = Einsum <equation = \"ij,jk->ik\"> (a, b)")
                                   .in(DataType::float32, {2, 3})
                                   .in(DataType::float32, {4, 5}))),
             Contains("'j' of 'ij,jk->ik' is both 3 and 4"));
  CHECK_THAT(
      message(std::move(
          Sketch("y = Reshape (x, s)").in(DataType::float32, {2, 6}).constant(integers({5, 2})))),
      Contains("data 2x6 cannot be reshaped to 5x2"));
  CHECK_THAT(
      message(std::move(
          Sketch("y = MatMul (a, b)").in(DataType::float32, {2, 3}).in(DataType::float32, {4, 5}))),
      Contains("model.onnx") && Contains("inputs that do not fit together"));
  CHECK_THAT(message(std::move(Sketch("y = Cast <to = 8> (x)").in(DataType::float32, {2}))),
             Contains("it makes strings, which are not supported"));
  CHECK_THAT(message(std::move(Sketch("y = Cast <to = 27> (x)", 28).in(DataType::float32, {2}))),
             Contains("it makes elements of type 27, which this version does not know"));
  CHECK_THAT(
      message(std::move(Sketch("a, b = Split <num_outputs = 3> (x)").in(DataType::float32, {6}))),
      Contains("its 2 outputs do not make up the 6 elements of its data"));
  CHECK(message(std::move(
            Sketch("a, b = Split <num_outputs = 2> (x)").in(DataType::float32, {5}))) == "none");
}

TEST_CASE("sizes that attributes, weights and stacks tell otherwise are refused") {
  const auto recurrent = [](const std::string& node, std::int64_t gates) {
    return std::move(Sketch("y = " + node + " <hidden_size = 1> (x, w, r)")
                         .in(DataType::float32, {2, 1, 4})
                         .in(DataType::float32, {1, gates * 3, 4})
                         .in(DataType::float32, {1, gates * 3, 3}));
  };
  CHECK_THAT(message(recurrent("RNN", 1)),
             Contains("'hidden_size' is 1, but its weights R are 1x3x3"));
  CHECK_THAT(message(recurrent("GRU", 3)),
             Contains("'hidden_size' is 1, but its weights R are 1x9x3"));
  CHECK_THAT(message(recurrent("LSTM", 4)), Contains("'hidden_size' is 1, but its weights R are"));
  const auto pool = [](const std::string& attributes) {
    return std::move(Sketch("y = MaxPool <kernel_shape = [3], " + attributes + "> (x)")
                         .in(DataType::float32, {1, 1, 8}));
  };
  CHECK_THAT(message(pool("strides = [9223372036854775807], ceil_mode = 1")),
             Contains("'strides' is beyond what a window may have"));
  CHECK_THAT(message(pool("pads = [0, 4294967296]")), Contains("'pads' is beyond"));
  CHECK(message(pool("strides = [1000000]")) == "none");
  CHECK_THAT(message(std::move(Sketch("y = ConvTranspose <output_shape = [4]> (x, w)")
                                   .in(DataType::float32, {1, 1, 8})
                                   .in(DataType::float32, {1, 1, 3}))),
             Contains("'output_shape' does not fit its data 1x1x8"));
  CHECK_THAT(message(std::move(Sketch("y = MatMulInteger (a, b, z)")
                                   .in(DataType::uint8, {3, 3, 2})
                                   .in(DataType::uint8, {2, 4})
                                   .in(DataType::uint8, {2, 3, 1}))),
             Contains("'a_zero_point', 2x3x1, has another batch than its matrices 3x3x2"));
}

TEST_CASE("an operator is known at its version alone") {
  const auto message_at = [](const std::string& text, std::int64_t opset) {
    try {
      Sketch(text, opset).in(DataType::float32, {2}).context();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(message_at("y = Gelu (x)", 20) == "none");
  CHECK_THAT(message_at("y = Gelu (x)", 19),
             Contains("uses the operator Gelu of domain 'ai.onnx'") && Contains("opset 19") &&
                 Contains("is not known"));
  CHECK_THAT(message_at("y = Softmax <axes = [1]> (x)", 21),
             Contains("is not what its operator allows"));
}
