// meta-info.json as an enemy would write it who makes a new digest: every field is dropped,
// repeated, exchanged and given other values. Each edit gives the right outputs, where it is of
// something that a run does not need, or is refused in one line.

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "bundle/meta_info.h"
#include "unit/planner/sample_bundles.h"

namespace autopar::testing {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;

struct Edit {
  Pointer at;
  std::string kind;
  std::function<void(json& whole)> apply;
};

void for_each_value(const json& value, const Pointer& at,
                    const std::function<void(const Pointer&, const json&)>& visit) {
  visit(at, value);
  if (value.is_object())
    for (const auto& [name, inner] : value.items()) for_each_value(inner, at / name, visit);
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) for_each_value(value[i], at / i, visit);
}

std::vector<json> other_values(const json& value) {
  std::vector<json> others = {nullptr, true,          "text",        "", 1.5, -1, 0,
                              1,       json::array(), json::object()};
  if (value.is_number()) {
    for (const std::int64_t huge :
         {std::int64_t{1} << 31, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()})
      others.emplace_back(huge);
    others.emplace_back(std::numeric_limits<std::uint64_t>::max());
    others.emplace_back(1e300);
    others.emplace_back(-1e300);
  }
  if (value.is_number_integer()) {
    others.emplace_back(value.get<std::int64_t>() + 1);
    others.emplace_back(value.get<std::int64_t>() - 1);
    others.emplace_back(value.get<std::int64_t>() * 2);
  }
  if (value.is_string()) {
    for (const char* text : {"../rank0.onnx", "/etc/passwd", "rank1.onnx", "float16", "int64", "RR",
                             "S0R", "RS0", "S9R", "+P0", "RR+P0", "x", "y", "h", "past"})
      others.emplace_back(text);
    others.emplace_back(value.get<std::string>() + "0");
    others.emplace_back(std::string(100000, 'S'));
  }
  if (value.is_array()) {
    others.emplace_back(json::array({0}));
    others.emplace_back(json::array({nullptr, nullptr}));
    others.emplace_back(json::array({json::array({0, 1})}));
  }
  return others;
}

/// Where in an array, or between which fields.
void add_structural(const Pointer& at, const json& value, const json& parent,
                    std::vector<Edit>& edits) {
  const Pointer above = at.parent_pointer();
  if (parent.is_object()) {
    const std::string& name = at.back();
    edits.push_back({at, "dropped", [=](json& whole) { whole.at(above).erase(name); }});
    for (const auto& [other, sibling] : parent.items())
      if (other > name && sibling.type() == value.type())
        edits.push_back({at, "exchanged with " + other, [=, other = other](json& whole) {
                           std::swap(whole.at(at), whole.at(above / other));
                         }});
  }
  if (parent.is_array()) {
    const std::size_t index = std::stoul(at.back());
    edits.push_back({at, "dropped", [=](json& whole) { whole.at(above).erase(index); }});
    edits.push_back({at, "repeated", [=](json& whole) {
                       json& list = whole.at(above);
                       const json copy = list.at(index);
                       list.insert(list.begin() + static_cast<std::ptrdiff_t>(index), copy);
                     }});
    for (std::size_t other = index + 1; other < parent.size(); ++other)
      edits.push_back({at, "exchanged with " + std::to_string(other),
                       [=](json& whole) { std::swap(whole.at(at), whole.at(above / other)); }});
  }
  if (value.is_array() && value.size() > 2)
    edits.push_back({at, "reversed", [=](json& whole) {
                       json& list = whole.at(at);
                       std::reverse(list.begin(), list.end());
                     }});
}

std::vector<Edit> edits_of(const json& whole) {
  std::vector<Edit> edits;
  for_each_value(whole, Pointer(), [&](const Pointer& at, const json& value) {
    if (at.empty()) return;
    for (const json& other : other_values(value))
      if (other != value)
        edits.push_back({at, "made " + other.dump().substr(0, 40),
                         [=](json& edited) { edited.at(at) = other; }});
    add_structural(at, value, whole.at(at.parent_pointer()), edits);
  });
  return edits;
}

/// Two fields that fit each other but not the rest.
std::vector<Edit> pairs_of(const std::vector<Edit>& edits, std::size_t count) {
  std::mt19937 random(22);
  std::uniform_int_distribution<std::size_t> any(0, edits.size() - 1);
  std::vector<Edit> pairs;
  while (pairs.size() < count) {
    const Edit& a = edits[any(random)];
    const Edit& b = edits[any(random)];
    pairs.push_back({a.at, a.kind + ", and " + b.at.to_string() + " " + b.kind,
                     [a, b](json& whole) { a.apply(whole), b.apply(whole); }});
  }
  return pairs;
}

