// A model whose next token is the sum of its text's, so that texts are known, and which runs read
// them, since whoever makes graphs for other shapes than the bundle's is asked for them.

#include "runtime/decoding/generation.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "base/temporary_folder.h"
#include "graph/onnx/onnx_export.h"
#include "runtime/shape_source.h"
#include "unit/runtime/graph_sketch.h"

namespace autopar::runtime {
namespace {

using namespace testing;

constexpr std::int64_t batch = 2;
constexpr std::int64_t vocabulary = 64;
constexpr std::int64_t rows = 8;  ///< that the bundle's cache has

/// Reads so many tokens behind so many rows of cache.
graph::Graph adder(std::int64_t tokens, std::int64_t past_rows) {
  Builder sketch;
  const auto integers = [&](const std::string& name, const Shape& shape) {
    const ValueId id = sketch.graph.add_value({name, DataType::int64, shape, std::nullopt});
    sketch.graph.inputs.push_back(id);
    return id;
  };
  const auto reshaped = [&](ValueId x, const Shape& shape) {
    const std::string name = "shape" + std::to_string(sketch.graph.nodes.size());
    const auto extents =
        sketch.graph.add_constant(name, Tensor::of_int64({std::ssize(shape)}, shape));
    return sketch.node("Reshape", {x, extents}, shape);
  };
  const std::int64_t all = past_rows + tokens;
  const auto as_float = [&](ValueId x, const Shape& shape) {
    return sketch.node("Cast", {x}, shape, {{"to", std::int64_t{1}}});
  };
  const ValueId ids = integers("input_ids", {batch, tokens});
  const ValueId mask = integers("attention_mask", {batch, all});
  integers("position_ids", {batch, tokens});
  const ValueId past = sketch.input("past", {batch, past_rows, 1});
  const ValueId read = reshaped(as_float(ids, {batch, tokens}), {batch, tokens, 1});
  const ValueId present =
      sketch.node("Concat", {past, read}, {batch, all, 1}, {{"axis", std::int64_t{1}}});
  const ValueId counted = reshaped(as_float(mask, {batch, all}), {batch, 1, all});
  const ValueId sum = sketch.node("MatMul", {counted, present}, {batch, 1, 1});
  std::vector<double> every;
  for (int token = 0; token < vocabulary; ++token) every.push_back(token);
  const ValueId tokens_there_are =
      sketch.graph.add_constant("every", tensor_of(DataType::float32, {1, 1, vocabulary}, every));
  const Shape of_scores{batch, 1, vocabulary};
  const ValueId away = sketch.node("Sub", {sum, tokens_there_are}, of_scores);
  const ValueId scores = sketch.node("Neg", {sketch.node("Abs", {away}, of_scores)}, of_scores);
  const Shape whole{batch, tokens, vocabulary};
  const ValueId extents = sketch.graph.add_constant("whole", Tensor::of_int64({3}, whole));
  const ValueId logits = sketch.node("Expand", {scores, extents}, whole);
  sketch.graph.value(logits).name = "logits";
  sketch.graph.value(present).name = "present";
  sketch.graph.outputs = {logits, present};
  sketch.graph.states = {{1, 3}};
  sketch.graph.opsets[""] = 18;
  return sketch.graph;
}

std::vector<bundle::PortInfo> ports_of(const graph::Graph& graph,
                                       const std::vector<ValueId>& values) {
  std::vector<bundle::PortInfo> ports;
  for (const ValueId id : values) {
    const graph::Value& value = graph.value(id);
    std::vector<graph::Range> whole;
    for (const std::int64_t extent : value.shape) whole.push_back({0, extent});
    ports.push_back({.name = value.name, .type = value.type, .shape = value.shape});
    ports.back().specs = {std::string(value.shape.size(), 'R')};
    ports.back().ranges = {whole};
  }
  return ports;
}

bundle::ProfileInfo profile_of(const graph::Graph& graph) {
  bundle::ProfileInfo profile;
  profile.peak_bytes = {1};
  profile.inputs = ports_of(graph, graph.inputs);
  profile.outputs = ports_of(graph, graph.outputs);
  return profile;
}

/// Steps of one token on one rank.
bundle::MetaInfo write_bundle(const std::filesystem::path& dir) {
  const graph::Graph step = adder(1, rows);
  const auto written = graph::save_onnx(step, dir / "rank0.onnx", dir / "rank0.data");
  bundle::MetaInfo info;
  info.model = "adder.onnx";
  info.stages = {{.stage = 0, .mesh = {{"axis0", 1}}, .ranks = {0}}};
  info.profiles = {profile_of(step)};
  info.memory_limit_bytes = 1 << 20;
  info.states = {{"present", "past"}};
  info.ranks = {{0, 0, {0}, {{"rank0.onnx", written.model.bytes, written.model.xxh3}}, 0, 1}};
  std::ofstream(dir / "meta-info.json") << bundle::sealed_text(bundle::to_json(info));
  return info;
}

struct Texts {
  std::vector<TokenIds> texts;
  std::vector<InputShapes> made;  ///< shapes that runs had beside the bundle's own
};

Texts texts_of(DecoderPorts::Cache cache, bool reads_any_number) {
  const TemporaryFolder folder;
  const bundle::MetaInfo info = write_bundle(folder.path());
  DecoderPorts ports = decoder_ports(info, folder.path(), {});
  ports.cache = cache;
  ports.reads_any_number = reads_any_number;
  ports.has_any_rows = true;
  ports.scores_all = true;
  Texts made;
  SessionOptions options{.device = {.threads = 1}, .launch = {.launcher = "none"}};
  options.shapes = [&](const InputShapes& shapes) {
    made.made.push_back(shapes);
    const std::int64_t tokens = shapes.at("input_ids")[1];
    const std::int64_t past = shapes.at("past")[1];
    return ShapedProgram{profile_of(adder(tokens, past)), [=](int) { return adder(tokens, past); },
                         "digest"};
  };
  Session session(folder.path(), options);
  const auto results = generate(session, ports, {{1, 2, 3}, {5}}, {.max_tokens = 4},
                                [](std::size_t, std::int64_t, bool) {});
  for (const GeneratedText& text : results) made.texts.push_back(text.tokens);
  return made;
}

const std::vector<TokenIds> sums = {{6, 12, 24, 48}, {5, 10, 20, 40}};

TEST_CASE("prompts of a batch are read in one run, and steps behind the bundle's buffer") {
  const Texts made = texts_of(DecoderPorts::Cache::masked, true);
  CHECK(made.texts == sums);
  REQUIRE(made.made.size() == 1);
  CHECK(made.made[0].at("input_ids") == Shape{batch, 3});
  CHECK(made.made[0].at("past") == Shape{batch, 0, 1});
  CHECK(made.made[0].at("attention_mask") == Shape{batch, 3});
}

TEST_CASE("where a run reads one token, all runs are steps") {
  const Texts made = texts_of(DecoderPorts::Cache::masked, false);
  CHECK(made.texts == sums);
  CHECK(made.made.empty());
}

TEST_CASE("a cache that has no row but those that runs have made grows from run to run") {
  const Texts made = texts_of(DecoderPorts::Cache::exact, true);
  CHECK(made.texts == sums);
  REQUIRE(made.made.size() == 6);  // the longer prompt goes on token by token
  for (std::size_t run = 0; run < made.made.size(); ++run) {
    CHECK(made.made[run].at("input_ids") == Shape{batch, 1});
    CHECK(made.made[run].at("past") == Shape{batch, static_cast<std::int64_t>(run), 1});
  }
}

}  // namespace
}  // namespace autopar::runtime
