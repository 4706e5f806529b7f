#include "serving/inference_protocol.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "unit/serving/names.h"

namespace autopar::serving {
namespace {

const ServedModel model{
    .name = "a \"model\"",
    .inputs = {{"x", DataType::float16, Shape{1, 2}}, {"mask", DataType::boolean, Shape{3}}},
    .outputs = {{"y", DataType::float32, Shape{2}}, {"n", DataType::int64, std::nullopt}}};

InferenceRequest parsed(const json& request, const std::string& binary = "") {
  const std::string text = request.dump();
  return parse_inference_request(text + binary,
                                 binary.empty() ? std::nullopt : std::optional(text.size()), model);
}

TEST_CASE("binary tensors and those in JSON stand side by side") {
  const json request = {
      {"id", "7"},
      {"inputs",
       {{{"name", "mask"},
         {"datatype", "BOOL"},
         {"shape", {3}},
         {"parameters", {{"binary_data_size", 3}}}},
        {{"name", "x"}, {"datatype", "FP16"}, {"shape", {1, 2}}, {"data", {0.5, "-Infinity"}}}}},
      {"outputs", {{{"name", "n"}, {"parameters", {{"binary_data", true}}}}, {{"name", "y"}}}}};
  const InferenceRequest taken = parsed(request, std::string("\x00\x05\x01", 3));
  CHECK(taken.id == "7");
  CHECK(taken.inputs.at("mask").to_int64s() == std::vector<std::int64_t>{0, 1, 1});
  const auto halves = taken.inputs.at("x").values<std::uint16_t>();
  CHECK(std::vector(halves.begin(), halves.end()) == std::vector<std::uint16_t>{0x3800, 0xFC00});
  REQUIRE(taken.outputs.size() == 2);
  CHECK(taken.outputs[0].name == "n");
  CHECK(taken.outputs[0].is_binary);
  CHECK_FALSE(taken.outputs[1].is_binary);

  const std::vector<std::int64_t> numbers = {-2, 258};
  const InferenceAnswer answer = inference_answer(
      model, taken,
      {{"n", Tensor::of_int64({2, 1}, numbers)},
       {"y", Tensor::of_float({2}, std::vector{0.5F, std::bit_cast<float>(0x7FC00000U)})}});
  REQUIRE(answer.json_bytes);
  const json told = json::parse(answer.body.substr(0, *answer.json_bytes));
  CHECK(told ==
        json{{"model_name", "a \"model\""},
             {"model_version", "1"},
             {"id", "7"},
             {"outputs",
              {{{"name", "n"},
                {"datatype", "INT64"},
                {"shape", {2, 1}},
                {"parameters", {{"binary_data_size", 16}}}},
               {{"name", "y"}, {"datatype", "FP32"}, {"shape", {2}}, {"data", {0.5, "NaN"}}}}}});
  REQUIRE(answer.body.size() == *answer.json_bytes + 16);
  CHECK(std::memcmp(answer.body.data() + *answer.json_bytes, numbers.data(), 16) == 0);
}

TEST_CASE("who asks for no outputs gets all, in binary where that is said") {
  for (const bool is_binary : {false, true}) {
    const InferenceRequest taken =
        parsed({{"inputs", json::array()}, {"parameters", {{"binary_data_output", is_binary}}}});
    REQUIRE(taken.outputs.size() == 2);
    for (const auto& output : taken.outputs) CHECK(output.is_binary == is_binary);
    const InferenceAnswer answer = inference_answer(
        model, taken,
        {{"n", Tensor::zeros(DataType::int64, {0})}, {"y", Tensor::zeros(DataType::float32, {})}});
    CHECK(answer.json_bytes.has_value() == is_binary);
  }
}

json input(const json& changes) {
  json all = {{"name", "mask"}, {"datatype", "BOOL"}, {"shape", {3}}};
  all.update(changes);
  return {{"inputs", {all}}};
}

TEST_CASE("what the protocol does not allow is refused with a line") {
  const json sized = {{"parameters", {{"binary_data_size", 3}}}};
  CHECK_THROWS_WITH(parsed(input(sized)), Contains("3 bytes are wanted behind the JSON"));
  CHECK_THROWS_WITH(parsed(input(sized), "12"), Contains("and 2 are left"));
  CHECK_THROWS_WITH(parsed(input(sized), "1234"), Contains("1 bytes are left behind"));
  CHECK_THROWS_WITH(parsed(input({{"parameters", {{"binary_data_size", 4}}}}), "1234"),
                    Contains("3 of bool take 3 bytes"));
  CHECK_THROWS_WITH(parsed(input(json::object())), Contains("give either"));
  CHECK_THROWS_WITH(parsed(input({{"shape", {std::int64_t{1} << 62, 8}}, {"data", {true}}})),
                    Contains("\"shape\""));
  CHECK_THROWS_WITH(parsed(input({{"parameters", {{"shared_memory_region", "r"}}}})),
                    Contains("shared_memory_region"));
  CHECK_THROWS_WITH(parsed(input({{"parameters", 5}})), Contains("\"parameters\" is 5"));
  CHECK_THROWS_WITH(parsed({{"inputs", {5}}}), Contains("an input is 5"));
  CHECK_THROWS_WITH(parsed({{"inputs", 5}}), Contains("\"inputs\" is 5"));
  CHECK_THROWS_WITH(parsed({{"inputs", json::array()}, {"id", 5}}), Contains("\"id\" is 5"));
  CHECK_THROWS_WITH(parsed({{"inputs", json::array()}, {"parameters", {{"sequence_id", 5}}}}),
                    Contains("sequence_id"));
  CHECK_THROWS_WITH(
      parsed({{"inputs", json::array()}, {"outputs", {{{"name", "y"}}, {{"name", "y"}}}}}),
      Contains("asked for twice"));
  CHECK_THROWS_WITH(parse_inference_request("{}", 3, model), Contains("is 3, but the body has 2"));
}

TEST_CASE("metadata names types as the protocol does") {
  const json told = json::parse(model_metadata(model));
  CHECK(told["name"] == "a \"model\"");
  CHECK(told["inputs"][0] == json{{"name", "x"}, {"datatype", "FP16"}, {"shape", {1, 2}}});
  CHECK(told["outputs"][1] == json{{"name", "n"}, {"datatype", "INT64"}, {"shape", {-1}}});
  CHECK_NOTHROW(check_types(model));
  ServedModel odd = model;
  odd.outputs.push_back({"q", DataType::int4, Shape{2}});
  CHECK_THROWS_WITH(check_types(odd), Contains("'q' is of int4"));
}

TEST_CASE("an error message is one line of JSON") {
  CHECK(json::parse(error_message("two\nlines \xff"))["error"].get<std::string>().starts_with(
      "two lines "));
}

}  // namespace
}  // namespace autopar::serving
