#include "runtime/comm/host_list.h"

#include <string_view>

#include "base/error.h"

namespace autopar::runtime {

namespace {

constexpr std::string_view digits = "0123456789";

/// The first number of what stands in brackets, "01-03,07"; empty where that is no list of numbers.
std::string_view first_number(std::string_view ranges) {
  const bool is_list = ranges.find_first_not_of("0123456789-,") == std::string_view::npos;
  return is_list ? ranges.substr(0, ranges.find_first_not_of(digits)) : std::string_view();
}

}  // namespace

std::string first_host(const std::string& list) {
  const auto refuse = [&] { fail("'{}' is no list of hosts, such as node[01-03,07]", list); };
  std::string host;
  std::string_view rest = list;
  while (!rest.empty() && rest.front() != ',') {
    const std::size_t plain = rest.find_first_of(",[]");
    host += rest.substr(0, plain);
    rest.remove_prefix(plain == std::string_view::npos ? rest.size() : plain);
    if (rest.empty() || rest.front() == ',') break;
    const std::size_t end = rest.find(']');
    if (rest.front() == ']' || end == std::string_view::npos) refuse();
    const std::string_view number = first_number(rest.substr(1, end - 1));
    if (number.empty()) refuse();
    host += number;
    rest.remove_prefix(end + 1);
  }
  if (host.empty()) refuse();
  return host;
}

}  // namespace autopar::runtime
