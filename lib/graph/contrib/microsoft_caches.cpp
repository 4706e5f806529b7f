#include "graph/contrib/microsoft_caches.h"

#include "base/error.h"

namespace autopar::graph::microsoft {
namespace {

constexpr std::uint8_t zero_of_4_bits = 8;

std::string quant_type_of(const BodyBuilder& body, const std::string& part) {
  return body.string_attribute(part + "_quant_type", "NONE");
}

void check_cache(const BodyBuilder& body, const CacheForm& form) {
  const std::string past = form.part == "k" ? "past_key" : "past_value";
  if (!body.has(past)) return;
  const DataType stored = form.bits == 4 ? DataType::uint8 : DataType::int8;
  if (body.type(past) != stored)
    fail("its {} is {}, which is not supported: numbers of {} bits are {}", past,
         name_of(body.type(past)), form.bits, name_of(stored));
  if (body.shape(past).size() != 4 || body.shape(past)[3] != form.width())
    fail("its {} {} does not hold {} numbers of {} bits a head", past, to_string(body.shape(past)),
         form.depth, form.bits);
}

void check_scale(const BodyBuilder& body, const CacheForm& form) {
  const std::string scale = form.part + "_scale";
  if (!body.has(scale)) fail("its cache is quantised, but it has no input '{}'", scale);
  const std::int64_t expected = form.by_channel ? form.heads * form.depth : 1;
  if (num_elements(body.shape(scale)) != expected)
    fail("its {} {} does not have {} numbers, which its {}_quant_type asks for", scale,
         to_string(body.shape(scale)), expected, form.part);
}

Operand as_type(const Operand& x, DataType is, DataType to) {
  return is == to ? x : x.body->cast(x, to);
}

/// Bytes of two numbers that stand side by side along the last of these dimensions.
Operand packed_pairs(BodyBuilder& body, const Operand& x, const Shape& pairs) {
  const Operands parts = body.split(body.reshape(x, pairs), 2, -1);
  const Operand high = body.op("BitShift", {parts[1], body.bytes(4)}, {{"direction", "LEFT"}});
  return body.reshape(body.op("BitwiseOr", {parts[0], high}),
                      Shape(pairs.begin(), pairs.end() - 1));
}

}  // namespace

CacheForm cache_form(const BodyBuilder& body, const std::string& part, std::int64_t heads,
                     std::int64_t depth) {
  const char* const other = part == "k" ? "v" : "k";
  const std::string quantised = quant_type_of(body, part);
  CacheForm form{part, heads, depth, body.type("query")};
  if (quantised == "NONE") {
    if (quant_type_of(body, other) != "NONE")
      fail(
          "its attribute '{0}_quant_type' is {1}, but '{2}_quant_type' is not: both caches are "
          "quantised or none",
          part, quantised, other);
    return form;
  }
  if (quantised != "PER_TENSOR" && quantised != "PER_CHANNEL")
    fail("its attribute '{}_quant_type' is {}, which is not supported", part, quantised);
  form.by_channel = quantised == "PER_CHANNEL";
  form.bits = body.int_attribute("kv_cache_bit_width", 0);
  if (form.bits != 8 && form.bits != 4)
    fail(
        "its attribute 'kv_cache_bit_width' is {}, which is not supported: quantised caches have "
        "8 or 4 bits",
        form.bits);
  if (form.bits == 4 && depth % 2 != 0)
    fail("its heads of {} elements do not fill bytes of two numbers", depth);
  check_cache(body, form);
  check_scale(body, form);
  return form;
}

Operand stored_rows(const CacheForm& form, const Operand& x, std::int64_t batch,
                    std::int64_t rows) {
  if (!form.is_quantised()) return x;
  BodyBuilder& body = *x.body;
  const Shape shape = form.by_channel ? Shape{form.heads * form.depth} : Shape{};
  const Operand scales = body.reshape(body[form.part + "_scale"], shape);
  const Operand numbers = as_type(x, form.computed, DataType::float32);
  if (form.bits == 8)
    return body.op("QuantizeLinear", {numbers, scales},
                   {{"axis", 2}, {"output_dtype", static_cast<std::int64_t>(DataType::int8)}});
  const Operand rounded = body.op(
      "QuantizeLinear", {numbers, scales, body.bytes(zero_of_4_bits, shape)}, {{"axis", 2}});
  const std::int64_t bytes = form.heads * form.width();
  return packed_pairs(body, body.op("Min", {rounded, body.bytes(15)}), {batch, rows, bytes, 2});
}

Operand numbers_in(const CacheForm& form, const Operand& cache, std::int64_t batch,
                   std::int64_t rows) {
  if (!form.is_quantised()) return cache;
  BodyBuilder& body = *cache.body;
  Operand steps = cache;
  if (form.bits == 4) steps = unpack_numbers(body, cache, {batch, form.heads, rows, form.depth}, 4);
  steps = body.cast(steps, DataType::float32);
  if (form.bits == 4) steps = steps - body.number(zero_of_4_bits);
  const Shape scales = form.by_channel ? Shape{1, form.heads, 1, form.depth} : Shape{};
  const Operand numbers = steps * body.reshape(body[form.part + "_scale"], scales);
  return as_type(numbers, DataType::float32, form.computed);
}

}  // namespace autopar::graph::microsoft
