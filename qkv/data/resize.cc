#include "qkv/data/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/data/image_limits.h"

namespace qkv::data {
namespace {

constexpr int kWeightBits = 22;  // of an int32: 8 bits for the pixel, 2 for sums beyond 255

struct Kernel {
  double radius;
  double (*at)(double distance);
};

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

Kernel kernel_of(Resampling resampling) {
  switch (resampling) {
    case Resampling::nearest:
    case Resampling::box:
      return {0.5, [](double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }};
    case Resampling::bilinear:
      return {1, [](double x) { return std::max(1 - std::abs(x), 0.0); }};
    case Resampling::hamming:
      return {1, [](double x) {
                return std::abs(x) < 1 ? sinc(x) * (0.54 + 0.46 * std::cos(x * std::numbers::pi)) : 0.0;
              }};
    case Resampling::bicubic:  // Keys 1981, with a = -1/2
      return {2, [](double x) {
                constexpr double a = -0.5;
                const double d = std::abs(x);
                if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
                return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0.0;
              }};
    case Resampling::lanczos:
      return {3, [](double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0.0; }};
  }
  throw UsageError(
      concat("resize: expected a resampling filter from 0 to 5, found ", static_cast<int>(resampling)));
}

// The source pixels of one target pixel, and their weights.
struct Window {
  int64_t begin = 0;             // first source pixel
  std::vector<int32_t> weights;  // in units of 2^-kWeightBits
};

// Some of the rows or columns of a resized image.
struct Slice {
  int64_t begin, size;
};

std::vector<Window> windows_of(int64_t from, int64_t to, const Kernel& kernel, const Slice& part) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0), radius = kernel.radius * stretch, shrink = 1 / stretch;
  std::vector<Window> windows(static_cast<size_t>(part.size));
  std::vector<double> values;
  for (int64_t i = part.begin; i < part.begin + part.size; ++i) {
    Window& window = windows[static_cast<size_t>(i - part.begin)];
    const double center = (static_cast<double>(i) + 0.5) * scale;
    window.begin = std::max<int64_t>(static_cast<int64_t>(center - radius + 0.5), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + radius + 0.5), from);
    values.clear();
    double sum = 0;
    for (int64_t k = window.begin; k < end; ++k) {
      values.push_back(kernel.at((static_cast<double>(k) - center + 0.5) * shrink));
      sum += values.back();
    }
    for (const double value : values) {
      const double share = sum != 0 ? value / sum : value;
      const double units = share * (1 << kWeightBits);
      window.weights.push_back(static_cast<int32_t>(units < 0 ? units - 0.5 : units + 0.5));
    }
  }
  return windows;
}

uint8_t rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

// `from`: the window's first pixel; `step`: distance between pixels in bytes.
void weigh(const Window& window, const uint8_t* from, int64_t step, uint8_t* to) {
  constexpr int32_t kHalf = 1 << (kWeightBits - 1);
  int32_t red = kHalf, green = kHalf, blue = kHalf;
  for (const int32_t weight : window.weights) {
    red += from[0] * weight;
    green += from[1] * weight;
    blue += from[2] * weight;
    from += step;
  }
  to[0] = rounded(red);
  to[1] = rounded(green);
  to[2] = rounded(blue);
}

void require_size(int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kMaxImagePixels / width) {
    throw UsageError(
        concat("image size: expected 1 to ", kMaxImagePixels, " pixels, found ", height, " x ", width));
  }
}

Image blank(int64_t height, int64_t width) {
  require_size(height, width);
  return {.height = height,
          .width = width,
          .pixels = std::vector<uint8_t>(static_cast<size_t>(height * width * 3))};
}

Image resize_rows(const Image& image, int64_t width, const Kernel& kernel, const Slice& part) {
  if (width == image.width && part.size == width) return image;
  Image result = blank(image.height, part.size);
  const std::vector<Window> windows = windows_of(image.width, width, kernel, part);
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* to = result.row(y);
    for (const Window& window : windows) {
      weigh(window, image.row(y) + 3 * window.begin, 3, to);
      to += 3;
    }
  }
  return result;
}