/// Whether all outputs that are told in one text are in the other, too.
bool are_some_of(const std::string& some, const std::string& all) {
  std::istringstream outputs(some);
  for (std::string output; std::getline(outputs, output, ';');)
    if (all.find(output + ";") == std::string::npos) return false;
  return true;
}

void check_edits(const Sample& sample, std::size_t most) {
  const TemporaryFolder folder;
  write_sample(sample, folder.path());
  const auto bundle = folder / "bundle";
  const json whole = json::parse(bytes_of_file(bundle / "meta-info.json"));
  const std::string right = forked_trials(1, [&](auto) {
                              return outcome_of([&] { return outputs_of(sample, bundle); });
                            }).front();
  INFO(sample.name << ": " << right);
  REQUIRE(right.find(';') != std::string::npos);
  REQUIRE(!is_refused(right));
  std::vector<Edit> edits = edits_of(whole);
  REQUIRE(edits.size() > 1000);
  for (Edit& pair : pairs_of(edits, edits.size() / 4)) edits.push_back(std::move(pair));
  std::mt19937 random(2200);
  std::ranges::shuffle(edits, random);
  edits.resize(std::min(edits.size(), most));
  const auto trial = [&](std::size_t i) {
    json edited = whole;
    try {
      edits[i].apply(edited);
    } catch (const json::exception&) {  // the first of a pair took the place of the second
      return std::string("right");
    }
    write_file(bundle / "meta-info.json",
               edited.is_object() ? bundle::sealed_text(edited) : edited.dump());
    const std::string outcome = outcome_of([&] { return outputs_of(sample, bundle); });
    // Nothing but meta-info tells which tensors that the tail reads are outputs, too.
    const bool drops_output = edits[i].at.to_string().starts_with("/tail/model_outputs");
    const bool is_right = outcome == right || (drops_output && are_some_of(outcome, right));
    return is_right ? "right" : outcome;
  };
  const std::vector<std::string> outcomes = forked_trials(edits.size(), trial);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    refused += is_refused(outcomes[i]) ? 1 : 0;
    if (outcomes[i] == "right" || is_refused(outcomes[i])) continue;
    FAIL_CHECK(sample.name << ": " << edits[i].at.to_string() << " " << edits[i].kind << ": "
                           << outcomes[i]);
  }
  CHECK(refused > edits.size() / 2);  // else the edits are none
}

}  // namespace

TEST_CASE("an edited meta-info of split products gives the right outputs or one line") {
  check_edits(sample_bundles()[0], 2500);
}
TEST_CASE("an edited meta-info of stages gives the right outputs or one line") {
  check_edits(sample_bundles()[1], 2500);
}
TEST_CASE("an edited meta-info of states gives the right outputs or one line") {
  check_edits(sample_bundles()[2], 2500);
}
TEST_CASE("an edited meta-info of a tail gives the right outputs or one line") {
  check_edits(sample_bundles()[3], 2500);
}

TEST_CASE("a byte that is changed in any file of a bundle is seen, by runs and by a look at it") {
  for (const Sample& sample : sample_bundles()) {
    const TemporaryFolder folder;
    write_sample(sample, folder.path());
    const auto bundle = folder / "bundle";
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(bundle))
      if (entry.path().filename().string().find("secret") == std::string::npos)
        files.push_back(entry.path());
    std::ranges::sort(files);
    REQUIRE(files.size() > 3);
    constexpr std::size_t flips = 40;
    const auto trial = [&](std::size_t i) -> std::string {
      std::mt19937 random(static_cast<unsigned>(i));
      const std::filesystem::path& file = files[i / flips];
      const std::string before = bytes_of_file(file);
      std::string bytes = before;
      const std::size_t place = random() % bytes.size();
      const auto flipped = static_cast<char>(i % 2 == 0 ? 1U << random() % 8 : 1 + random() % 255);
      bytes[place] = static_cast<char>(bytes[place] ^ flipped);
      write_file(file, bytes);
      const std::string run = outcome_of([&] { return outputs_of(sample, bundle); });
      const std::string look = outcome_of([&] {
        bundle::check_all_files(bundle::load_meta_info(bundle), bundle);
        return "accepted";
      });
      write_file(file, before);
      const std::string name = file.filename().string();
      const std::string what = name + " at " + std::to_string(place) + ": ";
      for (const std::string& outcome : {run, look})
        if (!is_refused(outcome) || outcome.find(name) == std::string::npos) return what + outcome;
      return "refused";
    };
    for (const std::string& outcome : forked_trials(files.size() * flips, trial)) {
      INFO(sample.name << ": " << outcome);
      CHECK(outcome == "refused");
    }
  }
}

}  // namespace autopar::testing
