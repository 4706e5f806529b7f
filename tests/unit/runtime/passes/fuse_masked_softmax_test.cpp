#include <limits>

#include "unit/runtime/passes/attention_spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

const std::vector<Pass> masked_softmax = {passes::drop_identities, passes::fuse_masked_softmax};

TEST_CASE("A softmax takes in its scale, its last mask, a guard against NaN and Casts") {
  for (const DataType type : {DataType::float32, DataType::float16})
    for (const int casts : {0, 1})
      for (const bool guard : {false, true})
        for (const int scale : {0, 1, 2})
          for (const MaskForm mask : {MaskForm::none, MaskForm::added, MaskForm::causal,
                                      MaskForm::where, MaskForm::causal_fill}) {
            Spelling s;
            s.ends(spell(s, {.scale = scale,
                             .mask = mask,
                             .nan_guard = guard,
                             .type = type,
                             .casts = type == DataType::float32 ? 0 : casts}));
            const Graph fused = after(s.graph, masked_softmax);
            const bool is_plain = !guard && scale == 0 && mask == MaskForm::none;
            CHECK(count(fused, "MaskedSoftmax") == (is_plain ? 0 : 1));
            CHECK(count(fused, "Add") == 0);
            CHECK(count(fused, "Where") == (mask == MaskForm::causal_fill ? 1 : 0));
            if (!is_plain && mask != MaskForm::causal_fill) CHECK(count(fused, "Cast") == 0);
          }
}

TEST_CASE("A softmax over another dimension, or whose masked scores others read, stays as it is") {
  for (const bool is_read : {false, true}) {
    Spelling s;
    s.ends(spell(s, {.mask = MaskForm::added}));
    if (is_read)
      s.ends(result_of(s, "Add"));
    else
      std::ranges::find(s.graph.nodes, "Softmax", &graph::Node::op_type)->attributes["axis"] =
          std::int64_t{1};
    CHECK(count(after(s.graph, masked_softmax), "MaskedSoftmax") == 0);
  }
}

TEST_CASE("A mask of one number a row, or of one for all, is the same for each column") {
  Random random(3);
  for (const DataType type : float_types)
    for (const Shape& shape : {Shape{4, 1}, Shape{1, 1}, Shape{2, 1, 1}}) {
      Spelling s;
      s.type = type;
      const ValueId scores = s.in("x", {2, 4, 6});
      s.ends(s.op("Softmax", {s.either("Add", scores, s.in("mask", shape))}, {2, 4, 6}));
      CAPTURE(name_of(type), shape);
      CHECK(count(after(s.graph, masked_softmax), "MaskedSoftmax") == 1);
      Executable plain(s.graph, {.optimize = false});
      Executable fused(s.graph, {});
      std::vector<Tensor> inputs;
      for (const ValueId input : s.graph.inputs)
        inputs.push_back(random_in(type, s.graph.value(input).shape, random, -2, 2));
      check_close(run(fused, s.graph, inputs)[0], doubles(run(plain, s.graph, inputs)[0]), 10);
    }
}

TEST_CASE("A mask that hides where it is true is none that the kernel knows") {
  Spelling s;
  const ValueId masked = s.where(s.in("mask", {4, 6}, DataType::boolean), s.number(-3, s.type),
                                 s.scaled(s.in("x", {4, 6}), 0.5));
  s.ends(s.op("Softmax", {masked}, {4, 6}));
  CHECK(count(after(s.graph, masked_softmax), "Where") == 1);
}

TEST_CASE("A scale of several numbers is one where all of them together are far from overflow") {
  const auto factors_left = [](double first, double second) {
    Spelling s;
    const ValueId scores = s.scaled(s.scaled(s.in("x", {4, 6}), first), second);
    s.ends(s.op("Softmax", {scores}, {4, 6}));
    return count(after(s.graph, masked_softmax), "Mul");
  };
  CHECK(factors_left(0.5, 3) == 0);
  CHECK(factors_left(1e-30, 1e30) == 2);
  CHECK(factors_left(1e-6, 1e-6) == 1);
}

TEST_CASE("A softmax of doubles keeps numbers that are no floats") {
  const auto fuses = [](double scale, double fill) {
    Spelling s;
    const ValueId scaled = s.scaled(s.in("x", {4, 6}, DataType::float64), scale);
    const ValueId masked =
        s.where(s.in("mask", {4, 6}, DataType::boolean), scaled, s.number(fill, DataType::float64));
    s.ends(s.op("Softmax", {masked}, {4, 6}));
    return count(after(s.graph, masked_softmax, 3), "MaskedSoftmax");
  };
  CHECK(fuses(0.125, -65504) == 1);
  CHECK(fuses(0.3, -65504) == 0);
  CHECK(fuses(0.125, std::numeric_limits<double>::lowest()) == 0);
}

}  // namespace
}  // namespace autopar::runtime
