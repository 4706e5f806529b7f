// GatherBlockQuantized: rows of bytes are looked up packed, and only those that were are unpacked.

#include "base/error.h"
#include "graph/contrib/microsoft_bodies.h"
#include "graph/contrib/packed_numbers.h"

namespace autopar::graph::microsoft {
namespace {

/// What a call says of its table, its axes counted from the front.
struct BlockTable {
  Shape data;  ///< numbers, not bytes
  std::size_t gathered = 0;
  std::size_t quantized = 1;
  std::int64_t block = 128;
  std::int64_t bits = 4;
  Shape indices;

  std::int64_t blocks() const { return (data[quantized] + block - 1) / block; }
  /// The shape of what the lookup makes of a tensor like the table.
  Shape looked_up(Shape shape) const {
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(gathered);
    const auto after = shape.erase(at);
    shape.insert(after, indices.begin(), indices.end());
    return shape;
  }
};

BlockTable block_table(const BodyBuilder& body) {
  BlockTable of;
  of.data = body.shape("data");
  of.indices = body.shape("indices");
  of.block = body.int_attribute("block_size", 128);
  of.bits = body.int_attribute("bits", 4);
  const auto rank = static_cast<std::int64_t>(of.data.size());
  const auto axis = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t given = body.int_attribute(name, otherwise);
    if (given < -rank || given >= rank)
      fail("its attribute '{}' is {} for a table {}", name, given, to_string(of.data));
    return static_cast<std::size_t>(given < 0 ? given + rank : given);
  };
  of.gathered = axis("gather_axis", 0);
  of.quantized = axis("quantize_axis", 1);
  if (of.block <= 0) fail("its attribute 'block_size' is {}", of.block);
  return of;
}

/// `to`, rows of `from` that the indices name.
void look_up(BodyBuilder& body, const BlockTable& of, const std::string& from,
             const std::string& to) {
  body.add("Gather", {from, "indices"}, {to});
  body.set("axis", static_cast<std::int64_t>(of.gathered));
}

/// A table of 4 bits: ONNX looks nothing up in one, so all of it becomes numbers.
void gather_typed(BodyBuilder& body, const BlockTable& of) {
  const DataType type = body.type("data");
  if (type != DataType::int4 && type != DataType::uint4)
    fail("a table of {} is not supported", name_of(type));
  body.add("DequantizeLinear", {"data", "scales", body.has("zero_points") ? "zero_points" : ""},
           {"table"});
  body.set("axis", static_cast<std::int64_t>(of.quantized));
  body.set("block_size", of.block);
  look_up(body, of, "table", "output");
}

/// `to`, numbers of `row` of one number a block: each once for each number of its block.
void repeat_in_blocks(BodyBuilder& body, const BlockTable& of, const std::string& from,
                      const std::string& to, const Shape& row) {
  Shape column = row;
  column.back() = of.blocks();
  column.push_back(1);
  Shape wide = column;
  wide.back() = of.block;
  Shape flat = row;
  flat.back() = of.blocks() * of.block;
  body.write(
      "{0}_column = Reshape ({1}, {2}) {0}_wide = Expand ({0}_column, {3}) "
      "{0}_flat = Reshape ({0}_wide, {4}) {0} = Slice ({0}_flat, {5}, {6}, {7})",
      to, from, body.ints(column), body.ints(wide), body.ints(flat), body.ints({0}),
      body.ints({row.back()}), body.ints({-1}));
}

/// Bytes of some numbers each, along the last dimension; so are zero points. Numbers are meant to
/// be 2^(bits - 1) too large where there are none.
void gather_bytes(BodyBuilder& body, BlockTable of) {
  const std::size_t last = of.data.size() - 1;
  if (of.bits != 2 && of.bits != 4 && of.bits != 8) fail("{} bits are not supported", of.bits);
  if (of.gathered == last || of.quantized != last)
    fail("bytes looked up along dimension {} in blocks along dimension {} are not supported",
         of.gathered, of.quantized);
  of.data[last] *= 8 / of.bits;
  const Shape row = of.looked_up(of.data);
  if (body.shape("scales").back() != of.blocks())
    fail("table {} and scales {} do not fit blocks of {}", to_string(of.data),
         to_string(body.shape("scales")), of.block);
  look_up(body, of, "data", "rows");
  unpack_numbers(body, "rows", "numbers", row, of.bits);
  look_up(body, of, "scales", "scale_rows");
  const DataType type = body.type("scales");
  body.write("wide = Cast <to = {}> (numbers)", static_cast<int>(type));
  std::string zero = "zero";
  if (body.has("zero_points")) {
    look_up(body, of, "zero_points", "zero_rows");
    Shape zeros = row;
    zeros.back() = of.blocks();
    unpack_numbers(body, "zero_rows", "zeros", zeros, of.bits);
    body.write("zero_numbers = Cast <to = {}> (zeros)", static_cast<int>(type));
    repeat_in_blocks(body, of, "zero_numbers", "zero", row);
  } else {
    zero = body.number(static_cast<float>(std::int64_t{1} << (of.bits - 1)), type);
  }
  repeat_in_blocks(body, of, "scale_rows", "scale", row);
  body.write("centred = Sub (wide, {}) output = Mul (centred, scale)", zero);
}

}  // namespace

void gather_block_quantized(BodyBuilder& body) {
  const BlockTable of = block_table(body);
  if (body.shape("scales").size() != of.data.size())
    fail("table {} and scales {} have not as many dimensions", to_string(of.data),
         to_string(body.shape("scales")));
  if (body.type("data") == DataType::uint8)
    gather_bytes(body, of);
  else
    gather_typed(body, of);
}

}  // namespace autopar::graph::microsoft
