#include "runtime/tensor_files.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/read_file.h"
#include "base/whole_file.h"
#include "base/work_signs.h"
#include "graph/onnx/onnx_tensor_file.h"
#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime {

namespace {

using graph::DataType;
using graph::Shape;
using graph::Tensor;

constexpr std::string_view magic = "\x93NUMPY";

const std::map<std::string, DataType>& numpy_types() {
  static const std::map<std::string, DataType> types = {
      {"<f4", DataType::float32}, {"<f8", DataType::float64}, {"<f2", DataType::float16},
      {"<i8", DataType::int64},   {"<i4", DataType::int32},   {"<i2", DataType::int16},
      {"|i1", DataType::int8},    {"<u8", DataType::uint64},  {"<u4", DataType::uint32},
      {"<u2", DataType::uint16},  {"|u1", DataType::uint8},   {"|b1", DataType::boolean}};
  return types;
}

/// The text after `'key':` in the header's dictionary.
std::string header_field(const std::string& header, const std::string& key,
                         const std::filesystem::path& file) {
  const auto found = header.find("'" + key + "':");
  if (found == std::string::npos) fail("{}: no '{}' in the .npy header", file.string(), key);
  const auto begin = header.find_first_not_of(' ', found + key.size() + 3);
  return begin == std::string::npos ? "" : header.substr(begin);
}

Shape parse_shape(const std::string& text, const std::filesystem::path& file) {
  Shape shape;
  const auto end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string::npos)
    fail("{}: malformed shape in the .npy header", file.string());
  std::istringstream numbers(text.substr(1, end - 1));
  for (std::string number; std::getline(numbers, number, ',');) {
    number.erase(0, number.find_first_not_of(' '));
    if (number.empty()) continue;
    if (number.find_first_not_of("0123456789") != std::string::npos || number.size() > 15)
      fail("{}: malformed shape in the .npy header", file.string());
    shape.push_back(std::stoll(number));
  }
  return shape;
}

/// The header's text; leaves the stream at the data.
std::string read_header(std::istream& stream, const std::filesystem::path& file) {
  char start[8] = {};
  stream.read(start, sizeof start);
  if (!stream || std::string_view(start, 6) != magic || start[6] < 1 || start[6] > 3)
    fail("{} is no .npy file", file.string());
  unsigned char length[4] = {};
  stream.read(reinterpret_cast<char*>(length), start[6] == 1 ? 2 : 4);
  const std::uint32_t bytes =
      length[0] | length[1] << 8U | length[2] << 16U | static_cast<std::uint32_t>(length[3]) << 24U;
  if (!stream || bytes > (1U << 20U)) fail("{} is a damaged .npy file", file.string());
  std::string header(bytes, '\0');
  stream.read(header.data(), static_cast<std::streamsize>(bytes));
  if (!stream) fail("{} is a truncated .npy file", file.string());
  return header;
}

/// Any numeric element as a double.
double number_at(const Tensor& tensor, std::int64_t i) {
  double number = 0;
  const auto read = [&]<typename T>(T) {
    number = static_cast<double>(widened(tensor.values<T>()[static_cast<std::size_t>(i)]));
  };
  if (!visit_type(stored_type(tensor.type()), Joined<Numbers, Halves>{}, read))
    fail("tensors of {} cannot be compared", name_of(tensor.type()));
  return number;
}

/// move(begin, bytes) for pieces of so many bytes, other ranks being told that this one is at work.
template <typename Move>
void in_pieces(std::size_t bytes, const Move& move) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 24;
  for (std::size_t begin = 0; begin < bytes; begin += piece_bytes) {
    note_work();
    move(begin, static_cast<std::streamsize>(std::min(piece_bytes, bytes - begin)));
  }
}

template <typename T, typename Draw>
void fill(Tensor& tensor, Draw draw) {
  auto* values = reinterpret_cast<T*>(tensor.mutable_bytes().data());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (i % (1 << 16) == 0) note_work();
    values[i] = draw();
  }
}

}  // namespace

