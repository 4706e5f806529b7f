#include "graph/onnx/operands/operand_form.h"

#include <algorithm>
#include <charconv>

#include "graph/onnx/attribute_proto.h"

namespace autopar::graph {
namespace {

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

const Shape* shape_of(const NodeInContext& context, std::size_t input) {
  const bool given = input < context.inputs.size() && context.inputs[input] != nullptr;
  return given ? &context.inputs[input]->shape : nullptr;
}

std::int64_t rank_of_first(const NodeInContext& context) {
  const Shape* shape = shape_of(context, 0);
  return shape == nullptr ? 0 : std::ssize(*shape);
}

/// `2`, `@axis` or `@axis+1` as a place in a shape; nullopt where it has none such.
std::optional<std::size_t> place_in(const NodeInContext& context, const Shape& shape,
                                    std::string_view text) {
  const auto plus = text.find('+');
  const std::int64_t offset = plus == text.npos ? 0 : *number_in(text.substr(plus + 1));
  text = text.substr(0, plus);
  const auto rank = std::ssize(shape);
  std::int64_t place =
      text[0] == '@' ? attribute_or_default(context, text.substr(1)) : *number_in(text);
  if (place < -rank || place >= rank) return std::nullopt;
  if (place < 0) place += rank;
  return static_cast<std::size_t>(place + offset);
}

/// `0[...]` in its parts: the input, and what stands in the brackets.
struct Reference {
  const Shape* shape = nullptr;
  std::string_view inside;
};

std::optional<Reference> reference_in(const NodeInContext& context, std::string_view text) {
  const auto bracket = text.find('[');
  if (bracket == text.npos) return std::nullopt;
  const auto input = static_cast<std::size_t>(*number_in(text.substr(0, bracket)));
  return Reference{shape_of(context, input), text.substr(bracket + 1, text.size() - bracket - 2)};
}

/// One dimension that is wanted: an extent, or a name that is not known yet times a number.
struct Wanted {
  std::optional<std::int64_t> extent;
  bool is_any = false;
  std::string name;
  std::int64_t times = 1;
};

/// nullopt where the factor is a name not known yet, or is of an input that is left out.
std::optional<std::int64_t> factor(const NodeInContext& context, std::string_view text,
                                   const FormNames& names) {
  if (const auto slash = text.find('/'); slash != text.npos) {
    const auto above = factor(context, text.substr(0, slash), names);
    const auto below = factor(context, text.substr(slash + 1), names);
    if (!above || !below || *below <= 0 || *above < 0) return -1;  // no extent
    return *above / *below + (*above % *below == 0 ? 0 : 1);
  }
  if (const auto number = number_in(text)) return number;
  if (text[0] == '@') return attribute_or_default(context, text.substr(1));
  if (text[0] == '#') {
    const auto* list = find_attribute(context.node, std::string(text.substr(1)));
    return list == nullptr ? rank_of_first(context) : list->ints_size();
  }
  if (text == "rank") return rank_of_first(context);
  if (text == "outputs") return context.node.output_size();
  if (const auto reference = reference_in(context, text)) {
    if (reference->shape == nullptr) return std::nullopt;
    const auto place = place_in(context, *reference->shape, reference->inside);
    // No extent is below 0: nothing fits.
    return place && *place < reference->shape->size() ? (*reference->shape)[*place] : -1;
  }
  const auto known = names.find(text);
  return known == names.end() ? std::nullopt : std::optional(known->second);
}

bool is_name(std::string_view text) {
  return text.find_first_of("@#[/") == text.npos && !number_in(text);
}

/// A product. One beyond 64 bits is no extent.
Wanted wanted_of(const NodeInContext& context, std::string_view term, const FormNames& names) {
  constexpr std::int64_t nothing = -1;
  if (term == "_") return {.extent = std::nullopt, .is_any = true, .name = {}};
  Wanted wanted;
  for (const std::string_view each : parts_of(term, '*')) {
    const auto known = factor(context, each, names);
    if (!known && is_name(each) && wanted.name.empty())
      wanted.name = each;
    else if (!known)
      return {.extent = std::nullopt, .is_any = true, .name = {}};
    else if (__builtin_mul_overflow(wanted.times, *known, &wanted.times))
      return {.extent = nothing, .name = {}};
  }
  if (wanted.name.empty()) wanted.extent = wanted.times;
  return wanted;
}

bool matches(std::int64_t extent, const Wanted& wanted, FormNames& names) {
  if (wanted.is_any) return true;
  if (wanted.extent) return *wanted.extent == extent;
  if (wanted.times <= 0 || extent % wanted.times != 0) return false;
  names.insert_or_assign(wanted.name, extent / wanted.times);
  return true;
}

/// Appends `0[:]`, `0[:@axis]` or `0[@axis:]`; false where the term is no range, or the shape has
/// no such place, of which nothing fits.
bool append_range(const NodeInContext& context, std::string_view term, std::vector<Wanted>& dims) {
  const auto reference = reference_in(context, term);
  const auto colon = reference ? reference->inside.find(':') : std::string_view::npos;
  if (colon == std::string_view::npos) return false;
  static const Shape none;
  const Shape& shape = reference->shape == nullptr ? none : *reference->shape;
  const std::string_view from = reference->inside.substr(0, colon);
  const std::string_view to = reference->inside.substr(colon + 1);
  const auto begin = from.empty() ? std::optional<std::size_t>(0) : place_in(context, shape, from);
  const auto end = to.empty() ? std::optional(shape.size()) : place_in(context, shape, to);
  if (!begin || !end) {
    dims.push_back({.extent = -1, .name = {}});
    return true;
  }
  for (std::size_t d = *begin; d < *end; ++d) dims.push_back({.extent = shape[d], .name = {}});
  return true;
}

std::vector<std::string_view> terms_of(std::string_view text) {
  std::vector<std::string_view> terms;
  for (const std::string_view term : parts_of(text, ' '))
    if (!term.empty()) terms.push_back(term);
  return terms;
}

/// Terms as dimensions. Names are told from left to right: each dimension is matched before the
/// next is read.
class Dimensions {
 public:
  Dimensions(const NodeInContext& context, FormNames& names) : context_(context), names_(names) {}

