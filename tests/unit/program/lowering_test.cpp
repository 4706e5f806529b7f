#include "program/lowering.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "cost/cost_model.h"
#include "unit/program/plan_sketch.h"
#include "unit/program/slow_between_nodes.h"

using namespace autopar;
using namespace autopar::program;
using Lines = std::vector<std::string>;

namespace {

/// "x@RR = slice x@RS0" and "MatMul x@RR w@RS0" for each instruction.
Lines text_of(const Program& program) {
  const auto name = [&](VersionId id) {
    if (id < 0) return std::string("-");
    const Version& version = program.versions[static_cast<std::size_t>(id)];
    return program.graph.value(version.value).name + "@" + to_string(version.spec);
  };
  Lines lines;
  for (const Instruction& instruction : program.instructions) {
    std::string line;
    for (const VersionId output : instruction.outputs) line += name(output) + " ";
    line += "= ";
    line += instruction.node == graph::no_node ? std::string(name_of(instruction.step.kind))
                                               : program.graph.node(instruction.node).op_type;
    for (const VersionId input : instruction.inputs) line += " " + name(input);
    lines.push_back(line);
  }
  return lines;
}

Lines lowered(const PlanSketch& sketch) {
  return text_of(lower(sketch.graph, sketch.plan, sketch.cost()));
}

}  // namespace

TEST_CASE("an operator whose inputs lie as it reads them needs no step") {
  PlanSketch sketch("4");
  sketch.input("x", {8, 8}, "RR");
  sketch.weight("w", {8, 8}, "RS0");
  sketch.node("MatMul", {"x", "w"}, "y", {8, 8}, "RR,RS0->RS0");
  sketch.output("y");
  CHECK(lowered(sketch) == Lines{"y@RS0 = MatMul x@RR w@RS0"});
}

TEST_CASE("a version that two operators read is made once, where the first of them reads it") {
  PlanSketch sketch("4");
  sketch.input("x", {8, 8}, "RS0");
  sketch.node("Relu", {"x"}, "a", {8, 8}, "RS0->RS0");
  sketch.node("Tanh", {"x"}, "b", {8, 8}, "RR->RR");
  sketch.node("Sigmoid", {"x"}, "c", {8, 8}, "RR->RR");
  for (const char* name : {"a", "b", "c"}) sketch.output(name);
  CHECK(lowered(sketch) == Lines{"a@RS0 = Relu x@RS0", "x@RR = all-gather x@RS0",
                                 "b@RR = Tanh x@RR", "c@RR = Sigmoid x@RR"});
}

TEST_CASE("an operator that reads a tensor twice in different specs gets both") {
  PlanSketch sketch("2");
  sketch.input("x", {8, 8}, "RR");
  sketch.node("MatMul", {"x", "x"}, "y", {8, 8}, "RR,RS0->RS0");
  sketch.output("y");
  CHECK(lowered(sketch) == Lines{"x@RS0 = slice x@RR", "y@RS0 = MatMul x@RR x@RS0"});
}

TEST_CASE("every version comes from the base, as it was priced, though another is on the way") {
  PlanSketch sketch("2x2");
  sketch.input("x", {8, 8}, "S01R");
  sketch.node("Relu", {"x"}, "a", {8, 8}, "S0R->S0R");
  sketch.node("Tanh", {"x"}, "b", {8, 8}, "RR->RR");
  for (const char* name : {"a", "b"}) sketch.output(name);
  CHECK(lowered(sketch) == Lines{"x@S0R = all-gather x@S01R", "a@S0R = Relu x@S0R",
                                 "x@S0R = all-gather x@S01R", "x@RR = all-gather x@S0R",
                                 "b@RR = Tanh x@RR"});
}