Tensor load_npy(const std::filesystem::path& file) {
  check_regular_file(file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("cannot read {}: no such file, or no permission", file.string());
  const std::string header = read_header(stream, file);
  const std::string descr = header_field(header, "descr", file);
  const auto type = numpy_types().find(descr.size() < 5 ? "" : descr.substr(1, 3));
  if (type == numpy_types().end()) {
    fail("{}: element type {} is not read; use little-endian numbers or bool", file.string(),
         descr.substr(0, 5));
  }
  const Shape shape = parse_shape(header_field(header, "shape", file), file);
  if (header_field(header, "fortran_order", file).starts_with("True") && shape.size() > 1) {
    fail("{} is in Fortran order; save numpy.ascontiguousarray of it", file.string());
  }
  // Before memory is asked for: a damaged shape may want any amount.
  const auto bytes_left =
      std::filesystem::file_size(file) - static_cast<std::uintmax_t>(stream.tellg());
  if (!graph::is_possible(shape) || static_cast<std::uintmax_t>(graph::bytes_of(
                                        type->second, graph::num_elements(shape))) != bytes_left) {
    fail("{}: the data is not {} of {}", file.string(), graph::to_string(shape),
         name_of(type->second));
  }
  Tensor tensor = Tensor::zeros(type->second, shape);
  const auto bytes = tensor.mutable_bytes();
  in_pieces(bytes.size(), [&](std::size_t begin, std::streamsize size) {
    stream.read(reinterpret_cast<char*>(bytes.data() + begin), size);
  });
  if (!stream) fail("cannot read {} to its end", file.string());
  return tensor;
}

void save_npy(const std::filesystem::path& file, const Tensor& tensor) {
  Tensor data = tensor.contiguous_copy();
  if (data.type() == DataType::bfloat16) {
    Tensor wide = Tensor::zeros(DataType::float32, data.shape());
    std::int64_t i = 0;
    fill<float>(wide, [&] { return static_cast<float>(number_at(data, i++)); });
    data = wide;
  }
  const auto type = std::ranges::find_if(
      numpy_types(), [&](const auto& entry) { return entry.second == data.type(); });
  if (type == numpy_types().end()) fail("{}: no .npy of {}", file.string(), name_of(data.type()));

  std::string shape;
  for (const std::int64_t extent : data.shape()) shape += std::to_string(extent) + ",";
  std::string header =
      "{'descr': '" + type->first + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';

  std::string start(magic);
  start += {'\x01', '\0', static_cast<char>(header.size() & 0xFFU),
            static_cast<char>(header.size() >> 8U)};
  WholeFile whole(file);
  whole.write(start + header);
  const auto bytes = data.bytes();
  in_pieces(bytes.size(), [&](std::size_t begin, std::streamsize size) {
    whole.write(bytes.subspan(begin, static_cast<std::size_t>(size)));
  });
  whole.publish();
}

Tensor random_tensor(DataType type, const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Tensor tensor = Tensor::zeros(type, shape);
  const auto draw = [&] {
    return graph::is_floating_point(type) ? normal(random) : static_cast<float>(random() & 1U);
  };
  const bool is_number =
      visit_type(stored_type(type), Joined<Numbers, Halves>{},
                 [&]<typename T>(T) { fill<T>(tensor, [&] { return narrowed<T>(draw()); }); });
  if (!is_number) fail("no random values of {}; give the input as a file", name_of(type));
  return tensor;
}

std::string safe_file_name(const std::string& tensor_name) {
  std::string name = tensor_name;
  const auto is_unsafe = [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '-'; };
  std::ranges::replace_if(name, is_unsafe, '_');
  return name;
}

double largest_relative_error(const Tensor& reference, const Tensor& other) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (reference.type() != other.type() || reference.shape() != other.shape()) return infinity;
  const Tensor a = reference.contiguous_copy();
  const Tensor b = other.contiguous_copy();
  double largest = 0;
  double scale = 1e-30;
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const double x = number_at(a, i);
    const double y = number_at(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y)) return infinity;
    largest = std::max(largest, std::abs(x - y));
    scale = std::max(scale, std::abs(x));
  }
  return largest / scale;
}

Tensor load_tensor_file(const std::filesystem::path& file) {
  if (file.extension() == ".npy") return load_npy(file);
  if (file.extension() == ".pb") return graph::load_tensor_proto(file).second;
  fail("{}: give a .npy or .pb file", file.string());
}

}  // namespace autopar::runtime
