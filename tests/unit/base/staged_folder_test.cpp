#include "base/staged_folder.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/renaming.h"
#include "base/temporary_folder.h"
#include "base/whole_file.h"

namespace autopar {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Names = std::set<std::string>;

Names names_in(const fs::path& folder) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void may_replace(const fs::path& folder) {
  if (fs::exists(folder / "thesis")) fail("{} has a thesis", folder.string());
}

TEST_CASE("what appears at the place while a folder is filled stays, even an empty folder") {
  const TemporaryFolder folder;
  StagedFolder staged(folder / "out");
  SECTION("a folder") { fs::create_directory(folder / "out"); }
  SECTION("a file") { write_file(folder / "out", "years of work"); }
  SECTION("a link to nowhere") { fs::create_symlink("nowhere", folder / "out"); }
  CHECK_THROWS_WITH(staged.publish(), Contains("appeared"));
  CHECK(fs::exists(staged.path()));
}

TEST_CASE("of several folders one gets a free place") {
  const TemporaryFolder folder;
  StagedFolder one(folder / "out");
  StagedFolder other(folder / "out");
  write_file(one.path() / "one", "");
  one.publish();
  CHECK_THROWS_AS(other.publish(), Error);
  CHECK(names_in(folder / "out") == Names{"one"});
}

TEST_CASE("a folder replaces another and has its mode, and nobody else enters it before") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "out");
  write_file(folder / "out" / "old", "");
  fs::permissions(folder / "out", fs::perms{0700});
  {
    StagedFolder staged(folder / "out");
    CHECK(fs::status(staged.path()).permissions() == fs::perms{0700});
    write_file(staged.path() / "new", "");
    staged.replace(may_replace);
  }
  CHECK(names_in(folder.path()) == Names{"out"});
  CHECK(names_in(folder / "out") == Names{"new"});
  CHECK(fs::status(folder / "out").permissions() == fs::perms{0700});
}

TEST_CASE("a folder that may not be replaced stays") {
  const TemporaryFolder folder;
  {
    StagedFolder staged(folder / "out");
    fs::create_directory(folder / "out");
    write_file(folder / "out" / "thesis", "years of work");
    CHECK_THROWS_WITH(staged.replace(may_replace), Contains("thesis"));
  }
  CHECK(names_in(folder / "out") == Names{"thesis"});
  CHECK(names_in(folder.path()) == Names{"out"});
}

TEST_CASE("what came into a folder while it was exchanged brings it back") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "out");
  {
    StagedFolder staged(folder / "out");
    int asked = 0;
    CHECK_THROWS_WITH(staged.replace([&](const fs::path& replaced) {
      if (++asked == 2) write_file(replaced / "thesis", "years of work");
      may_replace(replaced);
    }),
                      Contains("thesis"));
  }
  CHECK(names_in(folder / "out") == Names{"thesis"});
}

TEST_CASE("a place that a dead process left empty gets back what was there") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "out.replaced-0123456789abcdef" / "old");
  fs::create_directories(folder / "out.partial-0123456789abcdef");
  sweep_partial_files(folder / "out");  // not before it is put back
  CHECK(names_in(folder.path()).size() == 2);
  put_back_replaced(folder / "out");
  CHECK(names_in(folder / "out") == Names{"old"});
  sweep_partial_files(folder / "out");
  CHECK(names_in(folder.path()) == Names{"out"});
}

TEST_CASE("what was replaced is swept once the place has the new one") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "out.replaced-0123456789abcdef" / "old");
  fs::create_directories(folder / "out" / "new");
  put_back_replaced(folder / "out");
  sweep_partial_files(folder / "out");
  CHECK(names_in(folder.path()) == Names{"out"});
  CHECK(names_in(folder / "out") == Names{"new"});
}

TEST_CASE("a name is given to what has none, and taken from nobody") {
  const TemporaryFolder folder;
  write_file(folder / "a", "a");
  write_file(folder / "b", "b");
  CHECK(rename_to_free_name(folder / "a", folder / "b") == Renamed::taken);
  CHECK(rename_to_free_name(folder / "none", folder / "c") == Renamed::gone);
  CHECK(rename_to_free_name(folder / "a", folder / "c") == Renamed::done);
  CHECK(exchange_names(folder / "c", folder / "none") == Renamed::gone);
  CHECK_THROWS_AS(rename_to_free_name(folder / "b", folder / "none" / "b"), Error);
}

}  // namespace
}  // namespace autopar
