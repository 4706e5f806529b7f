#include "runtime/tensor_files.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/temporary_folder.h"

using namespace autopar;
using namespace autopar::runtime;
using Catch::Matchers::Contains;
using graph::DataType;
using graph::Tensor;

namespace {

struct TemporaryFile {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "tensor.npy";
};

}  // namespace

TEST_CASE("a tensor saved as .npy is read back the same") {
  const TemporaryFile file;
  for (const DataType type :
       {DataType::float32, DataType::float64, DataType::float16, DataType::int64, DataType::int32,
        DataType::int8, DataType::boolean}) {
    for (const graph::Shape& shape :
         {graph::Shape{}, graph::Shape{0}, graph::Shape{3}, graph::Shape{2, 3, 4}}) {
      const Tensor tensor = random_tensor(type, shape, 7);
      save_npy(file.path, tensor);
      const Tensor read = load_npy(file.path);
      CHECK(largest_relative_error(tensor, read) == 0);
    }
  }
}

TEST_CASE("the header of an .npy file is a multiple of 64 bytes long") {
  const TemporaryFile file;
  save_npy(file.path, random_tensor(DataType::float32, {5}, 1));
  CHECK(std::filesystem::file_size(file.path) % 64 == 20);
}

TEST_CASE("what is no .npy file, or a damaged one, is refused by name") {
  const TemporaryFile file;
  SECTION("text") { std::ofstream(file.path) << "hello, this is no tensor"; }
  SECTION("truncated") {
    save_npy(file.path, random_tensor(DataType::float32, {100}, 1));
    std::filesystem::resize_file(file.path, 200);
  }
  SECTION("too long") {
    save_npy(file.path, random_tensor(DataType::float32, {100}, 1));
    std::ofstream(file.path, std::ios::app) << "more";
  }
  SECTION("of a shape that no memory holds") {
    for (const char* shape : {"(99999999, 99999), }", "(999999999999999, 999999999999999), }"}) {
      const std::string header =
          std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + '\n';
      std::ofstream(file.path) << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size())
                               << '\0' << header;
      CHECK_THROWS_WITH(load_npy(file.path), Contains(file.path.string()));
    }
  }
  CHECK_THROWS_WITH(load_npy(file.path), Contains(file.path.string()));
}

TEST_CASE("the error is relative to the largest element, and NaN equals only NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto tensor = [](std::vector<float> values) {
    return Tensor::of_float({static_cast<std::int64_t>(values.size())}, values);
  };
  CHECK(largest_relative_error(tensor({1, 10}), tensor({1.5, 10})) == Approx(0.05));
  CHECK(largest_relative_error(tensor({1, nan}), tensor({1, nan})) == 0);
  CHECK(std::isinf(largest_relative_error(tensor({1, nan}), tensor({1, 2}))));
  CHECK(std::isinf(largest_relative_error(tensor({1, 2}), tensor({1, nan}))));
  CHECK(std::isinf(largest_relative_error(tensor({1, 2}), tensor({1, 2, 3}))));
}

TEST_CASE("file names hold no unsafe character") {
  CHECK(safe_file_name("model/layer.0:out put-1") == "model_layer.0_out_put-1");
}
