#include "graph/contrib/packed_numbers.h"

namespace autopar::graph {
namespace {

std::string byte(BodyBuilder& body, std::int64_t value) {
  const auto narrow = static_cast<std::uint8_t>(value);
  return body.constant(Tensor::of<std::uint8_t>(DataType::uint8, {}, std::span(&narrow, 1)));
}

}  // namespace

void unpack_numbers(BodyBuilder& body, const std::string& from, const std::string& to,
                    const Shape& shape, std::int64_t bits) {
  if (bits == 8) {
    body.write("{} = Identity ({})", to, from);
    return;
  }
  const std::string mask = byte(body, (std::int64_t{1} << bits) - 1);
  const std::string last = body.ints({-1});
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < 8 / bits; ++i) {
    parts.push_back(fmt::format("{}_{}", to, i));
    body.write(
        "{0}_shifted = BitShift <direction = \"RIGHT\"> ({1}, {2}) "
        "{0}_low = BitwiseAnd ({0}_shifted, {3}) {0} = Unsqueeze ({0}_low, {4})",
        parts.back(), from, byte(body, i * bits), mask, last);
  }
  body.add("Concat", parts, {to + "_side_by_side"});
  body.set("axis", std::int64_t{-1});
  Shape whole = shape;
  whole.back() = -1;
  body.write(
      "{0}_row = Reshape ({0}_side_by_side, {1}) {0} = Slice ({0}_row, {2}, {3}, "
      "{4})",
      to, body.ints(whole), body.ints({0}), body.ints({shape.back()}), last);
}

}  // namespace autopar::graph
