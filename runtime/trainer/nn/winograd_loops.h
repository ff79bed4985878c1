#pragma once
// The transforms of Winograd's convolution F(4x4, 3x3), on one thread: Lavin & Gray 2016, "Fast
// Algorithms for Convolutional Neural Networks", section 4. For a tile of 4 x 4 outputs,
//   y = A^T ((G w G^T) * (B^T x B)) A,
// where x are the 6 x 6 inputs under the tile, w are the 3 x 3 weights, and * multiplies element by
// element. This takes 36 multiplications for each pair of channels, a direct sum 144.
//
// The matrices are those of the points 0, +-3/4, +-3/2 and infinity. With 256 channels, the largest
// error is 2e-6 of the largest value. With the paper's points 0, +-1 and +-2 it is 1e-5, and for a
// direct sum it is 5e-7.
//
// A transformed tile is 36 vectors of channels, each in its own plane of plane_size elements:
// element p of channel k is transformed[p * plane_size + k]. A tile's pixels are passed as one
// pointer per pixel, which points to the pixel's channels. All numbers are float32. Arrays do not
// overlap.

#include <array>
#include <cstddef>

namespace dlrun::trainer::loops {

/// Outputs of a tile in one direction.
inline constexpr std::size_t kTileOutputEdge = 4;
/// Inputs of a tile in one direction.
inline constexpr std::size_t kTileInputEdge = kTileOutputEdge + 3 - 1;
/// Number of planes: a transformed tile has this many elements for each channel, each in its own
/// plane.
inline constexpr std::size_t kPlanes = kTileInputEdge * kTileInputEdge;

/// For the Winograd functions below, `channels` and `pairs` must be multiples of this number.
inline constexpr std::size_t kWinogradLanes = 16;

using TileInputs = std::array<const float*, kTileInputEdge * kTileInputEdge>;
using TileOutputs = std::array<float*, kTileOutputEdge * kTileOutputEdge>;
using TileOutputGradients = std::array<const float*, kTileOutputEdge * kTileOutputEdge>;

/// Computes transformed = G w G^T for each pair of an input and an output channel. w:
/// [3 x 3 x pairs]. With is_reversed, reads the 3 x 3 positions in reverse order, for the gradient
/// of the inputs.
void winograd_weights(const float* w, std::size_t pairs, bool is_reversed, std::size_t plane_size,
                      float* transformed);
/// Computes transformed = B^T x B of a tile. Pixels outside of the image point to zeros.
void winograd_inputs(const TileInputs& x, std::size_t channels, std::size_t plane_size,
                     float* transformed);
/// Computes y = A^T transformed A of a tile. Pixels outside of the image point to memory that may
/// be overwritten.
void winograd_outputs(const float* transformed, std::size_t channels, std::size_t plane_size,
                      const TileOutputs& y);
/// Computes transformed = A dy A^T of a tile: the gradient through winograd_outputs.
void winograd_output_gradients(const TileOutputGradients& dy, std::size_t channels,
                               std::size_t plane_size, float* transformed);
/// Computes dw = G^T transformed G, [3 x 3 x pairs]: the gradient through winograd_weights.
void winograd_weight_gradients(const float* transformed, std::size_t pairs, std::size_t plane_size,
                               float* dw);

/// Computes y = y + bias for each row of channels, then max(y, 0) if with_relu. bias: [channels],
/// or nullptr for zeros; y: [rows x channels].
void add_bias(const float* bias, std::size_t rows, std::size_t channels, bool with_relu, float* y);

}  // namespace dlrun::trainer::loops
