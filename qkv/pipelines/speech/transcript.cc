#include "qkv/pipelines/speech/transcript.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "qkv/text/lines.h"

namespace qkv::pipelines {
namespace {

using Json = nlohmann::ordered_json;

// A blank line would end a subtitle, and a tab a field.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  return std::string(text::trimmed(line, " "));
}

// "-->" may not be within the text of a subtitle.
std::string subtitle(const TranscribedSegment& segment) {
  std::string text = line_of(segment);
  for (size_t at = text.find("-->"); at != text.npos; at = text.find("-->")) text.replace(at, 3, "->");
  return text;
}

Json words_of(const TranscribedSegment& segment) {
  Json words = Json::array();
  for (const TranscribedWord& word : segment.words) {
    words.push_back({{"text", word.text},
                     {"begin", milliseconds(word.begin)},
                     {"end", milliseconds(word.end)},
                     {"probability", word.probability}});
  }
  return words;
}

}  // namespace

Words<TranscriptFormat> words(TranscriptFormat) {
  using enum TranscriptFormat;
  static constexpr std::array<std::pair<std::string_view, TranscriptFormat>, 5> kWords{
      {{"text", text}, {"srt", srt}, {"vtt", vtt}, {"tsv", tsv}, {"json", json}}};
  return kWords;
}

double milliseconds(double seconds) { return std::round(seconds * 1000) / 1000; }

std::string line_of(const TranscribedSegment& segment) { return one_line(segment.text); }

std::string time_text(double seconds, char mark) {
  const auto all = static_cast<int64_t>(std::llround(seconds * 1000));
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%02lld:%02lld:%02lld%c%03lld",
                static_cast<long long>(all / 3600000), static_cast<long long>(all / 60000 % 60),
                static_cast<long long>(all / 1000 % 60), mark, static_cast<long long>(all % 1000));
  return text.data();
}

std::string transcript(const Transcription& transcription, TranscriptFormat format) {
  using enum TranscriptFormat;
  if (format == json) return to_json(transcription) + "\n";
  std::string file = format == vtt ? "WEBVTT\n\n" : format == tsv ? "begin\tend\ttext\n" : "";
  int64_t number = 0;
  for (const TranscribedSegment& segment : transcription.segments) {
    const char mark = format == srt ? ',' : '.';
    if (format == srt) file += concat(++number, "\n");
    if (format == srt || format == vtt) {
      file += concat(time_text(segment.begin, mark), " --> ", time_text(segment.end, mark), "\n",
                     subtitle(segment), "\n\n");
    } else if (format == tsv) {
      file += concat(std::llround(segment.begin * 1000), "\t", std::llround(segment.end * 1000), "\t",
                     line_of(segment), "\n");
    } else {
      file += line_of(segment) + "\n";
    }
  }
  return file;
}

std::string to_json(const Transcription& transcription) {
  const auto dump = [](const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (!transcription.error.empty()) return dump({{"error", transcription.error}});
  Json segments = Json::array();
  for (const TranscribedSegment& segment : transcription.segments) {
    Json& one = segments.emplace_back(Json{{"begin", milliseconds(segment.begin)},
                                           {"end", milliseconds(segment.end)},
                                           {"text", segment.text},
                                           {"temperature", segment.temperature},
                                           {"log_probability", segment.log_probability},
                                           {"compression", segment.compression},
                                           {"no_speech", segment.no_speech}});
    if (!segment.words.empty()) one["words"] = words_of(segment);
  }
  return dump({{"text", one_line(transcription.text)},
               {"language", transcription.language},
               {"language_probability", transcription.language_probability},
               {"seconds", milliseconds(transcription.seconds)},
               {"segments", std::move(segments)}});
}

}  // namespace qkv::pipelines
