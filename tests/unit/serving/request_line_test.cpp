#include "serving/request_line.h"

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"
#include "runtime/tensor_files.h"
#include "unit/serving/names.h"

namespace autopar::serving {
namespace {

const std::vector<runtime::ModelPort> ports = {{"ids", DataType::int64, Shape{1, 3}},
                                               {"past", DataType::float16, Shape{1, 0, 4}}};

struct Parsed {
  TemporaryFolder folder;
  json id;
  RequestLine operator()(const std::string& line) {
    id = nullptr;
    return parse_request_line(line, ports, folder.path(), id);
  }
};

TEST_CASE("a request names files and has lists") {
  Parsed parse;
  runtime::save_npy(parse.folder.path() / "a.npy",
                    Tensor::of_int64({1, 3}, std::vector<std::int64_t>{4, 5, 6}));
  const json line = {{"id", "seven"},
                     {"inputs",
                      {{"ids", (parse.folder.path() / "a.npy").string()},
                       {"past", {{"shape", {1, 0, 4}}, {"data", json::array()}}}}},
                     {"outputs", "to"}};
  const RequestLine request = parse(line.dump());
  CHECK(request.id == "seven");
  CHECK(request.inputs.at("ids").to_int64s() == std::vector<std::int64_t>{4, 5, 6});
  CHECK(request.inputs.at("past").shape() == Shape{1, 0, 4});
  CHECK(request.inputs.at("past").type() == DataType::float16);
  CHECK(request.folder == parse.folder.path() / "to");
  const RequestLine plain = parse(R"({"inputs": {"ids": [[1, 2, 3]]}})");
  CHECK(plain.id.is_null());
  CHECK_FALSE(plain.folder);
  CHECK_FALSE(parse(R"({"inputs": {}, "outputs": "inline"})").folder);
}

TEST_CASE("what a request lacks or has too much of is told, with its id") {
  Parsed parse;
  std::filesystem::create_directory(parse.folder.path() / "taken");
  const std::vector<std::pair<const char*, const char*>> refused = {
      {R"([1])", "a request is an object, not a list"},
      {R"({"id": [1], "inputs": {}})", "\"id\" is a list"},
      {R"({"id": 1})", "\"inputs\" is missing"},
      {R"({"id": 1, "inputs": 5})", "\"inputs\" is 5"},
      {R"({"id": 1, "inputs": {}, "output": "x"})", "\"output\" is no field of a request"},
      {R"({"id": 1, "inputs": {"idz": [1]}})", "no input \"idz\"; it has ids, past"},
      {R"({"id": 1, "inputs": {"ids": null}})", "input 'ids': null"},
      {R"({"id": 1, "inputs": {"ids": "no.npy"}})", "input 'ids': cannot read no.npy"},
      {R"({"id": 1, "inputs": {"ids": "no.txt"}})", "give a .npy or .pb file"},
      {R"({"id": 1, "inputs": {"ids": [[1, 2], [3]]}})", "input 'ids': ragged"},
      {R"({"id": 1, "inputs": {"ids": {"data": [1]}}})", "\"shape\" and \"data\""},
      {R"({"id": 1, "inputs": {"ids": {"data": [1], "shape": [-1]}}})", "whole numbers"},
      {R"({"id": 1, "inputs": {"ids": {"data": [1], "shape": [1, 2]}}})", "1 values"},
      {R"({"id": 1, "inputs": {}, "outputs": ["ids"]})", "\"outputs\" is a list"},
      {R"({"id": 1, "inputs": {}, "outputs": "taken"})", "is there already"},
      {R"({"id": 1, "inputs": {}, "outputs": ""})", "no safe name"},
      {R"({"id": 1, "inputs": {}, "outputs": ".."})", "no safe name"},
      {R"({"id": 1, "inputs": {}, "outputs": "../x"})", "no safe name"},
      {R"({"id": 1, "inputs": {}, "outputs": "/tmp/x"})", "no safe name"}};
  for (const auto& [line, why] : refused) {
    INFO(line);
    CHECK_THROWS_WITH(parse(line), Contains(why));
    if (std::string(line).find("\"id\": 1") != std::string::npos) CHECK(parse.id == 1);
  }
  CHECK_THROWS_WITH(parse(R"({"inputs": {"idz": 1, "ids": null}, "outputs": "taken"})"),
                    Contains("idz") && Contains("null") && Contains("is there already"));
}

runtime::RunResult result_of(runtime::NamedTensors outputs) {
  runtime::RunResult result;
  result.outputs = std::move(outputs);
  result.run_seconds = {0.25};
  return result;
}

TEST_CASE("an answer's outputs can be given as inputs") {
  const auto result = result_of({{"a b", Tensor::of_int64({1, 2}, std::vector<std::int64_t>{1, 2})},
                                 {"none", Tensor::zeros(DataType::float32, {2, 0, 5})}});
  CHECK(answer_line({.id = 3, .inputs = {}}, result) ==
        R"({"id":3,"seconds":0.25,"outputs":{"a b":[[1,2]],"none":{"shape":[2,0,5],"data":[]}}})"
        "\n");
}

TEST_CASE("outputs in a folder are all there or none") {
  const TemporaryFolder made;
  const auto folder = made.path() / "of" / "seven";
  const Tensor one = Tensor::of_int64({1}, std::vector<std::int64_t>{1});
  const RequestLine request{.id = 7, .inputs = {}, .folder = folder};
  const std::string line = answer_line(request, result_of({{"a/b", one}, {"a_b", one}}));
  CHECK(json::parse(line)["outputs"] == folder.string());
  CHECK(std::filesystem::exists(folder / "a_b.npy"));
  CHECK(std::filesystem::exists(folder / "a_b_1.npy"));
  CHECK_THROWS_WITH(answer_line(request, result_of({{"a", one}})),
                    Contains("seven has appeared while"));
  const RequestLine another{.id = 8, .inputs = {}, .folder = made.path() / "of" / "eight"};
  CHECK_THROWS(answer_line(
      another, result_of({{"a", one}, {"b", Tensor::zeros(DataType::float8e5m2, {1})}})));
  CHECK(std::distance(std::filesystem::directory_iterator(made.path() / "of"),
                      std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("a refusal is a line of JSON whatever the error has in it") {
  const json read = json::parse(refusal_line("x", "a \"quoted\"\nline \xff"));
  CHECK(read["id"] == "x");
  CHECK(read["error"].get<std::string>().starts_with("a \"quoted\"\nline "));
}

}  // namespace
}  // namespace autopar::serving
