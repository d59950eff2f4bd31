// qkv transcribe

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "apps/cli/field_options.h"
#include "apps/decode_options.h"
#include "apps/line_results.h"
#include "apps/progress.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/speech_model.h"
#include "qkv/pipelines/speech/transcript.h"

namespace qkv::apps {
namespace {

using pipelines::TranscribedSegment;
using pipelines::TranscriptFormat;
using pipelines::Transcription;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

struct TranscribeArguments {
  std::string model;
  std::vector<std::string> files;
  models::LoadOptions load;
  GivenFields given;
  SearchArguments search;
  std::optional<std::string> temperatures;
  TranscriptFormat format = TranscriptFormat::text;
  bool json = false, times = false;
  std::string output;
};

std::vector<double> listed_temperatures(const std::string& list) {
  std::vector<double> temperatures;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parse_field("--temperatures", list.substr(begin, end - begin), temperatures.emplace_back());
    begin = end + 1;
  }
  return temperatures;
}

pipelines::TranscribeOptions options_of(const pipelines::Transcriber& transcriber,
                                        const TranscribeArguments& arguments) {
  pipelines::TranscribeOptions options = transcriber.default_options();
  arguments.given.apply(options);
  arguments.search.apply(options.search, transcriber.model().tokenizer);
  if (arguments.temperatures) options.temperatures = listed_temperatures(*arguments.temperatures);
  transcriber.check(options);
  return options;
}

// "12:30 of 1:02:05, 8.4 times real time, 5:54 left" on a terminal, of all files that have begun.
class Rate {
 public:
  explicit Rate(size_t files) : done_(files), all_(files) {}

  void update(size_t file, const pipelines::TranscriptionJob& job) {
    done_[file] = job.seconds_done();
    all_[file] = job.seconds();
    if (!stderr_is_terminal() || Clock::now() - shown_ < std::chrono::milliseconds(200)) return;
    shown_ = Clock::now();
    const double seconds = std::chrono::duration<double>(shown_ - begin_).count();
    double done = 0, all = 0;
    for (const double one : done_) done += one;
    for (const double one : all_) all += one;
    std::string line = concat(clock_time(done), " of ", clock_time(all));
    if (done > 0) {
      const double rate = done / seconds;
      line += concat(", ", fixed(rate, 1), " times real time, ", clock_time((all - done) / rate), " left");
    }
    std::cerr << "\r\x1b[K" << line << std::flush;
    visible_ = true;
  }
  void clear() {
    if (visible_) std::cerr << "\r\x1b[K" << std::flush;
    visible_ = false;
  }

 private:
  std::vector<double> done_, all_;  // seconds of audio
  Clock::time_point begin_ = Clock::now(), shown_ = {};
  bool visible_ = false;
};

std::string segment_line(const TranscribedSegment& segment, bool times) {
  std::string text = pipelines::line_of(segment);
  if (!times) return text;
  return concat("[", pipelines::time_text(segment.begin), " --> ", pipelines::time_text(segment.end), "] ",
                text);
}

// The file to which a transcript is written: "talk.srt" for "talk.mp3".
fs::path output_file(const TranscribeArguments& arguments, const std::string& file) {
  const std::string ending = arguments.format == TranscriptFormat::text
                                 ? "txt"
                                 : field_text(words(arguments.format), arguments.format);
  const fs::path stem = file == "-" ? fs::path("stdin") : fs::path(file).stem();
  return fs::path(arguments.output) / concat(stem.string(), ".", ending);
}

void require_own_files(const TranscribeArguments& arguments) {
  std::vector<fs::path> outputs;
  for (const std::string& file : arguments.files) {
    outputs.push_back(output_file(arguments, file));
    if (std::ranges::count(outputs, outputs.back()) > 1) {
      throw UsageError(concat("--output: expected files of different names, found two transcripts to ",
                              outputs.back().string()));
    }
  }
}

std::vector<std::string> files_of_stdin() {
  if (stdin_is_terminal()) throw UsageError("files: expected at least one audio file, found none");
  std::vector<std::string> files;
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty()) files.push_back(line);
  }
  return files;
}

// The bytes of stdin, such as those of ffmpeg.
data::Audio audio_of_stdin() {
  std::string bytes;
  std::vector<char> block(1 << 20);
  while (std::cin.read(block.data(), std::ssize(block)) || std::cin.gcount() > 0) {
    bytes.append(block.data(), static_cast<size_t>(std::cin.gcount()));
    if (std::ssize(bytes) > data::kMaxAudioFileBytes)
      throw DataError(concat("stdin: expected at most ", data::kMaxAudioFileBytes, " bytes, found more"));
  }
  return data::decode_audio(bytes, "stdin");
}

// Prints and writes transcripts: to files as soon as there are any, to stdout in the order of the files.
class Transcripts {
 public:
  explicit Transcripts(const TranscribeArguments& arguments)
      : arguments_(arguments), waiting_(arguments.files.size()) {}

  void add(size_t file, const Transcription& result) {
    waiting_[file] = result;
    if (!arguments_.output.empty() && result.error.empty())
      write_file_atomically(output_file(arguments_, arguments_.files[file]),
                            pipelines::transcript(result, arguments_.format));
    for (; next_ < waiting_.size() && waiting_[next_]; ++next_) {
      print(next_, *waiting_[next_]);
      waiting_[next_] = Transcription();  // printed
    }
    flush_stdout();
  }
  size_t failed() const { return failed_; }