Image resize_columns(const Image& image, int64_t height, const Kernel& kernel, const Slice& part) {
  if (height == image.height && part.size == height) return image;
  Image result = blank(part.size, image.width);
  uint8_t* to = result.pixels.data();
  for (const Window& window : windows_of(image.height, height, kernel, part)) {
    for (int64_t x = 0; x < image.width; ++x, to += 3) {
      weigh(window, image.row(window.begin) + 3 * x, 3 * image.width, to);
    }
  }
  return result;
}

// The source pixel of each target pixel. Positions are accumulated step by step, as in Pillow, for the same
// rounding.
std::vector<int64_t> nearest_of(int64_t from, int64_t to, const Slice& part) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  std::vector<int64_t> places;
  double place = scale * 0.5;
  for (int64_t i = 0; i < part.begin + part.size; ++i, place += scale) {
    if (i < part.begin) continue;
    places.push_back(std::min(static_cast<int64_t>(place), from - 1));
  }
  return places;
}

Image resize_nearest(const Image& image, int64_t height, int64_t width, const Slice& down,
                     const Slice& across) {
  Image result = blank(down.size, across.size);
  const std::vector<int64_t> rows = nearest_of(image.height, height, down),
                             columns = nearest_of(image.width, width, across);
  uint8_t* to = result.pixels.data();
  for (const int64_t row : rows) {
    for (const int64_t column : columns) to = std::copy_n(image.row(row) + 3 * column, 3, to);
  }
  return result;
}

Image resize_part(const Image& image, int64_t height, int64_t width, Resampling resampling, const Slice& down,
                  const Slice& across) {
  if (resampling == Resampling::nearest) return resize_nearest(image, height, width, down, across);
  const Kernel kernel = kernel_of(resampling);
  // The order of the passes, which rounds differently, is Pillow's.
  const bool columns_first = image.height > height && image.height - height > 2 * (image.width - width);
  return columns_first ? resize_rows(resize_columns(image, height, kernel, down), width, kernel, across)
                       : resize_columns(resize_rows(image, width, kernel, across), height, kernel, down);
}

}  // namespace

Image resize(const Image& image, int64_t height, int64_t width, Resampling resampling) {
  require_pixels(image);
  if (height == image.height && width == image.width) return image;
  require_size(height, width);
  return resize_part(image, height, width, resampling, {0, height}, {0, width});
}

Image resize_center(const Image& image, int64_t height, int64_t width, Resampling resampling,
                    int64_t crop_height, int64_t crop_width) {
  require_pixels(image);
  require_size(crop_height, crop_width);
  if (crop_height > height || crop_width > width) {
    throw UsageError(concat("crop: expected at most ", height, " x ", width, " pixels, found ", crop_height,
                            " x ", crop_width));
  }
  if (height == image.height && width == image.width) return center_crop(image, crop_height, crop_width);
  return resize_part(image, height, width, resampling, {center_crop_begin(height, crop_height), crop_height},
                     {center_crop_begin(width, crop_width), crop_width});
}

int64_t center_crop_begin(int64_t whole, int64_t part) {
  return whole >= part ? (whole - part) / 2 : -((part - whole + 1) / 2);
}

Image center_crop(const Image& image, int64_t height, int64_t width) {
  require_pixels(image);
  Image result = blank(height, width);
  const int64_t top = center_crop_begin(image.height, height), left = center_crop_begin(image.width, width);
  const int64_t first = std::max<int64_t>(left, 0), last = std::min(left + width, image.width);
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + height, image.height); ++y) {
    std::copy(image.row(y) + 3 * first, image.row(y) + 3 * last, result.row(y - top) + 3 * (first - left));
  }
  return result;
}

}  // namespace qkv::data
