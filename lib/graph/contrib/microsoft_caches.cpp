#include "graph/contrib/microsoft_caches.h"

#include "base/error.h"
#include "graph/contrib/packed_numbers.h"

namespace autopar::graph::microsoft {
namespace {

constexpr std::uint8_t zero_of_4_bits = 8;

DataType stored_type(std::int64_t bits) { return bits == 4 ? DataType::uint8 : DataType::int8; }

std::string scale_of(const CacheForm& form) { return form.part + "_scale"; }

std::string quant_type_of(const BodyBuilder& body, std::string_view part) {
  return body.string_attribute(fmt::format("{}_quant_type", part), "NONE");
}

void check_cache(const BodyBuilder& body, const CacheForm& form) {
  const std::string past = form.part == "k" ? "past_key" : "past_value";
  if (!body.has(past)) return;
  if (body.type(past) != stored_type(form.bits))
    fail("its {} is {}, which is not supported: numbers of {} bits are {}", past,
         name_of(body.type(past)), form.bits, name_of(stored_type(form.bits)));
  if (body.shape(past).size() != 4 || body.shape(past)[3] != form.width())
    fail("its {} {} does not hold {} numbers of {} bits a head", past, to_string(body.shape(past)),
         form.depth, form.bits);
}

void check_scale(const BodyBuilder& body, const CacheForm& form) {
  const std::string scale = scale_of(form);
  if (!body.has(scale)) fail("its cache is quantised, but it has no input '{}'", scale);
  const std::int64_t expected = form.by_channel ? form.heads * form.depth : 1;
  if (num_elements(body.shape(scale)) != expected)
    fail("its {} {} does not have {} numbers, which its {}_quant_type asks for", scale,
         to_string(body.shape(scale)), expected, form.part);
}

std::string filled(BodyBuilder& body, const Shape& shape, std::uint8_t value) {
  const std::vector<std::uint8_t> values(static_cast<std::size_t>(num_elements(shape)), value);
  return body.constant(Tensor::of<std::uint8_t>(DataType::uint8, shape, values));
}

std::string as_type(BodyBuilder& body, const std::string& from, DataType is, DataType to) {
  if (is == to) return from;
  std::string name = fmt::format("{}_{}", from, name_of(to));
  body.write("{} = Cast <to = {}> ({})", name, static_cast<int>(to), from);
  return name;
}

/// Bytes of two numbers that stand side by side along the last dimension of [batch, rows, numbers].
void pack_pairs(BodyBuilder& body, const std::string& from, const std::string& to,
                const Shape& pairs, const Shape& packed) {
  body.write(
      "{0}_pairs = Reshape ({0}, {1}) "
      "{0}_low, {0}_high = Split <axis = -1, num_outputs = 2> ({0}_pairs) "
      "{0}_shifted = BitShift <direction = \"LEFT\"> ({0}_high, {2}) "
      "{0}_bytes = BitwiseOr ({0}_low, {0}_shifted) {3} = Reshape ({0}_bytes, {4})",
      from, body.ints(pairs), filled(body, {}, 4), to, body.ints(packed));
}

}  // namespace

CacheForm cache_form(const BodyBuilder& body, std::string_view part, std::int64_t heads,
                     std::int64_t depth) {
  const std::string_view other = part == "k" ? "v" : "k";
  const std::string quantised = quant_type_of(body, part);
  CacheForm form{std::string(part), heads, depth, body.type("query")};
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

std::string stored_rows(BodyBuilder& body, const CacheForm& form, const std::string& from,
                        std::int64_t batch, std::int64_t rows) {
  if (!form.is_quantised()) return from;
  const Shape scales = form.by_channel ? Shape{form.heads * form.depth} : Shape{};
  std::string stored = fmt::format("{}_stored", form.part);
  body.write("{0}_scales = Reshape ({0}_scale, {1})", form.part, body.ints(scales));
  std::vector<std::string> inputs{as_type(body, from, form.computed, DataType::float32),
                                  form.part + "_scales"};
  if (form.bits == 8) {
    body.add("QuantizeLinear", inputs, {stored});
    body.set("axis", std::int64_t{2});
    body.set("output_dtype", static_cast<std::int64_t>(DataType::int8));
    return stored;
  }
  const std::string rounded = fmt::format("{}_rounded", form.part);
  inputs.push_back(filled(body, scales, zero_of_4_bits));
  body.add("QuantizeLinear", inputs, {rounded});
  body.set("axis", std::int64_t{2});
  body.write("{0}_numbers = Min ({0}_rounded, {1})", form.part, filled(body, {}, 15));
  const std::int64_t bytes = form.heads * form.width();
  pack_pairs(body, form.part + "_numbers", stored, {batch, rows, bytes, 2}, {batch, rows, bytes});
  return stored;
}

std::string numbers_in(BodyBuilder& body, const CacheForm& form, const std::string& cache,
                       std::int64_t batch, std::int64_t rows) {
  if (!form.is_quantised()) return cache;
  std::string steps = cache + "_steps";
  if (form.bits == 8) {
    body.write("{} = Cast <to = 1> ({})", steps, cache);
  } else {
    unpack_numbers(body, cache, cache + "_unpacked", {batch, form.heads, rows, form.depth}, 4);
    body.write("{0}_from_0 = Cast <to = 1> ({0}_unpacked) {1} = Sub ({0}_from_0, {2})", cache,
               steps, body.number(zero_of_4_bits, DataType::float32));
  }
  const Shape scales = form.by_channel ? Shape{1, form.heads, 1, form.depth} : Shape{};
  const std::string numbers = cache + "_numbers";
  body.write("{0}_scales = Reshape ({1}, {2}) {3} = Mul ({4}, {0}_scales)", cache, scale_of(form),
             body.ints(scales), numbers, steps);
  return as_type(body, numbers, DataType::float32, form.computed);
}

}  // namespace autopar::graph::microsoft
