#include "runtime/plugin.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"

using autopar::Error;
using autopar::TemporaryFolder;
using autopar::runtime::plugin_function;
using Catch::Matchers::Contains;

namespace {

/// Sets AUTOPAR_PLUGIN_DIR for one test.
struct PluginFolder {
  explicit PluginFolder(const std::string& folder) {
    setenv("AUTOPAR_PLUGIN_DIR", folder.c_str(), /*overwrite=*/1);
  }
  ~PluginFolder() { unsetenv("AUTOPAR_PLUGIN_DIR"); }
};

}  // namespace

TEST_CASE("a plugin's function is called, and the plugin is loaded once") {
  const PluginFolder folder(AUTOPAR_TEST_PLUGIN_DIR);
  CHECK(plugin_function<int()>("of_a_test", "autopar_count_calls")() == 1);
  CHECK(plugin_function<int()>("of_a_test", "autopar_count_calls")() == 2);
}

TEST_CASE("a plugin that is not there is named with its place") {
  const auto bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto usual = bin.parent_path() / "lib" / "autopar" / "libautopar_teapot.so";
  CHECK_THROWS_WITH(plugin_function<int()>("teapot", "pour"), Contains(usual.string()));
  const PluginFolder folder("/nowhere");
  CHECK_THROWS_WITH(plugin_function<int()>("teapot", "pour"),
                    Contains("/nowhere/libautopar_teapot.so is missing"));
}

TEST_CASE("a function that a plugin lacks is named") {
  const PluginFolder folder(AUTOPAR_TEST_PLUGIN_DIR);
  CHECK_THROWS_WITH(plugin_function<int()>("of_a_test", "pour"),
                    Contains("libautopar_of_a_test.so") && Contains("pour"));
}

TEST_CASE("a plugin of another version of autopar is not called") {
  const PluginFolder folder(AUTOPAR_TEST_PLUGIN_DIR);
  CHECK_THROWS_WITH(plugin_function<int()>("of_another_version", "autopar_count_calls"),
                    Contains("libautopar_of_another_version.so belongs to another version of "
                             "autopar (0.0.1) than this ("));
}

TEST_CASE("a plugin that the system cannot load is named with the system's reason") {
  const TemporaryFolder place;
  std::ofstream(place / "libautopar_broken.so") << "not a library";
  const PluginFolder folder(place.path().string());
  CHECK_THROWS_WITH(plugin_function<int()>("broken", "pour"),
                    Contains("'broken' cannot be loaded") && Contains("libautopar_broken.so:"));
}
