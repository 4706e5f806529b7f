// GatherBlockQuantized: rows of bytes are looked up packed, and only those that were are unpacked.

#include "base/error.h"
#include "graph/contrib/families.h"
#include "graph/contrib/operator_table.h"

namespace autopar::graph {
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

/// The rows that the indices name.
Operand looked_up(BodyBuilder& body, const BlockTable& of, const Operand& table) {
  return body.op("Gather", {table, body["indices"]},
                 {{"axis", static_cast<std::int64_t>(of.gathered)}});
}

/// A table of 4 bits: ONNX looks nothing up in one, so all of it becomes numbers.
Operand gathered_typed(BodyBuilder& body, const BlockTable& of) {
  const DataType type = body.type("data");
  if (type != DataType::int4 && type != DataType::uint4)
    fail("a table of {} is not supported", name_of(type));
  return looked_up(
      body, of,
      body.op("DequantizeLinear", {body["data"], body["scales"], body["zero_points"]},
              {{"axis", static_cast<std::int64_t>(of.quantized)}, {"block_size", of.block}}));
}

/// Repeats `x`, one number a block, for each number of its block, to a tensor of shape `row`.
Operand repeated_in_blocks(BodyBuilder& body, const BlockTable& of, const Operand& x,
                           const Shape& row) {
  Shape column = row;
  column.back() = of.blocks();
  column.push_back(1);
  Shape wide = column;
  wide.back() = of.block;
  Shape flat = row;
  flat.back() = of.blocks() * of.block;
  const Operand each = body.op("Expand", {body.op("Reshape", {x, column}), wide});
  return body.slice(body.op("Reshape", {each, flat}), 0, row.back(), -1);
}

/// Bytes of some numbers each, along the last dimension; so are zero points. Numbers are meant to
/// be 2^(bits - 1) too large where there are none.
Operand gathered_bytes(BodyBuilder& body, BlockTable of) {
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
  const DataType type = body.type("scales");
  const Operand rows = looked_up(body, of, body["data"]);
  const Operand bytes = unpack_numbers(body, rows, row, of.bits);
  const Operand scales = looked_up(body, of, body["scales"]);
  const Operand numbers = body.cast(bytes, type);
  Operand zero = body.number(static_cast<double>(std::int64_t{1} << (of.bits - 1)), type);
  if (body.has("zero_points")) {
    Shape packed = row;
    packed.back() = of.blocks();
    const Operand zeros =
        unpack_numbers(body, looked_up(body, of, body["zero_points"]), packed, of.bits);
    zero = repeated_in_blocks(body, of, body.cast(zeros, type), row);
  }
  const Operand scale = repeated_in_blocks(body, of, scales, row);
  return (numbers - zero) * scale;
}

void gather_block_quantized(BodyBuilder& body) {
  const BlockTable of = block_table(body);
  if (body.shape("scales").size() != of.data.size())
    fail("table {} and scales {} have not as many dimensions", to_string(of.data),
         to_string(body.shape("scales")));
  body.output("output", body.type("data") == DataType::uint8 ? gathered_bytes(body, of)
                                                             : gathered_typed(body, of));
}

constexpr ContribOperator operators[] = {
    {microsoft_domain, "GatherBlockQuantized", "data indices scales zero_points?", "output",
     "bits:i block_size:i gather_axis:i quantize_axis:i", gather_block_quantized},
};

}  // namespace

std::span<const ContribOperator> gather_operators() { return operators; }

}  // namespace autopar::graph
