#pragma once

#include <zlib.h>

#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autopar {

/// Reads JSON from a file, gzipped or not, token by token. Instances are lists of tens of millions
/// of integers: no tree of values is made of them. Errors name the file and the byte.
class JsonScanner {
 public:
  explicit JsonScanner(const std::string& path);
  ~JsonScanner();
  JsonScanner(const JsonScanner&) = delete;
  JsonScanner& operator=(const JsonScanner&) = delete;

  /// Reads an object and calls `member(key)` for each of its members, which must read the value.
  template <typename Member>
  void object(const Member& member) {
    sequence('{', '}', [&] {
      const std::string key = string();
      expect(':');
      member(key);
    });
  }
  /// Reads an array and calls `element()` for each of its elements, which must read it.
  template <typename Element>
  void array(const Element& element) {
    sequence('[', ']', element);
  }
  std::int64_t integer();
  std::vector<std::int64_t> integers();
  void skip();  ///< a value of any kind
  void end();   ///< nothing may follow
  [[noreturn]] void refuse(std::string_view problem) const;

 private:
  template <typename Item>
  void sequence(char open, char close, const Item& item) {
    expect(open);
    if (take(close)) return;
    do item();
    while (take(','));
    expect(close);
  }
  std::string string();
  void expect(char token);
  bool take(char token);  ///< reads it if it is next, white space before it in any case
  int peek() { return next_ < filled_ || fill() ? buffer_[next_] : end_of_file; }
  bool fill();
  void read_ahead();

  static constexpr int end_of_file = -1;
  std::string path_;
  gzFile file_;
  std::vector<unsigned char> buffer_;
  std::vector<unsigned char> ahead_;              ///< unpacked while the buffer is parsed
  std::future<std::pair<int, int>> count_ahead_;  ///< of its bytes; and errno
  std::vector<std::int64_t> values_;              ///< of the array that is read
  std::size_t next_ = 0;
  std::size_t filled_ = 0;
  std::size_t bytes_before_ = 0;  ///< those of the file before the buffer
  int depth_ = 0;                 ///< of skipped values
};

}  // namespace autopar
