#pragma once
// Makes SVG as text: elements, and the parts that all drawings share. No other file writes tags of
// SVG. Pure functions.

#include <initializer_list>
#include <string>
#include <string_view>

namespace dlrun::svg {

/// The value of an attribute: a text, which is escaped, or a coordinate with one decimal.
struct Value {
  std::string text;
  Value(double coordinate);           // NOLINT(google-explicit-constructor)
  Value(std::string_view unescaped);  // NOLINT(google-explicit-constructor)
  Value(const char* unescaped)
      : Value(std::string_view(unescaped)) {}  // NOLINT(google-explicit-constructor)
  Value(const std::string& unescaped)          // NOLINT(google-explicit-constructor)
      : Value(std::string_view(unescaped)) {}
};
/// Returns a coordinate without decimals.
[[nodiscard]] std::string whole(double coordinate);

struct Attribute {
  std::string_view name;
  Value value;
};
using Attributes = std::initializer_list<Attribute>;

/// Returns <NAME .../>, or <NAME ...>CONTENT</NAME>. `content` must be SVG. The attributes
/// keep their order.
[[nodiscard]] std::string element(std::string_view name, Attributes attributes);
[[nodiscard]] std::string element(std::string_view name, Attributes attributes,
                                  std::string_view content);
/// Returns <text ...>CONTENT</text>. Escapes `content`.
[[nodiscard]] std::string text(Attributes attributes, std::string_view content);

/// Returns one point of a polyline or a polygon: "X,Y ".
[[nodiscard]] std::string point(double x, double y);
/// Returns the value of the attribute `points`. points: joined results of point(); the last space
/// is removed.
[[nodiscard]] std::string point_list(std::string_view points);

/// Returns the position of a value between `low` and `high` on a logarithmic axis, from 0 to 1; 0.5
/// if the axis has no length.
[[nodiscard]] double log_position(double value, double low, double high);

/// Returns the beginning of a drawing that is a separate file: size, style, background and title.
/// style: CSS rules in addition to those for text, titles, grids and curves. left: x of the title.
[[nodiscard]] std::string beginning(double width, double height, std::string_view style,
                                    double left, std::string_view title);
/// Returns the end of a drawing that is a separate file.
[[nodiscard]] std::string end();

/// Returns a horizontal line of a grid, from `left` to `right`, with its label on its left.
[[nodiscard]] std::string grid_line(double left, double right, double y, std::string_view label);

}  // namespace dlrun::svg