  /// Matches the terms with as many extents from `begin` on; where they end, or nullopt.
  std::optional<std::size_t> match(std::span<const std::string_view> terms, const Shape& shape,
                                   std::size_t begin) {
    for (const std::string_view term : terms) {
      std::vector<Wanted> dims;
      if (!append_range(context_, term, dims)) dims.push_back(wanted_of(context_, term, names_));
      for (const Wanted& wanted : dims) {
        if (begin == shape.size() || !matches(shape[begin], wanted, names_)) return std::nullopt;
        ++begin;
      }
    }
    return begin;
  }

  std::vector<Wanted> all(std::span<const std::string_view> terms) const {
    std::vector<Wanted> dims;
    for (const std::string_view term : terms)
      if (!append_range(context_, term, dims)) dims.push_back(wanted_of(context_, term, names_));
    return dims;
  }

 private:
  const NodeInContext& context_;
  FormNames& names_;
};

bool broadcasts(const NodeInContext& context, const Shape& shape,
                std::span<const std::string_view> terms, FormNames& names) {
  const std::vector<Wanted> dims = Dimensions(context, names).all(terms);
  if (shape.size() > dims.size()) return false;
  return std::equal(shape.rbegin(), shape.rend(), dims.rbegin(),
                    [&](std::int64_t extent, const Wanted& wanted) {
                      return extent == 1 || !wanted.extent || *wanted.extent == extent;
                    });
}

bool has_dimensions(const NodeInContext& context, const Shape& shape,
                    std::span<const std::string_view> terms, FormNames& names) {
  const auto dots = static_cast<std::size_t>(std::ranges::find(terms, "...") - terms.begin());
  Dimensions dimensions(context, names);
  const auto front = dimensions.match(terms.first(dots), shape, 0);
  if (!front) return false;
  if (dots == terms.size()) return *front == shape.size();
  // Behind the dots there are no ranges: a dimension a term.
  const auto behind = terms.subspan(dots + 1);
  if (shape.size() < *front + behind.size()) return false;
  return dimensions.match(behind, shape, shape.size() - behind.size()).has_value();
}

bool fits_alternative(const NodeInContext& context, const Shape& shape, std::string_view text,
                      FormNames& names) {
  if (text == "*") return true;
  if (text == "one") return num_elements(shape) == 1;
  if (text == "()") return shape.empty();
  if (text.starts_with("...@")) return place_in(context, shape, text.substr(3)).has_value();
  const bool is_broadcast = text.starts_with('~');
  const auto terms = terms_of(is_broadcast ? text.substr(1) : text);
  return is_broadcast ? broadcasts(context, shape, terms, names)
                      : has_dimensions(context, shape, terms, names);
}

}  // namespace

std::int64_t attribute_or_default(const NodeInContext& context, std::string_view name) {
  if (const auto* given = find_attribute(context.node, std::string(name))) return given->i();
  const auto& declared = context.schema->attributes();
  const auto found = declared.find(std::string(name));
  return found == declared.end() ? 0 : found->second.default_value.i();
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

bool fits_form(const NodeInContext& context, std::size_t input, std::string_view form,
               FormNames& names) {
  const Shape& shape = *shape_of(context, input);
  return std::ranges::any_of(parts_of(form, '|'), [&](std::string_view alternative) {
    FormNames tried = names;
    if (!fits_alternative(context, shape, alternative, tried)) return false;
    names = std::move(tried);
    return true;
  });
}

}  // namespace autopar::graph
