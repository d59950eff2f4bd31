#pragma once
// Colours of attention weights. Each part has its own hue.

#include <array>
#include <cstdint>

#include "qkv/explain/attention_report.h"

namespace qkv::explain {

// Colours for equally spaced weights from 0 to 1, 0xRRGGBB.
using Ramp = std::array<uint32_t, 6>;

struct Palette {
  Ramp light, dark;  // for light and dark backgrounds
};

constexpr Palette palette_of(Part part) {
  switch (part) {
    case Part::encoder:
      return {.light = {0xF4F7FC, 0xCFE0FB, 0x8DB6F4, 0x4A82E0, 0x1F50B4, 0x0D2A6B},
              .dark = {0x171C26, 0x1C335C, 0x2559A8, 0x4A8DF0, 0x93C2FF, 0xE6F2FF}};
    case Part::decoder:
      return {.light = {0xF8F6FC, 0xE2D6FA, 0xBEA3F0, 0x9067DC, 0x6438B5, 0x37196F},
              .dark = {0x1B1826, 0x382A63, 0x6143A8, 0x9670EA, 0xC5AEFF, 0xF1EAFF}};
    case Part::cross:
      break;
  }
  return {.light = {0xFBF7F3, 0xFBDCBB, 0xF5A962, 0xE0711F, 0xA94309, 0x5F2204},
          .dark = {0x201A14, 0x55300F, 0x9B5213, 0xE0842B, 0xFFBD75, 0xFFF0DC}};
}

// For overlays on images, on any background: from dark violet to red to light yellow.
inline constexpr Ramp kHeat = {0x100C24, 0x43196F, 0x932B80, 0xE2525E, 0xFBA55B, 0xFCF3B8};

}  // namespace qkv::explain
