#pragma once
// Transcriptions as files.

#include <string>

#include "qkv/base/field_text.h"
#include "qkv/pipelines/speech/transcribe.h"

namespace qkv::pipelines {

enum class TranscriptFormat : uint8_t {
  text,  // a line a segment
  srt,   // SubRip subtitles
  vtt,   // WebVTT subtitles
  tsv,   // begin and end in milliseconds, and text
  json,  // to_json()
};

Words<TranscriptFormat> words(TranscriptFormat);  // "text", "srt", ...

// The whole file. Text in it has no line breaks.
std::string transcript(const Transcription& transcription, TranscriptFormat format);

// A segment's text on one line, without spaces around it.
std::string line_of(const TranscribedSegment& segment);

// Seconds, rounded to whole milliseconds: for files.
double milliseconds(double seconds);

// Seconds as "01:02:03.456"; the mark before milliseconds is '.' or ','.
std::string time_text(double seconds, char mark = '.');

// {"text", "language", "language_probability", "seconds", "segments": [{"begin", "end", "text",
// "temperature", "log_probability", "compression", "no_speech", "words": [{"text", "begin", "end",
// "probability"}, ...]}, ...]}. Words are there if they have been asked for.
std::string to_json(const Transcription& transcription);

}  // namespace qkv::pipelines
