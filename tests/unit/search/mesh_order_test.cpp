#include "search/mesh_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "search/logical_meshes.h"

using namespace autopar;
using namespace autopar::search;
using sharding::DeviceMesh;

namespace {

/// All ways to arrange so many devices, of which no plan takes less than a second; none is
/// searched.
std::vector<MeshTrial> trials_on(int devices) {
  std::vector<MeshTrial> trials;
  for (const DeviceMesh& mesh : meshes_to_search(devices, cost::load_device_model("h200")))
    trials.push_back({.mesh = mesh, .lower_bound_seconds = 1});
  return trials;
}

MeshTrial& trial_of(std::vector<MeshTrial>& trials, const char* mesh) {
  return *std::ranges::find(trials, DeviceMesh::parse(mesh), &MeshTrial::mesh);
}

void note(std::vector<MeshTrial>& trials, const char* mesh, double cost, double bound) {
  trial_of(trials, mesh).cost_seconds = cost;
  trial_of(trials, mesh).lower_bound_seconds = bound;
}

std::string next_new(const std::vector<MeshTrial>& trials) {
  return to_string(trials[next_new_mesh(trials, {.most = 9}).value()].mesh);
}

std::optional<std::string> next_again(const std::vector<MeshTrial>& trials, double best_seconds,
                                      const std::vector<std::string>& again = {}) {
  std::vector<bool> is_again;
  for (const MeshTrial& trial : trials)
    is_again.push_back(std::ranges::count(again, to_string(trial.mesh)) > 0);
  const auto next = next_mesh_again(trials, best_seconds, is_again);
  return next ? std::optional(to_string(trials[*next].mesh)) : std::nullopt;
}

}  // namespace

TEST_CASE("of meshes that were not searched, those of few axes that refine the best come first") {
  std::vector<MeshTrial> trials = trials_on(64);
  CHECK(next_new(trials) == "64");
  note(trials, "64", 9, 9);
  CHECK(next_new(trials) == "8x8");
  note(trials, "8x8", 7, 7);
  CHECK(next_new(trials) == "4x16");
  note(trials, "4x16", 6, 6);
  CHECK(next_new(trials) == "2x32");
  trial_of(trials, "2x32").refusal = "nothing fits";
  // 4x16 is the best, and 4x4x4 the most even mesh that it comes from.
  CHECK(next_new(trials) == "4x4x4");
  note(trials, "4x4x4", 6, 1);
  CHECK(next_new(trials) == "2x2x16");  // 2x4x8 does not refine 4x16

  CHECK(known_seconds(trials, DeviceMesh({4, 4, 4})) == 6);
  CHECK(known_seconds(trials, DeviceMesh({2, 4, 8})) == 7);
  CHECK(known_seconds(trials_on(64), DeviceMesh({64})) == std::numeric_limits<double>::infinity());

  note(trials, "8x8", 5, 5);
  CHECK(next_new(trials) == "2x4x8");

  for (MeshTrial& trial : trials)
    if (trial.mesh.num_axes() < 4) trial.cost_seconds = 6;
  CHECK_FALSE(next_new_mesh(trials, {.most = 3}));
  CHECK(next_new(trials) == "2x2x4x4");
  for (MeshTrial& trial : trials) trial.cost_seconds = 6;
  CHECK_FALSE(next_new_mesh(trials, {.most = 9}));
}

TEST_CASE("of meshes of even enough axes, those of more sizes of groups come first") {
  // 2, 4, 8, 16, 32, 64 devices, and of 4x4x4 only 4, 16 and 64.
  const std::vector<MeshTrial> trials = trials_on(64);
  CHECK(to_string(trials[next_new_mesh(trials, {.fewest = 3, .most = 3}).value()].mesh) == "2x4x8");
  CHECK(to_string(trials[next_new_mesh(trials, {.fewest = 4, .most = 4}).value()].mesh) ==
        "2x2x4x4");
}

TEST_CASE("a mesh is searched once more where its cost and its bound are low") {
  std::vector<MeshTrial> trials = trials_on(16);
  CHECK_FALSE(next_again(trials, 9));
  note(trials, "16", 9, 9);
  note(trials, "4x4", 6, 5.999);
  note(trials, "2x8", 8, 1.5);
  CHECK(next_again(trials, 6) == "2x8");  // 4x4 can be better by less than a thousandth
  note(trials, "2x2x4", 5.5, 1.4);        // lower cost and bound
  CHECK(next_again(trials, 5.5) == "2x2x4");
  CHECK(next_again(trials, 5.5, {"2x2x4"}) == "2x8");
  CHECK_FALSE(next_again(trials, 5.5, {"2x2x4", "2x8"}));
}
