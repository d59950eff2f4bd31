#include "qkv/data/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>

// Order matters: jpeglib.h uses FILE and size_t without including their headers.
#include <jpeglib.h>
// Codes of the library's messages.
#include <jerror.h>

#include "qkv/base/error.h"
#include "qkv/data/exif.h"
#include "qkv/data/image_limits.h"

namespace qkv::data {
namespace {

// No encoder writes this many scans. A small file with thousands of scans takes hours to decode.
constexpr int kMaxScans = 500;

// libjpeg requires that the error function does not return. It jumps back (longjmp) to the call of the
// library, so no object with a destructor may be created in between, and exceptions must not cross C code.
struct ErrorManager : jpeg_error_mgr {
  std::jmp_buf caller;
  char message[JMSG_LENGTH_MAX] = {};
  bool out_of_memory = false;
};

ErrorManager& manager_of(j_common_ptr info) { return static_cast<ErrorManager&>(*info->err); }

[[noreturn]] void fail(j_common_ptr info) {
  ErrorManager& manager = manager_of(info);
  manager.format_message(info, manager.message);
  manager.out_of_memory = manager.msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(manager.caller, 1);
}

// Some warnings mean lost pixels, which the library would fill in. Others (bytes between segments) are
// harmless.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      fail(info);
    default:
      break;
  }
}

void install(ErrorManager& manager) {
  jpeg_std_error(&manager);
  manager.error_exit = fail;
  manager.emit_message = warn;
  manager.output_message = [](j_common_ptr) {};
}

struct Progress : jpeg_progress_mgr {};

void count_scans(j_common_ptr info) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number > kMaxScans) {
    info->err->msg_code = JERR_BAD_PROGRESSION;
    fail(info);
  }
}

struct Decoder {
  jpeg_decompress_struct info{};
  ErrorManager errors;
  Progress progress{};
  Decoder() { info.err = &errors; }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

// Both functions return false if the library reported an error.
bool read_header(Decoder& decoder, std::string_view bytes) {
  if (setjmp(decoder.errors.caller) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.info.progress = &decoder.progress;
  decoder.progress.progress_monitor = count_scans;
  jpeg_mem_src(&decoder.info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_save_markers(&decoder.info, JPEG_APP0 + 1, 0xFFFF);
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

// Writes rows of output_components bytes to `rows`, which must have room for all.
bool read_pixels(Decoder& decoder, uint8_t* rows) {
  if (setjmp(decoder.errors.caller) != 0) return false;
  jpeg_start_decompress(&decoder.info);
  const size_t stride =
      size_t{decoder.info.output_width} * static_cast<size_t>(decoder.info.output_components);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row = rows + decoder.info.output_scanline * stride;
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  jpeg_finish_decompress(&decoder.info);
  return true;
}

// a * b / 255, rounded.
uint8_t product(int a, int b) {
  const int scaled = a * b + 128;
  return static_cast<uint8_t>(((scaled >> 8) + scaled) >> 8);
}

// Pillow's conversion. Adobe's files store inverted inks.
std::vector<uint8_t> rgb_of_cmyk(const std::vector<uint8_t>& inks, bool inverted) {
  std::vector<uint8_t> pixels(inks.size() / 4 * 3);
  for (size_t i = 0; i < inks.size() / 4; ++i) {
    const int light = inverted ? inks[4 * i + 3] : 255 - inks[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int ink = inverted ? 255 - inks[4 * i + c] : inks[4 * i + c];
      pixels[3 * i + c] = static_cast<uint8_t>(light - product(ink, light));
    }
  }
  return pixels;
}

// Of the APP1 segments, those with EXIF are parts of one structure.
int orientation_of(const jpeg_decompress_struct& info) {
  constexpr std::string_view kExif{"Exif\0\0", 6}, kXmp{"http://ns.adobe.com/xap/1.0/\0", 29};
  std::string exif, xmp;
  for (auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (data.starts_with(kExif)) exif += data.substr(exif.empty() ? 0 : kExif.size());
    if (data.starts_with(kXmp)) xmp = data.substr(kXmp.size());
  }
  return data::orientation_of(exif, xmp);
}

}  // namespace

Image decode_jpeg(std::string_view bytes, const std::string& name) {
  Decoder decoder;
  install(decoder.errors);
  const auto refuse = [&] {
    if (decoder.errors.out_of_memory) throw std::bad_alloc();
    throw DataError(
        concat(name, ": expected a complete JPEG file, found an error: ", decoder.errors.message));
  };
  if (!read_header(decoder, bytes)) refuse();
  jpeg_decompress_struct& info = decoder.info;
  require_few_pixels(info.image_width, info.image_height, name);
  const int orientation = orientation_of(info);  // read now: the library frees the markers after the last row
  const bool inks = info.num_components == 4;
  info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  Image image{.height = info.image_height, .width = info.image_width};
  std::vector<uint8_t> rows(static_cast<size_t>(image.height * image.width) * (inks ? 4 : 3));
  if (!read_pixels(decoder, rows.data())) refuse();
  image.pixels = inks ? rgb_of_cmyk(rows, info.saw_Adobe_marker != 0) : std::move(rows);
  return upright(std::move(image), orientation);
}

namespace {

struct Encoder {
  jpeg_compress_struct info{};
  ErrorManager errors;
  unsigned char* file = nullptr;  // allocated by the library with malloc
  unsigned long size = 0;
  Encoder() { info.err = &errors; }
  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(file);
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
};

bool write_pixels(Encoder& encoder, const Image& image, int quality) {
  if (setjmp(encoder.errors.caller) != 0) return false;
  jpeg_compress_struct& info = encoder.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &encoder.file, &encoder.size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(image.row(info.next_scanline));  // the library does not write to it
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

std::string encode_jpeg(const Image& image, int quality) {
  if (quality < 1 || quality > 100) {
    throw UsageError(concat("JPEG: expected a quality of 1 to 100, found ", quality));
  }
  require_pixels(image);
  Encoder encoder;
  install(encoder.errors);
  if (!write_pixels(encoder, image, quality)) {
    if (encoder.errors.out_of_memory) throw std::bad_alloc();
    throw Error(concat("cannot encode JPEG: ", encoder.errors.message));
  }
  return {reinterpret_cast<const char*>(encoder.file), encoder.size};
}

}  // namespace qkv::data
