#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <span>
#include <thread>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/temporary_folder.h"
#include "base/whole_file.h"

namespace autopar {
namespace {

using Catch::Contains;

TEST_CASE("a text is read whole, from a file or from a pipe that somebody writes") {
  const TemporaryFolder folder;
  const std::string text(300'000, 't');
  write_file(folder / "text", text);
  CHECK(read_file(folder / "text") == text);
  write_file(folder / "text", "");
  CHECK(read_file(folder / "text").empty());

  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  const Descriptor out(ends[0]);
  std::thread writer([&text, in = Descriptor(ends[1])] {
    write_all(in, std::as_bytes(std::span(text)), "the pipe");
  });
  CHECK(read_file("/dev/fd/" + std::to_string(out.number())) == text);
  writer.join();
}

TEST_CASE("what is no text is refused, and nobody waits for one who writes") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_file(folder / "pipe"), Contains("nobody writes"));
  CHECK_THROWS_WITH(read_file(folder.path()), Contains("directory"));
  CHECK_THROWS_WITH(read_file("/dev/zero"), Contains("/dev/zero") && Contains("neither"));
  CHECK_THROWS_WITH(read_file(folder / "none", "{}! ({})"), Contains("none! (No such file"));
  CHECK_THROWS_WITH(check_regular_file(folder / "pipe"), Contains("not a regular file"));
  CHECK_NOTHROW(check_regular_file(folder / "none"));
}

}  // namespace
}  // namespace autopar
