#include "base/file_digest.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "base/temporary_folder.h"

using autopar::TemporaryFolder;
using namespace autopar;

TEST_CASE("the digest of a file is XXH3-64 of its bytes") {
  const TemporaryFolder folder;
  std::ofstream(folder / "empty");
  CHECK(xxh3_of_file(folder / "empty") == "2d06800538d394c2");  // the specification's value
  std::ofstream(folder / "large") << std::string((std::size_t{1} << 20) + 17, 'a');
  std::ofstream(folder / "other") << std::string((std::size_t{1} << 20) + 17, 'a') + "b";
  CHECK(xxh3_of_file(folder / "large") != xxh3_of_file(folder / "other"));
  CHECK(xxh3_of_file(folder / "large").size() == 16);
}

TEST_CASE("the digest of a file that cannot be read is an error that names it") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(xxh3_of_file(folder / "none"), Catch::Contains("none"));
  CHECK_THROWS_WITH(xxh3_of_file(folder.path()), Catch::Contains("directory"));
}
