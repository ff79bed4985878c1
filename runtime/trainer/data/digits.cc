// A digit is a set of strokes in the unit square. A random affine map moves them into the image, a
// round pen draws them, and noise is added.

#include "runtime/trainer/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace dlrun::trainer {
namespace {

/// A point in the unit square; x points right, y down.
struct Point {
  double x = 0;
  double y = 0;
};

using Stroke = std::vector<Point>;  ///< a polyline

/// Appends an arc of an ellipse; angles in degrees, 0 is right, 90 is down.
void add_arc(Stroke& stroke, Point centre, double radius_x, double radius_y, double from,
             double to) {
  constexpr int kSteps = 12;
  for (int i = 0; i <= kSteps; ++i) {
    const double angle = (from + (to - from) * i / kSteps) * std::numbers::pi / 180;
    stroke.push_back(
        {centre.x + radius_x * std::cos(angle), centre.y + radius_y * std::sin(angle)});
  }
}

/// Returns the strokes of a handwritten digit. If people write the digit in several forms, picks a
/// form at random.
std::vector<Stroke> strokes_of(int digit, Random& random) {
  std::vector<Stroke> strokes(1);
  Stroke& main_stroke = strokes[0];
  const double bend = random.uniform(-0.06, 0.06);
  switch (digit) {
    case 0:
      add_arc(main_stroke, {0.5, 0.5}, 0.26 + bend, 0.38, -90, 270);
      break;
    case 1:
      if (random.uniform() < 0.5) main_stroke.push_back({0.36 + bend, 0.28});
      main_stroke.push_back({0.52, 0.12});
      main_stroke.push_back({0.52 + bend, 0.88});
      if (random.uniform() < 0.25) strokes.push_back({{0.36, 0.88}, {0.68, 0.88}});
      break;
    case 2:
      add_arc(main_stroke, {0.5, 0.34}, 0.24, 0.22, -170, 30);
      main_stroke.push_back({0.27 + bend, 0.87});
      main_stroke.push_back({0.76, 0.86});
      break;
    case 3:
      add_arc(main_stroke, {0.48, 0.31}, 0.22, 0.19 + bend / 2, -150, 90);
      add_arc(main_stroke, {0.48, 0.69}, 0.25, 0.19 - bend / 2, -90, 150);
      break;
    case 4:
      if (random.uniform() < 0.5) {  // open form
        main_stroke = {{0.32, 0.14}, {0.26 + bend, 0.54}, {0.76, 0.54}};
        strokes.push_back({{0.64, 0.2}, {0.62 + bend, 0.88}});
      } else {  // closed form
        main_stroke = {{0.62, 0.88}, {0.62 + bend, 0.12}, {0.24, 0.6}, {0.78, 0.6}};
      }
      break;
    case 5:
      main_stroke = {{0.72, 0.13}, {0.36 + bend, 0.13}, {0.32, 0.45}};
      add_arc(main_stroke, {0.47, 0.63}, 0.25, 0.23, -120, 140);
      break;
    case 6:
      main_stroke = {{0.66, 0.12}, {0.42 + bend, 0.34}, {0.29, 0.62}};
      add_arc(main_stroke, {0.5, 0.67}, 0.22, 0.2, 180, 530);
      break;
    case 7:
      main_stroke = {{0.24, 0.15}, {0.75, 0.15}, {0.44 + bend, 0.88}};
      if (random.uniform() < 0.3) strokes.push_back({{0.38, 0.52}, {0.72, 0.5}});
      break;
    case 8:
      add_arc(main_stroke, {0.5, 0.31}, 0.19, 0.18 + bend / 2, 90, 450);
      add_arc(main_stroke, {0.5, 0.69}, 0.23, 0.2 - bend / 2, -90, 270);
      break;
    default:  // 9
      add_arc(main_stroke, {0.48, 0.34}, 0.21, 0.21, 0, 350);
      main_stroke.push_back({0.69, 0.34});
      main_stroke.push_back({0.6 + bend, 0.88});
      break;
  }
  return strokes;
}

/// Returns the distance of p from the segment a-b.
double distance(Point p, Point a, Point b) {
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double squared_length = dx * dx + dy * dy;
  // The nearest point of the segment is a + part * (b - a).
  const double part =
      squared_length == 0
          ? 0
          : std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / squared_length, 0.0, 1.0);
  return std::hypot(p.x - a.x - part * dx, p.y - a.y - part * dy);
}

}  // namespace

void draw_digit(int digit, Random& random,
                std::span<std::uint8_t, kDigitSize * kDigitSize> pixels) {
  constexpr int kSize = static_cast<int>(kDigitSize);
  std::vector<Stroke> strokes = strokes_of(digit, random);

  // Choose one affine map for the image at random: size, slant, rotation and position. Lengths are
  // in pixels.
  const double width = random.uniform(17, 24);
  const double height = random.uniform(18, 25);
  const double slant = random.uniform(-0.3, 0.3);
  const double angle = random.uniform(-14, 14) * std::numbers::pi / 180;
  const Point centre{kSize / 2.0 + random.uniform(-2.2, 2.2),
                     kSize / 2.0 + random.uniform(-2.2, 2.2)};
  const double radius = random.uniform(0.7, 1.5);  // of the pen
  const double ink = random.uniform(170, 255);
  const double noise = random.uniform(4, 26);

  for (Stroke& stroke : strokes) {
    for (Point& point : stroke) {
      const double x = (point.x - 0.5 + random.uniform(-0.018, 0.018)) * width;
      const double y = (point.y - 0.5 + random.uniform(-0.018, 0.018)) * height;
      const double slanted_x = x - slant * y;
      point = {centre.x + slanted_x * std::cos(angle) - y * std::sin(angle),
               centre.y + slanted_x * std::sin(angle) + y * std::cos(angle)};
    }
  }

  // The coverage of a pixel falls linearly over one pixel at the pen's edge. Only pixels near a
  // segment are computed.
  std::array<double, kDigitSize * kDigitSize> coverage{};
  const double reach = radius + 0.5;
  for (const Stroke& stroke : strokes) {
    for (std::size_t i = 1; i < stroke.size(); ++i) {
      const Point a = stroke[i - 1];
      const Point b = stroke[i];
      const auto clip = [](double pixel) {
        return std::clamp(static_cast<int>(pixel), 0, kSize - 1);
      };
      for (int row = clip(std::min(a.y, b.y) - reach); row <= clip(std::max(a.y, b.y) + reach);
           ++row) {
        for (int column = clip(std::min(a.x, b.x) - reach);
             column <= clip(std::max(a.x, b.x) + reach); ++column) {
          double& here = coverage[static_cast<std::size_t>(row * kSize + column)];
          here = std::max(here,
                          std::clamp(reach - distance({column + 0.5, row + 0.5}, a, b), 0.0, 1.0));
        }
      }
    }
  }
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    // The sum of three uniform numbers approximates a normal distribution.
    const double speckle = noise * (random.uniform() + random.uniform() + random.uniform() - 1.5);
    pixels[i] = static_cast<std::uint8_t>(std::clamp(ink * coverage[i] + speckle, 0.0, 255.0));
  }
}

}  // namespace dlrun::trainer