TEST_CASE("partial values are reduced right behind their operator") {
  PlanSketch sketch("4");
  sketch.input("x", {8, 8}, "RS0");
  sketch.weight("w", {8, 8}, "S0R");
  sketch.node("MatMul", {"x", "w"}, "y", {8, 8}, "RS0,S0R->RR all-reduce");
  sketch.node("MatMul", {"x", "w"}, "z", {8, 8}, "RS0,S0R->S0R reduce-scatter");
  sketch.output("y");
  sketch.output("z");
  CHECK(lowered(sketch) == Lines{"y@RR+P0 = MatMul x@RS0 w@S0R", "y@RR = all-reduce y@RR+P0",
                                 "z@RR+P0 = MatMul x@RS0 w@S0R", "z@S0R = reduce-scatter z@RR+P0"});
}

TEST_CASE("a sum over nodes is reduced within them, then between them, and gathered within them") {
  PlanSketch sketch("2x4");
  sketch.input("x", {8, 8}, "RS01");
  sketch.weight("w", {8, 8}, "S01R");
  sketch.node("MatMul", {"x", "w"}, "y", {8, 8}, "RS01,S01R->RR all-reduce");
  sketch.output("y");
  const Program program =
      lower(sketch.graph, sketch.plan, sketch.cost(slow_between_nodes(/*devices_per_node=*/4)));
  CHECK(text_of(program) == Lines{"y@RR+P01 = MatMul x@RS01 w@S01R",
                                  "y@S1R+P0 = reduce-scatter y@RR+P01",
                                  "y@S1R = all-reduce y@S1R+P0", "y@RR = all-gather y@S1R"});
  CHECK(program.outputs == std::vector{program.instructions.back().outputs[0]});
  CHECK(collective_totals(program) ==
        std::vector<bundle::CollectiveTotal>{{"all-gather", {1}, 8, 8 * (8 * 8 * 4)},
                                             {"all-reduce", {0}, 8, 8 * (2 * 8 * 4)},
                                             {"reduce-scatter", {1}, 8, 8 * (8 * 8 * 4)}});
  // Where all links are alike it is one collective.
  CHECK(lowered(sketch) == Lines{"y@RR+P01 = MatMul x@RS01 w@S01R", "y@RR = all-reduce y@RR+P01"});
}

TEST_CASE("an operator that splits what it normalises over is decomposed, with its reductions") {
  PlanSketch sketch("2");
  sketch.input("x", {4, 8}, "RS0");
  sketch.node("Softmax", {"x"}, "y", {4, 8}, "RS0->RS0");
  sketch.node("Softmax", {"y"}, "z", {4, 8}, "S0R->S0R");
  sketch.output("z");
  const std::string max = "y/ReduceMax0/y";
  const std::string sum = "y/ReduceSum3/y";
  CHECK(lowered(sketch) ==
        Lines{max + "@RR+P0max = ReduceMax x@RS0 y/ints@R",
              max + "@RR = all-reduce " + max + "@RR+P0max",
              "y/Sub1/y@RS0 = Sub x@RS0 " + max + "@RR", "y/Exp2/y@RS0 = Exp y/Sub1/y@RS0",
              sum + "@RR+P0 = ReduceSum y/Exp2/y@RS0 y/ints_1@R",
              sum + "@RR = all-reduce " + sum + "@RR+P0", "y@RS0 = Div y/Exp2/y@RS0 " + sum + "@RR",
              "y@S0R = all-to-all y@RS0", "z@S0R = Softmax y@S0R"});
  const Program program = lower(sketch.graph, sketch.plan, sketch.cost());
  CHECK(collective_totals(program).front() ==
        bundle::CollectiveTotal{"all-reduce", {0}, 4, 4 * (4 * 1 * 4)});
}

TEST_CASE("what is added keeps clear of the model's names") {
  PlanSketch sketch("2");
  sketch.input("y/Exp2/y", {4, 8}, "RS0");
  sketch.node("Softmax", {"y/Exp2/y"}, "y", {4, 8}, "RS0->RS0");
  sketch.output("y");
  const Lines lines = lowered(sketch);
  CHECK(lines[3] == "y/Exp2/y#1@RS0 = Exp y/Sub1/y@RS0");
}

