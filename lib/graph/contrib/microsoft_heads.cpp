#include "graph/contrib/microsoft_heads.h"

#include "base/error.h"

namespace autopar::graph::microsoft {

void refuse_input(const BodyBuilder& body, std::string_view input) {
  if (body.has(input)) fail("its input '{}' is not supported", input);
}

void refuse_attribute(const BodyBuilder& body, std::string_view name, std::int64_t usual) {
  if (body.int_attribute(name, usual) != usual)
    fail("its attribute '{}' is {}, which is not supported", name, body.int_attribute(name, usual));
}

void split_heads(BodyBuilder& body, const std::string& from, const std::string& to, Shape split) {
  body.write(
      "{0}_split = Reshape ({1}, {2}) {0} = Transpose <perm = [0, 2, 1, 3]> "
      "({0}_split)",
      to, from, body.ints(split));
}

void split_last(BodyBuilder& body, const std::string& from, const Names& to,
                const std::vector<std::int64_t>& sizes) {
  body.add("Split", {from, body.ints(sizes)}, to);
  body.set("axis", std::int64_t{-1});
}

void attend(BodyBuilder& body, const Heads& of, const Names& presents) {
  Names inputs{of.q, of.k, of.v, of.mask, of.past_k, of.past_v, of.lengths};
  while (inputs.back().empty()) inputs.pop_back();
  Names outputs{of.four_dimensions ? "attended" : "output"};
  outputs.insert(outputs.end(), presents.begin(), presents.end());
  body.add("Attention", inputs, outputs);
  if (!of.four_dimensions) {
    body.set("q_num_heads", of.heads);
    body.set("kv_num_heads", of.key_heads);
  }
  // A scale of 0 is ONNX Runtime's default.
  if (body.float_attribute("scale", 0) != 0) body.pass_attributes({"scale"});
  if (of.causal) body.set("is_causal", std::int64_t{1});
  if (of.softcap != 0) body.set("softcap", of.softcap);
  if (of.left_window >= 0) body.set("left_window_size", of.left_window);
  if (of.four_dimensions)
    body.write(
        "rows = Transpose <perm = [0, 2, 1, 3]> (attended) "
        "output = Reshape (rows, {})",
        body.ints({of.batch, of.queries, of.heads * of.value_depth}));
}

void add_presents(BodyBuilder& body, const Heads& of) {
  const auto present = [&](const std::string& name, const std::string& from, std::int64_t depth) {
    if (!body.wants(name)) return;
    if (of.four_dimensions)
      body.write("{} = Identity ({})", name, from);
    else
      split_heads(body, from, name, {of.batch, of.keys, of.key_heads, depth});
  };
  present("present_key", of.k, of.depth);
  present("present_value", of.v, of.value_depth);
}

}  // namespace autopar::graph::microsoft
