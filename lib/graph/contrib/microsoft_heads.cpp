#include "graph/contrib/microsoft_heads.h"

namespace autopar::graph::microsoft {

Operand split_heads(const Operand& x, const Shape& split) {
  return x.body->op("Transpose", {x.body->reshape(x, split)}, {{"perm", Ints{0, 2, 1, 3}}});
}

Operands attend(BodyBuilder& body, const Heads& of) {
  Attributes attributes;
  if (!of.four_dimensions) attributes = {{"q_num_heads", of.heads}, {"kv_num_heads", of.key_heads}};
  // A scale of 0 is ONNX Runtime's default.
  const float scale = body.float_attribute("scale", 0);
  if (scale != 0) attributes["scale"] = scale;
  if (of.causal) attributes["is_causal"] = std::int64_t{1};
  if (of.softcap != 0) attributes["softcap"] = of.softcap;
  if (of.left_window >= 0) attributes["left_window_size"] = of.left_window;
  Operands made =
      body.ops("Attention", {of.q, of.k, of.v, of.mask, of.past_k, of.past_v, of.lengths},
               of.past_k ? 3 : 1, attributes);
  Operand attended = made[0];
  made.erase(made.begin());
  if (of.four_dimensions)
    attended = body.reshape(body.op("Transpose", {attended}, {{"perm", Ints{0, 2, 1, 3}}}),
                            {of.batch, of.queries, of.heads * of.value_depth});
  body.output("output", attended);
  return made;
}

void add_presents(BodyBuilder& body, const Heads& of) {
  const auto present = [&](const char* name, const Operand& from, std::int64_t depth) {
    if (!body.wants(name)) return;
    const Shape split{of.batch, of.keys, of.key_heads, depth};
    body.output(name, of.four_dimensions ? from : split_heads(from, split));
  };
  present("present_key", of.k, of.depth);
  present("present_value", of.v, of.value_depth);
}

Operand quantisation_parameter(BodyBuilder& body, const std::string& name) {
  const bool is_vector = body.has(name) && !body.shape(name).empty();
  if (!is_vector || num_elements(body.shape(name)) != 1) return body[name];
  return body.reshape(body[name], {});
}

}  // namespace autopar::graph::microsoft
