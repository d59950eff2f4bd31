#include "qkv/data/images/image_set.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/base/philox.h"
#include "qkv/data/images/planes.h"
#include "qkv/data/shuffle.h"

namespace qkv::data {
namespace {

// The images of a set at these places, without their pixels.
ImageSet without_pixels(const ImageSet& set, std::span<const int64_t> places) {
  ImageSet some{.channels = set.channels, .height = set.height, .width = set.width, .classes = set.classes};
  for (const int64_t place : places) some.labels.push_back(set.labels[static_cast<size_t>(place)]);
  return some;
}

}  // namespace

void append_planes(const Image& image, ImageSet& set) {
  const int64_t pixels = image.height * image.width;
  const size_t before = set.pixels.size();
  set.pixels.resize(before + static_cast<size_t>(set.channels * pixels));
  uint8_t* to = set.pixels.data() + before;
  for (int64_t c = 0; c < set.channels; ++c) {
    const uint8_t* from = image.pixels.data() + c;
    for (int64_t i = 0; i < pixels; ++i, from += 3) *to++ = *from;
  }
}

Image to_image(const ImageSet& set, int64_t index) {
  const std::span<const uint8_t> planes = set.image(index);
  const auto pixels = static_cast<size_t>(set.height * set.width);
  Image image{.height = set.height, .width = set.width, .pixels = std::vector<uint8_t>(3 * pixels)};
  for (size_t c = 0; c < 3; ++c) {
    const uint8_t* from = planes.data() + (set.channels == 3 ? c * pixels : 0);
    for (size_t i = 0; i < pixels; ++i) image.pixels[3 * i + c] = from[i];
  }
  return image;
}

uint64_t fingerprint(const ImageSet& set) {
  Hash64 hash;
  for (const int64_t extent : {set.channels, set.height, set.width, set.size()})
    hash.add(static_cast<uint64_t>(extent));
  hash.add(set.pixels.data(), set.pixels.size());
  hash.add(set.labels.data(), set.labels.size() * sizeof(int32_t));
  for (const std::string& name : set.classes) {
    hash.add(uint64_t{name.size()});
    hash.add(name);
  }
  return hash.value();
}

std::vector<ChannelMoments> channel_moments(const ImageSet& set) {
  std::vector<std::array<int64_t, 256>> counts(static_cast<size_t>(set.channels));
  const auto pixels = static_cast<size_t>(set.height * set.width);
  for (size_t at = 0, plane = 0; at < set.pixels.size(); at += pixels, ++plane) {
    std::array<int64_t, 256>& own = counts[plane % counts.size()];
    for (size_t i = at; i < at + pixels; ++i) ++own[set.pixels[i]];
  }
  std::vector<ChannelMoments> moments;
  for (const std::array<int64_t, 256>& levels : counts) {
    double count = 0, sum = 0, squares = 0;
    for (size_t level = 0; level < levels.size(); ++level) {
      const auto many = static_cast<double>(levels[level]), value = static_cast<double>(level);
      count += many;
      sum += many * value;
      squares += many * value * value;
    }
    const double mean = sum / std::max(count, 1.0);
    moments.push_back({mean, std::sqrt(std::max(squares / std::max(count, 1.0) - mean * mean, 0.0))});
  }
  return moments;
}

std::pair<ImageSet, ImageSet> hold_out(ImageSet set, int64_t count, uint64_t seed) {
  if (count < 1 || count >= set.size()) {
    throw UsageError(concat("images to hold out: expected 1 to ", set.size() - 1, " of ", set.size(),
                            " images, found ", count));
  }
  std::vector<int64_t> places(static_cast<size_t>(set.size()));
  std::iota(places.begin(), places.end(), int64_t{0});
  RandomStream random(seed, kHoldOutStream);
  shuffle(places, random);
  // Both keep the order of the files.
  const auto middle = places.begin() + count;
  std::sort(places.begin(), middle);
  std::sort(middle, places.end());
  const std::span held_places(places.begin(), middle), other_places(middle, places.end());
  ImageSet held = without_pixels(set, held_places), others = without_pixels(set, other_places);
  others.unreadable = set.unreadable;
  others.other_files = set.other_files;
  for (const int64_t place : held_places) {
    const std::span<const uint8_t> image = set.image(place);
    held.pixels.insert(held.pixels.end(), image.begin(), image.end());
  }
  // The others move forward in place, so that there is no second copy of them.
  uint8_t* to = set.pixels.data();
  for (const int64_t place : other_places) {
    const std::span<const uint8_t> image = set.image(place);
    to = std::copy(image.begin(), image.end(), to);
  }
  set.pixels.resize(static_cast<size_t>(to - set.pixels.data()));
  others.pixels = std::move(set.pixels);
  return {std::move(others), std::move(held)};
}

}  // namespace qkv::data