TEST_CASE("bytes are payloads summed over calls and ranks") {
  PlanSketch sketch("4");
  sketch.input("x", {6, 8}, "S0R");  // shares of 2, 2, 2 and 0 rows
  sketch.node("Relu", {"x"}, "a", {6, 8}, "RR->RR");
  sketch.node("ReduceSum", {"a", "axes"}, "s", {1, 8}, "S0R,R->RR all-reduce", {0});
  sketch.node("Tanh", {"x"}, "b", {6, 8}, "RS0->RS0");
  sketch.output("s");
  sketch.output("b");
  const Program program = lower(sketch.graph, sketch.plan, sketch.cost());
  CHECK(collective_totals(program) ==
        std::vector<bundle::CollectiveTotal>{{"all-gather", {0}, 4, 4 * (6 * 8 * 4)},
                                             {"all-reduce", {0}, 4, 4 * (1 * 8 * 4)},
                                             {"all-to-all", {0}, 4, 3 * (2 * 8 * 4)}});
}

TEST_CASE("an axis of size 1 moves nothing") {
  PlanSketch sketch("1x2");
  sketch.input("x", {8, 8}, "S01R");
  sketch.weight("w", {8, 8}, "S0R");
  sketch.node("Relu", {"x"}, "a", {8, 8}, "S1R->S1R");
  sketch.node("MatMul", {"a", "w"}, "y", {8, 8}, "RS0,S0R->RR all-reduce");
  sketch.output("y");
  CHECK(lowered(sketch) ==
        Lines{"a@S1R = Relu x@S1R", "a@RR = all-gather a@S1R", "y@RR = MatMul a@RR w@RR"});
}

TEST_CASE("shapes are whole on every rank whatever is planned, other integers are not") {
  PlanSketch sketch("2");
  sketch.input("x", {4, 4}, "RR");
  sketch.node("Reshape", {"x", "shape"}, "y", {2, 8}, "RR,R->RR", {2, 8});
  sketch.ints("table", {4, 2}, "S0R");
  sketch.node("Gather", {"table", "rows"}, "z", {2, 2}, "RR,R->RR", {0, 3});
  sketch.output("y");
  sketch.output("z");
  sketch.store("shape", "S0");
  CHECK(lowered(sketch) == Lines{"y@RR = Reshape x@RR shape@R", "table@RR = all-gather table@S0R",
                                 "z@RR = Gather table@RR rows@R"});
}

TEST_CASE("inputs and outputs of the program are the model's, as stored and as left") {
  PlanSketch sketch("2");
  sketch.input("x", {4, 4}, "S0R");
  sketch.input("unread", {3}, "R");
  sketch.node("Relu", {"x"}, "y", {4, 4}, "RS0->RS0");
  sketch.node("Tanh", {"y"}, "z", {4, 4}, "RR->RR");
  sketch.output("z");
  sketch.output("y");
  const Program program = lower(sketch.graph, sketch.plan, sketch.cost());
  const auto text = [&](VersionId id) {
    const Version& version = program.versions[static_cast<std::size_t>(id)];
    CHECK(version.is_base);
    return sketch.graph.value(version.value).name + "@" + to_string(version.spec);
  };
  REQUIRE(program.inputs.size() == 2);
  REQUIRE(program.outputs.size() == 2);
  CHECK(text(program.inputs[0]) == "x@S0R");
  CHECK(text(program.inputs[1]) == "unread@R");
  CHECK(text(program.outputs[0]) == "z@RR");
  CHECK(text(program.outputs[1]) == "y@RS0");
}

TEST_CASE("a plan that leaves a model output partial, or an operator out, is refused") {
  PlanSketch sketch("2");
  sketch.input("x", {4, 4}, "RS0");
  sketch.weight("w", {4, 4}, "S0R");
  sketch.node("MatMul", {"x", "w"}, "y", {4, 4}, "RS0,S0R->RR all-reduce");
  sketch.output("y");
  auto& strategy = sketch.plan.operators[0];
  strategy.outputs = strategy.computed;
  strategy.reductions = {sharding::ReduceFunction::none};
  CHECK_THROWS_AS(lowered(sketch), InternalError);
  sketch.plan.operators.clear();
  CHECK_THROWS_AS(lowered(sketch), InternalError);
}
