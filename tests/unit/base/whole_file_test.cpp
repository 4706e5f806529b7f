#include "base/whole_file.h"

#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace autopar {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Names = std::set<std::string>;

std::string text_in(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

Names names_in(const fs::path& folder) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

unsigned mode_of(const fs::path& file) {
  return static_cast<unsigned>(fs::status(file).permissions());
}

TEST_CASE("a file has its place once it is whole, and nothing has it before") {
  const TemporaryFolder folder;
  const fs::path place = folder / "x.json";
  {
    WholeFile file(place);
    file.write("half");
    CHECK_FALSE(fs::exists(place));
  }
  CHECK(names_in(folder.path()).empty());
  write_file(place, "old");
  WholeFile file(place);
  file.write("new and");
  file.write(" longer");
  CHECK(text_in(place) == "old");
  file.publish();
  CHECK(text_in(place) == "new and longer");
  CHECK(names_in(folder.path()) == Names{"x.json"});
}

TEST_CASE("the mode of a file that is replaced is kept, and a link at its place is replaced") {
  const TemporaryFolder folder;
  write_file(folder / "secret", "old");
  fs::permissions(folder / "secret", fs::perms{0600});
  write_file(folder / "secret", "new");
  CHECK(mode_of(folder / "secret") == 0600);
  fs::create_symlink("secret", folder / "link");
  write_file(folder / "link", "other");
  CHECK_FALSE(fs::is_symlink(folder / "link"));
  CHECK(text_in(folder / "secret") == "new");
  CHECK(text_in(folder / "link") == "other");
}

TEST_CASE("devices are written as they are; folders, and pipes that nobody reads, not at all") {
  const TemporaryFolder folder;
  CHECK_NOTHROW(write_file("/dev/null", "gone"));
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_THROWS_WITH(write_file("/dev/full", "more than there is room for"), Contains("/dev/full"));
  CHECK_THROWS_WITH(write_file(folder.path(), ""), Contains("folder"));
  CHECK_THROWS_WITH(write_file(folder / "none" / "x", ""), Contains("no folder"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(write_file(folder / "pipe", ""), Contains("nobody reads it"));
  CHECK(names_in(folder.path()) == Names{"pipe"});
}

TEST_CASE("of several who want a free name one gets it") {
  const TemporaryFolder folder;
  constexpr int num_writers = 8;
  std::atomic<int> published = 0;
  std::vector<std::thread> writers;
  for (int w = 0; w < num_writers; ++w)
    writers.emplace_back([&, w] {
      WholeFile file(folder / "x");
      file.write(std::to_string(w));
      try {
        file.publish_new();
        ++published;
      } catch (const Error&) {
      }
    });
  for (std::thread& writer : writers) writer.join();
  CHECK(published == 1);
  CHECK(names_in(folder.path()) == Names{"x"});
}

TEST_CASE("a name of 255 bytes has room for what is written beside it") {
  const TemporaryFolder folder;
  write_file(folder / std::string(255, 'n'), "text");
  CHECK(names_in(folder.path()) == Names{std::string(255, 'n')});
}

TEST_CASE("what dead processes left is swept, and what lives and what is not ours stays") {
  const TemporaryFolder folder;
  const std::string dead = "x.partial-0123456789abcdef";
  const Names others = {"x.partial-mine", "x.partial-0123456789ABCDEF",
                        "y.partial-0123456789abcdef", "x.partial-0123456789abcdef0"};
  write_file(folder / dead, "half");
  for (const std::string& name : others) write_file(folder / name, "mine");
  fs::create_directories(folder / "x.partial-fedcba9876543210" / "inner");
  fs::create_symlink("y.partial-0123456789abcdef", folder / "x.partial-0000000000000000");
  WholeFile living(folder / "x");
  Names left = names_in(folder.path());
  CHECK_FALSE(left.contains(dead));
  CHECK(left.size() == others.size() + 2);  // the link, and what is written
  sweep_partial_files(folder / "x");
  sweep_partial_files_in(folder.path());
  left = names_in(folder.path());
  CHECK_FALSE(left.contains("y.partial-0123456789abcdef"));
  CHECK(left.size() == others.size() + 1);
  living.publish();
  CHECK(text_in(folder / "x").empty());
}

}  // namespace
}  // namespace autopar
