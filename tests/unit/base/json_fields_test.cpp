#include "base/json_fields.h"

#include <catch2/catch.hpp>

using autopar::JsonReader;
using autopar::JsonWriter;
using autopar::Like;
using nlohmann::json;

namespace {

struct Point {
  int x = 0;
  std::optional<double> y{};
};

struct Path {
  std::string name;
  std::vector<Point> points{};
  bool is_closed = false;
};

void fields(auto& visit, Like<Point> auto& point) {
  visit("x", point.x);
  visit("y", point.y);
}

void fields(auto& visit, Like<Path> auto& path) {
  visit("name", path.name);
  visit("points", path.points);
  visit.inside("form", [&](auto& form) { form("is_closed", path.is_closed); });
}

void check_fields(const JsonReader& reader, const Point& point) {
  if (point.x == 13) autopar::fail("{} is unlucky", reader.where());
}

constexpr autopar::JsonWords words{
    .no_object = "{} is none", .missing = "{} lacks {}", .malformed = "{}: {} is wrong"};

Path read(const json& text) {
  const JsonReader reader(text, "path", words);
  Path path;
  fields(reader, path);
  return path;
}

}  // namespace

TEST_CASE("a struct is read as it was written") {
  const Path path{"round", {{1, 2.5}, {3, std::nullopt}}, true};
  const json text = JsonWriter::write(path);
  CHECK(text == json{{"name", "round"},
                     {"points", {{{"x", 1}, {"y", 2.5}}, {{"x", 3}, {"y", nullptr}}}},
                     {"form", {{"is_closed", true}}}});
  CHECK(JsonWriter::write(read(text)) == text);
}

TEST_CASE("what is missing or malformed is named with its place") {
  const json good = JsonWriter::write(Path{"line", {{1, 2.0}, {2, 3.0}}});
  const auto refused = [&](const char* at, const json& value) {
    json bad = good;
    bad[json::json_pointer(at)] = value;
    return bad;
  };
  CHECK_THROWS_WITH(read(refused("/name", 7)), "path: name is wrong");
  CHECK_THROWS_WITH(read(refused("/points", 7)), "path: points is wrong");
  CHECK_THROWS_WITH(read(refused("/points/1", 7)), "path: points[1] is none");
  CHECK_THROWS_WITH(read(refused("/points/1/x", 1.5)), "path: points[1]: x is wrong");
  CHECK_THROWS_WITH(read(refused("/points/1/x", -1)), "path: points[1]: x is wrong");
  CHECK_THROWS_WITH(read(refused("/points/1/x", 13)), "path: points[1] is unlucky");
  CHECK_THROWS_WITH(read(refused("/points/0", json::object())), "path: points[0] lacks x");
  CHECK_THROWS_WITH(read(refused("/form", json::object())), "path: form lacks is_closed");
  CHECK_THROWS_WITH(read(json::array()), "path is none");
}