 private:
  void print(size_t file, const Transcription& one) {
    const std::string& name = arguments_.files[file];
    const bool text = arguments_.format == TranscriptFormat::text, several = waiting_.size() > 1;
    if (!one.error.empty()) {
      ++failed_;
      flush_stdout();
      const bool named = one.error.starts_with(name) || one.error.starts_with("stdin: ");
      std::cerr << "qkv: " << (named ? "" : name + ": ") << one.error << '\n';
    }
    if (!arguments_.output.empty()) return;
    if (arguments_.format == TranscriptFormat::json) {
      std::cout << pipelines::with_line(static_cast<int64_t>(file) + 1, to_json(one), name) << '\n';
    } else if (text && several) {
      for (const TranscribedSegment& segment : one.segments)
        std::cout << name << '\t' << segment_line(segment, arguments_.times) << '\n';
    } else if (!text && one.error.empty()) {
      std::cout << pipelines::transcript(one, arguments_.format);
    }
  }

  const TranscribeArguments& arguments_;
  std::vector<std::optional<Transcription>> waiting_;  // for those before
  size_t next_ = 0, failed_ = 0;
};

void transcribe(TranscribeArguments arguments) {
  if (arguments.files.empty()) arguments.files = files_of_stdin();
  if (arguments.json) arguments.format = TranscriptFormat::json;
  const bool to_files = !arguments.output.empty(), text = arguments.format == TranscriptFormat::text;
  const size_t count = arguments.files.size();
  if (arguments.times && !text) throw UsageError("--times: only for --format text");
  if (!to_files && count > 1 && !text && arguments.format != TranscriptFormat::json)
    throw UsageError("--format: expected --output DIR beside it, for several files, found none");
  if (to_files) require_own_files(arguments);
  const pipelines::Transcriber transcriber(arguments.model, arguments.load);
  const pipelines::TranscribeOptions options = options_of(transcriber, arguments);
  if (to_files) make_writable_folder(arguments.output);
  Rate rate(count);
  Transcripts transcripts(arguments);
  size_t shown = 0;  // segments of a single file
  const bool streams = count == 1 && text && !to_files;
  pipelines::TranscribeRun run{.engine = arguments.search.engine.engine,
                               .step_model = arguments.search.engine.step_model};
  run.on_progress = [&](size_t file, const pipelines::TranscriptionJob& job) {
    const std::vector<TranscribedSegment>& segments = job.transcription().segments;
    if (streams && shown < segments.size()) {
      rate.clear();
      for (; shown < segments.size(); ++shown)
        std::cout << segment_line(segments[shown], arguments.times) << '\n';
      flush_stdout();
    }
    rate.update(file, job);
  };
  run.on_done = [&](size_t file, const Transcription& result) {
    rate.clear();
    transcripts.add(file, result);
  };
  const auto audio = [&](size_t i) {
    return arguments.files[i] == "-" ? audio_of_stdin() : data::read_audio(arguments.files[i]);
  };
  transcriber(count, audio, options, run);
  if (transcripts.failed() == 0) return;
  if (count > 1)
    std::cerr << "qkv: " << transcripts.failed() << " of " << counted(static_cast<int64_t>(count), "files")
              << " failed\n";
  throw ExitStatus{1};
}

}  // namespace

void add_transcribe(Command& app) {
  Command* command = add_command(
      app, "transcribe",
      "Transcribe audio files (WAV, FLAC, MP3, Ogg) of any length with a Whisper model, or translate them\n"
      "to English. Prints a line per segment, as soon as it is known if there is one file; of several "
      "files,\n"
      "each line follows the file's name and a tab. Windows of several files are decoded together.",
      "qkv transcribe whisper-small talk.mp3\n  qkv transcribe whisper-small talk.mp3 --times --language de\n"
      "  qkv transcribe whisper-small *.flac --format srt --output subtitles\n"
      "  ffmpeg -i film.mkv -f wav - | qkv transcribe whisper-small - --format srt > film.srt");
  const auto arguments = std::make_shared<TranscribeArguments>();
  add_model_argument(*command, arguments->model, ModelPath::folder);
  add_option(*command, "files", arguments->files, "FILE",
             "Audio files; -: the bytes of stdin (default: those named in lines of stdin)");
  add_load_options(*command, arguments->load);
  add_choice(
      *command, "--format", arguments->format,
      {{"text", TranscriptFormat::text},
       {"srt", TranscriptFormat::srt},
       {"vtt", TranscriptFormat::vtt},
       {"tsv", TranscriptFormat::tsv},
       {"json", TranscriptFormat::json}},
      "Text, subtitles, milliseconds and text, or a JSON object per file with times and probabilities");
  command->add_flag("--json", arguments->json, "The same as --format json");
  command->add_flag("--times", arguments->times, "Print the times of each segment before its text");
  add_option(*command, "--output", arguments->output, "DIR",
             "Write a transcript per file to this folder, with the file's name (default: to stdout)");
  add_field_options<pipelines::TranscribeOptions>(*command, arguments->given, {""});
  add_option(*command, "--temperatures", arguments->temperatures, "T,...",
             "Temperatures that are tried one after the other while a window's text repeats itself or is\n"
             "unlikely; at 0, the search (default: 0,0.2,0.4,0.6,0.8,1)");
  add_search_options(*command, arguments->search);
  add_threads_option(*command);
  command->callback([arguments] { transcribe(*arguments); });
}

}  // namespace qkv::apps
