#include "base/mapped_file.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file_checks.h"
#include "base/temporary_folder.h"
#include "base/whole_file.h"

namespace autopar {
namespace {

using Catch::Contains;

constexpr std::size_t many = std::size_t{1} << 20;

std::size_t sum_of(std::span<const std::byte> bytes) {
  return std::accumulate(
      bytes.begin(), bytes.end(), std::size_t{0},
      [](std::size_t sum, std::byte b) { return sum + std::to_integer<std::size_t>(b); });
}

TEST_CASE("a file that is truncated while it is mapped reads as zeros, and is told of") {
  const TemporaryFolder folder;
  write_file(folder / "weights", std::string(many, '\1'));
  write_file(folder / "other", std::string(many, '\1'));
  auto file = MappedFile::open(folder / "weights");
  const auto other = MappedFile::open(folder / "other");  // behind or before it in memory
  CHECK(sum_of(file->bytes()) == many);
  CHECK_NOTHROW(check_mapped_files_unchanged());
  std::filesystem::resize_file(folder / "weights", many / 4);
  CHECK(sum_of(file->bytes()) == many / 4);
  CHECK(sum_of(other->bytes()) == many);
  CHECK_THROWS_WITH(check_mapped_files(), Contains("weights") && Contains("shorter"));
  CHECK_THROWS_WITH(check_mapped_files(), Contains("weights"));  // as long as it is mapped
  SECTION("the same file, whole again, is mapped anew") {
    write_file(folder / "copy", std::string(many, '\2'));
    { std::ofstream(folder / "weights") << std::string(many, '\2'); }
    CHECK(sum_of(MappedFile::open(folder / "weights")->bytes()) == 2 * many);
  }
  file.reset();
  CHECK_THROWS_WITH(check_mapped_files(), Contains("weights"));  // once more
  CHECK_NOTHROW(check_mapped_files());
}

TEST_CASE("what reads a part that is gone gets zeros, whichever way it reads") {
  const TemporaryFolder folder;
  write_file(folder / "weights", std::string(many, '\1'));
  {
    const auto file = MappedFile::open(folder / "weights");
    std::filesystem::resize_file(folder / "weights", 0);
    std::vector<std::byte> row(100, std::byte{7});
    file->read(many / 2, row);
    CHECK(sum_of(row) == 0);
  }
  CHECK_THROWS_AS(check_mapped_files(), Error);
}

TEST_CASE("a file that is written while it is mapped is told of, one that is replaced is not") {
  const TemporaryFolder folder;
  write_file(folder / "weights", std::string(many, '\1'));
  const auto file = MappedFile::open(folder / "weights");
  write_file(folder / "weights", std::string(many, '\2'));
  CHECK_NOTHROW(check_mapped_files_unchanged());
  const auto now = MappedFile::open(folder / "weights");
  std::filesystem::last_write_time(
      folder / "weights",
      std::filesystem::last_write_time(folder / "weights") + std::chrono::seconds(1));
  CHECK_THROWS_WITH(check_mapped_files_unchanged(), Contains("weights") && Contains("changed"));
}

}  // namespace
}  // namespace autopar
