#include "launcher/drawing/svg.h"

#include <cmath>

#include <fmt/core.h>

#include "launcher/drawing/escape.h"

namespace dlrun::svg {

Value::Value(double coordinate) : text(fmt::format("{:.1f}", coordinate)) {}
Value::Value(std::string_view unescaped) : text(escape_html(unescaped)) {}

std::string whole(double coordinate) {
  return fmt::format("{:.0f}", coordinate);
}

namespace {

std::string opening(std::string_view name, Attributes attributes) {
  std::string tag = fmt::format("<{}", name);
  for (const Attribute& one : attributes)
    tag += fmt::format(" {}=\"{}\"", one.name, one.value.text);
  return tag;
}

}  // namespace

std::string element(std::string_view name, Attributes attributes) {
  return opening(name, attributes) + "/>";
}

std::string element(std::string_view name, Attributes attributes, std::string_view content) {
  return fmt::format("{}>{}</{}>", opening(name, attributes), content, name);
}

std::string text(Attributes attributes, std::string_view content) {
  return element("text", attributes, escape_html(content));
}

std::string point(double x, double y) {
  return fmt::format("{:.1f},{:.1f} ", x, y);
}

std::string point_list(std::string_view points) {
  return std::string(points.substr(0, points.find_last_not_of(' ') + 1));
}

double log_position(double value, double low, double high) {
  return high > low ? (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low))
                    : 0.5;
}

std::string beginning(double width, double height, std::string_view style, double left,
                      std::string_view title) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
             "width=\"{0:.0f}\" height=\"{1:.0f}\">\n"
             "<style>text{{font:12px sans-serif;fill:#333}} .title{{font-weight:bold}} "
             ".grid{{stroke:#ddd}} polyline{{fill:none;stroke-width:2}}{2}</style>\n",
             width, height, style) +
         element("rect", {{"width", "100%"}, {"height", "100%"}, {"fill", "#fff"}}) + "\n" +
         text({{"x", whole(left)}, {"y", "20"}, {"class", "title"}}, title) + "\n";
}

std::string end() {
  return "</svg>\n";
}

std::string grid_line(double left, double right, double y, std::string_view label) {
  return element("line", {{"x1", left}, {"x2", right}, {"y1", y}, {"y2", y}, {"class", "grid"}}) +
         "\n" + text({{"x", left - 6}, {"y", y + 4}, {"text-anchor", "end"}}, label) + "\n";
}

}  // namespace dlrun::svg
