#pragma once
// What stands between the pictures' bytes of a JPEG file (ISO/IEC 10918-1, annex B).

#include <string_view>

namespace qkv::data {

struct JpegMarkers {
  bool complete = false;  // the end-of-image marker is there
  // Huffman tables have the 256 codes that they may have, and lie within their segments. stb_image does not
  // look before it writes.
  bool tables_fit = true;
  // How the stored picture has to be turned, as EXIF numbers it (JEITA CP-3451, tag 0x0112): 1 as it is, 2 to
  // 8 mirrored or turned. 1 where the file does not say.
  int orientation = 1;
};

// Any bytes will do; those that are no JPEG are not complete.
JpegMarkers read_jpeg_markers(std::string_view bytes);

}  // namespace qkv::data
