#include "graph/found_states.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "graph/state.h"

namespace autopar::graph {
namespace {

using Words = std::vector<std::string>;

enum class Letter { alphabetic, digit, none };

Letter kind_of(char letter) {
  const auto c = static_cast<unsigned char>(letter);
  if (std::isdigit(c) != 0) return Letter::digit;
  return std::isalpha(c) != 0 ? Letter::alphabetic : Letter::none;
}

/// Runs of letters, in lower case, and of digits: "Past_kv.10" has past, kv, 10.
Words words_of(const std::string& name) {
  Words words;
  Letter before = Letter::none;
  for (const char letter : name) {
    const Letter kind = kind_of(letter);
    if (kind != Letter::none) {
      if (kind != before) words.emplace_back();
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
    before = kind;
  }
  return words;
}

bool is_number(const std::string& word) { return kind_of(word.front()) == Letter::digit; }

/// What a state's input and its output have in common: the words of a name without the one that
/// marks it, and without what says "cache" behind that. nullopt where not one word is the mark.
std::optional<Words> unmarked(const std::string& name, const std::string& mark) {
  Words words = words_of(name);
  if (std::ranges::count(words, mark) != 1) return std::nullopt;
  const auto place = words.erase(std::ranges::find(words, mark));
  for (const Words& filler : {Words{"key", "values"}, Words{"kv", "cache"}, Words{"kv"},
                              Words{"cache"}}) {  // the longer ones first
    const auto length = std::ssize(filler);
    if (words.end() - place < length || !std::equal(filler.begin(), filler.end(), place)) continue;
    words.erase(place, place + length);
    break;
  }
  return words;
}

/// What all layers' names have in common.
Words without_numbers(Words words) {
  std::erase_if(words, is_number);
  return words;
}

/// Ports by what is left of their names without the mark. Those of which several leave the same
/// are left out: nothing tells which is meant.
std::map<Words, std::size_t> marked_ports(const Graph& graph, const std::vector<ValueId>& ports,
                                          const std::string& mark) {
  std::map<Words, std::size_t> found;
  std::set<Words> ambiguous;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const auto words = unmarked(graph.value(ports[i]).name, mark);
    if (words && !found.emplace(*words, i).second) ambiguous.insert(*words);
  }
  for (const Words& words : ambiguous) found.erase(words);
  return found;
}

bool fits(const Graph& graph, const State& state) {
  const Value& output = graph.value(graph.outputs[state.output]);
  const Value& input = graph.value(graph.inputs[state.input]);
  if (output.type != input.type || output.shape.size() != input.shape.size()) return false;
  int longer = 0;
  for (std::size_t d = 0; d < input.shape.size(); ++d) {
    if (output.shape[d] < input.shape[d]) return false;
    longer += output.shape[d] > input.shape[d] ? 1 : 0;
  }
  return longer <= 1;
}

/// The name, with a star in the place of its first number.
std::string starred(const std::string& name) {
  const auto is_digit = [](char letter) { return kind_of(letter) == Letter::digit; };
  const auto first = std::ranges::find_if(name, is_digit);
  if (first == name.end()) return name;
  const auto last = std::find_if_not(first, name.end(), is_digit);
  return std::string(name.begin(), first) + "*" + std::string(last, name.end());
}

}  // namespace

std::vector<State> find_states(const Graph& graph) {
  const auto outputs = marked_ports(graph, graph.outputs, "present");
  const auto inputs = marked_ports(graph, graph.inputs, "past");
  std::vector<State> states;
  std::set<Words> unfit;  // what layers have in common of which one does not fit
  std::map<std::size_t, Words> alike;
  for (const auto& [words, output] : outputs) {
    const auto input = inputs.find(words);
    if (input == inputs.end()) continue;
    const State state{output, input->second};
    alike[output] = without_numbers(words);
    if (!fits(graph, state)) unfit.insert(alike[output]);
    states.push_back(state);
  }
  std::erase_if(states, [&](const State& state) { return unfit.contains(alike.at(state.output)); });
  std::ranges::sort(states, {}, &State::output);
  return states;
}

std::vector<std::string> state_patterns(const Graph& graph) {
  std::vector<std::string> patterns;
  for (const State& state : graph.states) {
    const std::string pattern = starred(graph.value(graph.outputs[state.output]).name) + "=" +
                                starred(graph.value(graph.inputs[state.input]).name);
    if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(pattern);
  }
  return patterns;
}

}  // namespace autopar::graph
