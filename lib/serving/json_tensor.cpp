#include "serving/json_tensor.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "runtime/kernels/common/element_types.h"

namespace autopar::serving {
namespace {

using graph::DataType;
using graph::Shape;
using graph::Tensor;
using nlohmann::json;
using runtime::Joined;

/// Far more than any operator takes; lists nested without end would use the stack up.
constexpr std::size_t most_dimensions = 64;

struct Bool {
  static constexpr auto data_type = DataType::boolean;
  std::uint8_t value = 0;
};
using Told = Joined<runtime::AllNumbers, runtime::Types<Bool>>;

template <typename T>
constexpr bool is_float = std::is_floating_point_v<runtime::Widened<T>>;

[[noreturn]] void fail_value(std::string_view what, const json& value, DataType type) {
  fail("{}: {} is no {}", what, shown(value), name_of(type));
}

double float_of(const json& value, DataType type, std::string_view what) {
  if (value.is_number()) return value.get<double>();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return infinity;
  if (value == "-Infinity") return -infinity;
  fail_value(what, value, type);
}

template <typename T>
T element(const json& value, DataType type, std::string_view what) {
  if constexpr (std::is_same_v<T, Bool>) {
    if (!value.is_boolean()) fail("{}: {} is no bool; give true or false", what, shown(value));
    return {value.get<bool>()};
  } else if constexpr (is_float<T>) {
    const double number = float_of(value, type, what);
    const T narrow = runtime::narrowed<T>(number);
    if (std::isfinite(number) && !std::isfinite(runtime::widened(narrow)))
      fail("{}: {} is beyond {}", what, shown(value), name_of(type));
    return narrow;
  } else {
    if (!value.is_number_integer()) fail_value(what, value, type);
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : std::in_range<T>(value.get<std::int64_t>());
    if (!fits) fail("{}: {} is beyond {}", what, shown(value), name_of(type));
    return value.get<T>();
  }
}

/// As the first list, and the first in it, and so on, have it.
Shape shape_of(const json& value, std::string_view what) {
  Shape shape;
  for (const json* list = &value; list->is_array(); list = &list->front()) {
    if (shape.size() == most_dimensions)
      fail("{}: lists are nested more than {} times", what, most_dimensions);
    shape.push_back(std::ssize(*list));
    if (list->empty()) break;
  }
  return shape;
}

/// Before memory is asked for: ragged lists may begin like those of any shape.
void check_lists(const json& value, const Shape& shape, std::size_t dim, std::string_view what) {
  if (dim == shape.size()) {
    if (value.is_array()) fail("{}: ragged: a list stands beside values", what);
    return;
  }
  if (!value.is_array()) fail("{}: ragged: {} stands beside lists", what, shown(value));
  if (std::ssize(value) != shape[dim])
    fail("{}: ragged: a list of {} stands beside one of {}", what, value.size(), shape[dim]);
  for (const json& item : value) check_lists(item, shape, dim + 1, what);
}

template <typename T>
T* fill(T* to, const json& value, DataType type, std::string_view what) {
  if (!value.is_array()) {
    *to = element<T>(value, type, what);
    return to + 1;
  }
  for (const json& item : value) to = fill(to, item, type, what);
  return to;
}

template <typename T>
void append_value(std::string& text, T value) {
  if constexpr (std::is_same_v<T, Bool>) {
    text += value.value != 0 ? "true" : "false";
  } else {
    const auto number = runtime::widened(value);
    if constexpr (is_float<T>) {
      if (!std::isfinite(number)) {
        text += std::isnan(number) ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
        return;
      }
    }
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    text.append(digits, end);
    if (is_float<T> && number == 0 && digits[0] == '-') text += ".0";  // else the integer 0 is read
  }
}

template <typename T>
const T* append_lists(std::string& text, const T* from, const Shape& shape, std::size_t dim) {
  if (dim == shape.size()) {
    append_value(text, *from);
    return from + 1;
  }
  text += '[';
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    if (i > 0) text += ',';
    from = append_lists(text, from, shape, dim + 1);
  }
  text += ']';
  return from;
}

void append(std::string& text, const Tensor& tensor, const Shape& shape, std::string_view what) {
  const Tensor whole = tensor.contiguous_copy();
  const auto write = [&]<typename T>(T) {
    append_lists(text, reinterpret_cast<const T*>(whole.bytes().data()), shape, 0);
  };
  if (!runtime::visit_type(tensor.type(), Told{}, write))
    fail("{}: JSON has no {}; take it as a file or in binary", what, name_of(tensor.type()));
}

}  // namespace

bool is_told_in_json(DataType type) {
  return runtime::visit_type(type, Told{}, [](auto) {});
}

json parse_json(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    fail("this is no JSON, from character {} on", error.byte);
  } catch (const json::exception&) {
    fail("this is no JSON: a number is too large for any type");
  }
}

std::string shown(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  constexpr std::size_t longest = 60;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

Tensor tensor_of_nested(const json& value, DataType type, std::string_view what) {
  const Shape shape = shape_of(value, what);
  if (!is_told_in_json(type))
    fail("{}: JSON has no {}; give a file, or it in binary", what, name_of(type));
  check_lists(value, shape, 0, what);
  Tensor tensor = Tensor::zeros(type, shape);
  runtime::visit_type(type, Told{}, [&]<typename T>(T) {
    fill(reinterpret_cast<T*>(tensor.mutable_bytes().data()), value, type, what);
  });
  return tensor;
}

Tensor tensor_of_values(const json& value, DataType type, const Shape& shape,
                        std::string_view what) {
  if (!graph::is_possible(shape)) fail("{}: its shape is impossible", what);
  if (!value.is_array()) fail("{}: its data is {}; give a list", what, shown(value));
  const bool is_flat = value.empty() || !value.front().is_array();
  if (is_flat && std::ssize(value) != graph::num_elements(shape))
    fail("{}: {} values for a shape of {}", what, value.size(), graph::to_string(shape));
  const Tensor tensor = tensor_of_nested(value, type, what);
  if (!is_flat && tensor.shape() != shape)
    fail("{}: lists of {} for a shape of {}", what, graph::to_string(tensor.shape()),
         graph::to_string(shape));
  return tensor.reshaped(shape);
}

void append_nested(std::string& text, const Tensor& tensor, std::string_view what) {
  append(text, tensor, tensor.shape(), what);
}

void append_flat(std::string& text, const Tensor& tensor, std::string_view what) {
  append(text, tensor, {tensor.elements()}, what);
}

}  // namespace autopar::serving
