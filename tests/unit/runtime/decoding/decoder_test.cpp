#include "runtime/decoding/decoder.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace autopar::runtime {
namespace {

using Catch::Matchers::Contains;
using graph::DataType;
using graph::Shape;
using Ints = std::vector<std::int64_t>;

bundle::PortInfo port(const std::string& name, const Shape& shape,
                      DataType type = DataType::int64) {
  return {.name = name, .type = type, .shape = shape};
}

/// A bundle's ports alone, with a cache whose shape stays, as the model itself puts rows into it.
bundle::MetaInfo bundle_of(std::vector<bundle::PortInfo> inputs, const Shape& logits,
                           bool has_cache) {
  bundle::MetaInfo info;
  bundle::ProfileInfo& profile = info.profiles.emplace_back();
  profile.inputs = std::move(inputs);
  profile.outputs = {port("logits", logits, DataType::float32)};
  if (!has_cache) return info;
  profile.inputs.push_back(port("past", {2, 1, 6, 4}, DataType::float32));
  profile.outputs.push_back(port("present", {2, 1, 6, 4}, DataType::float32));
  info.states = {{"present", "past"}};
  return info;
}

DecoderPorts ports_of(const bundle::MetaInfo& info, const std::vector<std::string>& given = {}) {
  return decoder_ports(info, "bundle", given);
}

Ints ints(const NamedTensors& inputs, const std::string& name) {
  const graph::Tensor& tensor = inputs.at(name);
  if (tensor.type() == DataType::int64) return tensor.to_int64s();
  const auto values = tensor.values<std::int32_t>();
  return {values.begin(), values.end()};
}

/// What is not said: one column, and no run before.
struct Before {
  std::int64_t columns = 1;
  Ints read = {0, 0};
  std::int64_t past = 0;
  std::int64_t made = 0;
  std::int64_t made_by_first = 0;
  Ints first = {0, 0};
};

NewTokens tokens_of(std::vector<Ints> rows, const Before& before) {
  return {.rows = std::move(rows),
          .columns = before.columns,
          .read = before.read,
          .past = before.past,
          .made = before.made,
          .made_by_first = before.made_by_first,
          .first = before.first};
}

TEST_CASE("without a cache, texts are padded behind") {
  const DecoderPorts ports = ports_of(bundle_of(
      {port("input_ids", {2, 4}), port("attention_mask", {2, 4}), port("position_ids", {2, 4})},
      {2, 4, 9}, false));
  CHECK(ports.cache == DecoderPorts::Cache::none);
  CHECK(ports.rows == 4);
  CHECK_FALSE(ports.may_grow());
  const NamedTensors inputs =
      decoder_inputs(ports, tokens_of({{7, 8}, {1, 2, 3, 4}}, {.columns = 4}));
  CHECK(ints(inputs, "input_ids") == Ints{7, 8, 0, 0, 1, 2, 3, 4});
  CHECK(ints(inputs, "attention_mask") == Ints{1, 1, 0, 0, 1, 1, 1, 1});
  CHECK(ints(inputs, "position_ids") == Ints{0, 1, 1, 1, 0, 1, 2, 3});
}

TEST_CASE("a model that puts rows to their places is told how many there are") {
  const DecoderPorts ports = ports_of(bundle_of(
      {port("input_ids", {2, 1}, DataType::int32), port("attention_mask", {2, 6}, DataType::int32),
       port("seqlens_k", {2}, DataType::int32), port("total_sequence_length", {}, DataType::int32),
       port("cache_position", {1})},
      {2, 1, 9}, true));
  CHECK(ports.cache == DecoderPorts::Cache::by_place);
  CHECK(ports.rows == 6);
  CHECK_FALSE(ports.may_grow());
  const NamedTensors inputs =
      decoder_inputs(ports, tokens_of({{7}, {8}}, {.read = {3, 3}, .made = 3}));
  CHECK(ints(inputs, "input_ids") == Ints{7, 8});
  CHECK(ints(inputs, "attention_mask") == Ints{1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0});
  CHECK(ints(inputs, "seqlens_k") == Ints{3, 3});
  CHECK(ints(inputs, "total_sequence_length") == Ints{4});
  CHECK(ints(inputs, "cache_position") == Ints{3});
  CHECK_FALSE(inputs.contains("past"));
}

TEST_CASE("behind a buffer of which some rows are filled stand the new ones") {
  DecoderPorts ports = ports_of(bundle_of(
      {port("input_ids", {2, 1}), port("attention_mask", {2, 6}), port("position_ids", {2, 1})},
      {2, 1, 9}, true));
  ports.cache = DecoderPorts::Cache::masked;
  const NamedTensors inputs =
      decoder_inputs(ports, tokens_of({{7}, {8}}, {.read = {2, 2}, .past = 5, .made = 2}));
  CHECK(ints(inputs, "attention_mask") == Ints{1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1});
  CHECK(ints(inputs, "position_ids") == Ints{2, 2});
}

TEST_CASE("prompts of different lengths are read in one run, and masks hide what pads them") {
  DecoderPorts ports = ports_of(bundle_of(
      {port("input_ids", {2, 1}), port("attention_mask", {2, 6}), port("position_ids", {2, 1})},
      {2, 1, 9}, true));
  for (const auto cache : {DecoderPorts::Cache::masked, DecoderPorts::Cache::by_text}) {
    ports.cache = cache;
    const NamedTensors prompt = decoder_inputs(ports, tokens_of({{7}, {4, 5, 6}}, {.columns = 3}));
    CHECK(prompt.at("input_ids").shape() == Shape{2, 3});
    CHECK(ints(prompt, "input_ids") == Ints{7, 0, 0, 4, 5, 6});
    CHECK(ints(prompt, "position_ids") == Ints{0, 0, 0, 0, 1, 2});
    CHECK(ints(prompt, "attention_mask") == Ints{1, 0, 0, 1, 1, 1});
  }
  // A step behind both, and a step before it, in a buffer of 5 rows: where the session puts rows,
  // both texts have two behind those of the prompt; where the model does, behind their own.
  NewTokens step = tokens_of(
      {{8}, {9}}, {.read = {2, 4}, .past = 5, .made = 4, .made_by_first = 3, .first = {1, 3}});
  ports.cache = DecoderPorts::Cache::masked;
  CHECK(ints(decoder_inputs(ports, step), "attention_mask") ==
        Ints{1, 0, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1});
  CHECK(ints(decoder_inputs(ports, step), "position_ids") == Ints{2, 4});
  ports.cache = DecoderPorts::Cache::by_text;
  CHECK(ints(decoder_inputs(ports, step), "attention_mask") ==
        Ints{1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0});
  // Rows that the model puts to places of all texts.
  ports.cache = DecoderPorts::Cache::by_place;
  step.past = 0;
  CHECK(ints(decoder_inputs(ports, step), "attention_mask") ==
        Ints{1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0});
}

TEST_CASE("scores are those of a row's token, as floats") {
  const DecoderPorts ports = ports_of(bundle_of({port("input_ids", {2, 3})}, {2, 3, 2}, false));
  const graph::Tensor logits =
      graph::Tensor::of_float({2, 3, 2}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(scores_of(ports, logits, 1, 1) == std::vector<float>{8, 9});
  // A model may give scores of the last token alone.
  const DecoderPorts last = ports_of(bundle_of({port("input_ids", {2, 1})}, {2, 9}, true));
  CHECK(last.vocabulary() == 9);
}

TEST_CASE("a bundle that is no decoder of text is refused, with the reason") {
  const auto refused = [](const bundle::MetaInfo& info, const std::string& why) {
    CHECK_THROWS_WITH(ports_of(info), Contains("bundle cannot generate text") && Contains(why));
  };
  refused(bundle_of({port("x", {1, 4})}, {1, 4, 9}, false), "no input 'input_ids'");
  refused(bundle_of({port("input_ids", {1, 4}, DataType::float32)}, {1, 4, 9}, false),
          "no input 'input_ids'");
  refused(bundle_of({port("input_ids", {1, 4})}, {1, 9}, false), "'logits' is 1x9");
  refused(bundle_of({port("input_ids", {1, 4}), port("image", {1, 3})}, {1, 4, 9}, false),
          "its input 'image' is to get");
  refused(bundle_of({port("input_ids", {2, 4})}, {2, 4, 9}, true), "reads 4 tokens");
  refused(bundle_of({port("input_ids", {1, 4}), port("attention_mask", {1, 1, 4, 4})}, {1, 4, 9},
                    false),
          "'attention_mask' of 1x1x4x4");
  refused(bundle_of({port("input_ids", {1, 4}), port("attention_mask", {1, 5})}, {1, 4, 9}, false),
          "attention_mask is 1x5, and 1x4");
  const bundle::MetaInfo with_image =
      bundle_of({port("input_ids", {1, 4}), port("image", {1, 3})}, {1, 4, 9}, false);
  CHECK(ports_of(with_image, {"image"}).other == std::vector<std::string>{"image"});
}

}  // namespace
}  // namespace autopar::runtime
