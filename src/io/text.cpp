// Text helpers; the edit distance is optimal string alignment over two kept rows.
#include "io/text.hpp"

#include <algorithm>

namespace kan::io {

std::size_t utf8_size(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return at < text.size() ? 1 : 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(at + i) & 0xc0u) != 0x80u) return 0;
  const unsigned second = byte(at + 1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
    return 0;
  return size;
}

std::size_t ident_size(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return 0;
  std::size_t size = 1;
  while (size < text.size() && is_word(text[size])) ++size;
  return size;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string shown(std::string_view text, std::size_t limit) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8_size(text, at);
    if (result.size() + std::max<std::size_t>(size, 1) > limit) return result + "...";
    if (size == 0 || is_control(text[at]) || text[at] == '\t')
      result += size == 1 && text[at] == '\t' ? ' ' : '?';
    else
      result += text.substr(at, size);
    at += std::max<std::size_t>(size, 1);
  }
  return result;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string initials(std::string_view name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i)
    if (i == 0 || name[i - 1] == '_') result += name[i];
  return result;
}

}  // namespace

std::string_view nearest(std::string_view text,
                         const std::vector<std::string_view>& names) {
  constexpr std::size_t kLongest = 64;
  if (text.empty() || text.size() > kLongest) return {};
  const std::string small = lower(text);
  // A third of the letters may be wrong, so that short words are not matched at random.
  std::size_t best = std::max<std::size_t>(1, text.size() / 3) + 1;
  std::string_view result;
  for (std::string_view name : names) {
    std::size_t distance = edit_distance(small, lower(name));
    if (name.find('_') != std::string_view::npos && small == initials(name))
      distance = std::min<std::size_t>(distance, 1);
    if (distance < best) {
      best = distance;
      result = name;
    }
  }
  return result;
}

std::string did_you_mean(std::string_view text,
                         const std::vector<std::string_view>& names) {
  const std::string_view name = nearest(text, names);
  return name.empty() ? "" : " (did you mean '" + std::string(name) + "'?)";
}

std::string join(const std::vector<std::string_view>& items, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) result += separator;
    result += items[i];
  }
  return result;
}

}  // namespace kan::io
