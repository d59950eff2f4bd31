// Models that transcribe audio.

#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <variant>

#include "python/bind/pipelines.h"
#include "qkv/data/audio/mono.h"
#include "qkv/models/speech_model.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/speech/transcript.h"

namespace qkv::python {
namespace {

using pipelines::TranscribedSegment;
using pipelines::Transcription;
using pipelines::TranscriptionJob;
using Samples = nb::ndarray<nb::ro>;
// JSON, and the token ids of each segment.
using Known = std::pair<std::string, std::vector<std::vector<int32_t>>>;

// Calls function(), whose errors name the audio, of several.
template <class Function>
auto of_audio(size_t index, size_t count, const Function& function) {
  const auto text = [&](const Error& error) {
    return count == 1 ? std::string(error.what()) : concat("audio ", index, ": ", error.what());
  };
  try {
    return function();
  } catch (const ShapeError& error) {
    throw ShapeError(text(error));
  } catch (const UsageError& error) {
    throw UsageError(text(error));
  } catch (const IoError& error) {
    throw IoError(text(error));
  } catch (const DataError& error) {
    throw DataError(text(error));
  }
}

// For messages: an array's dtype, or another object's class.
std::string dtype_of(nb::handle object) {
  const nb::object dtype =
      nb::hasattr(object, "dtype") ? object.attr("dtype") : object.type().attr("__name__");
  return nb::str(dtype).c_str();
}

// Adds an array [frames] or [frames, channels].
template <class Sample>
void add_samples(const Samples& array, float scale, data::MonoSamples& mono) {
  constexpr int64_t kBlock = 4096;
  const auto* const data = static_cast<const Sample*>(array.data());
  const bool wide = array.ndim() == 2;
  const auto frames = static_cast<int64_t>(array.shape(0));
  const int64_t channels = wide ? static_cast<int64_t>(array.shape(1)) : 1;
  const int64_t row = array.stride(0), column = wide ? array.stride(1) : 0;
  std::vector<float> block;
  for (int64_t first = 0; first < frames; first += kBlock) {
    block.clear();
    for (int64_t i = first; i < std::min(first + kBlock, frames); ++i) {
      for (int64_t c = 0; c < channels; ++c)
        block.push_back(static_cast<float>(data[i * row + c * column]) * scale);
    }
    mono.add(block);
  }
}

// A sound from Python: the path of a file, its bytes, or (samples, rate), which are read when their turn
// comes.
class Sound {
 public:
  // With the GIL, as the destructor.
  explicit Sound(nb::handle given) {
    std::filesystem::path path;
    if (nb::isinstance<nb::tuple>(given)) {
      take_samples(nb::borrow<nb::tuple>(given));
    } else if (nb::isinstance<nb::bytes>(given)) {
      source_ = nb::borrow<nb::bytes>(given);
    } else if ((nb::isinstance<nb::str>(given) || nb::hasattr(given, "__fspath__")) &&
               nb::try_cast(given, path)) {
      source_ = std::move(path);
    } else {
      throw UsageError(concat("expected a path, the bytes of a sound file, or (samples, rate), found ",
                              nb::repr(given).c_str()));
    }
  }

  data::Audio read() const {
    if (const auto* const path = std::get_if<std::filesystem::path>(&source_)) return data::read_audio(*path);
    if (const auto* const bytes = std::get_if<nb::bytes>(&source_))
      return data::decode_audio({bytes->c_str(), bytes->size()}, "bytes");
    const auto& array = std::get<Samples>(source_);
    const std::string name = "samples";
    data::MonoSamples mono(rate_, array.ndim() == 2 ? static_cast<int64_t>(array.shape(1)) : 1,
                           data::kMaxAudioSeconds, name);
    mono.require_few(static_cast<int64_t>(array.shape(0)));
    if (array.dtype() == nb::dtype<float>()) {
      add_samples<float>(array, 1, mono);
    } else if (array.dtype() == nb::dtype<double>()) {
      add_samples<double>(array, 1, mono);
    } else {
      add_samples<int16_t>(array, 1.0F / 32768, mono);
    }
    return mono.finish();
  }

 private:
  void take_samples(const nb::tuple& pair) {
    if (pair.size() != 2)
      throw UsageError(concat("expected (samples, rate), found ", pair.size(), " values"));
    const nb::handle given = pair[0];
    Samples array;
    const auto fits = [&](nb::dlpack::dtype dtype) {
      return dtype == nb::dtype<float>() || dtype == nb::dtype<double>() || dtype == nb::dtype<int16_t>();
    };
    if (!nb::try_cast(given, array, false) || !fits(array.dtype())) {
      throw ShapeError(
          concat("samples: expected an array of float32, float64 or int16, found ", dtype_of(given)));
    }
    if (array.device_type() != nb::device::cpu::value)
      throw UsageError(
          concat("samples: expected an array on the CPU, found one on device ", array.device_type()));
    const bool wide = array.ndim() == 2;
    if ((array.ndim() != 1 && !wide) ||
        (wide && (array.shape(1) < 1 || array.shape(1) > static_cast<size_t>(data::kMaxAudioChannels)))) {
      std::string shape;
      for (size_t axis = 0; axis < array.ndim(); ++axis)
        shape += concat(axis == 0 ? "" : ", ", array.shape(axis));
      throw ShapeError(concat("samples: expected [samples], or [samples, channels] with 1 to ",
                              data::kMaxAudioChannels, " channels, found [", shape, "]"));
    }
    assign("rate", pair[1], rate_);
    source_ = std::move(array);
  }

  std::variant<std::filesystem::path, nb::bytes, Samples> source_ = {};
  int64_t rate_ = 0;
};

Known known_of(const Transcription& transcription) {
  Known known{to_json(transcription), {}};
  for (const TranscribedSegment& segment : transcription.segments) known.second.push_back(segment.ids);
  return known;
}

class SpeechModel {
 public:
  SpeechModel(std::shared_ptr<const models::SpeechModel> model, const OpenOptions& options)
      : model_(std::move(model)),
        transcriber_(model_),
        engine_([this, options] { return transcriber_.make_engine(options.engine, options.step_model); }) {}

  const pipelines::Transcriber& transcriber() const { return transcriber_; }
  SharedEngine& engine() { return engine_; }
  std::string inspect() const { return described("speech", model_->folder, *model_->transformer).dump(); }

  pipelines::TranscribeOptions options(nb::dict given) const {
    pipelines::TranscribeOptions options = transcriber_.default_options();
    take_fields(given, options);
    if (const auto temperatures = take(given, "temperatures")) {
      if (!nb::try_cast(*temperatures, options.temperatures))
        throw UsageError(
            concat("temperatures: expected a sequence of numbers, found ", nb::repr(*temperatures).c_str()));
    }
    take_plain_search(given, model_->tokenizer, options.search);
    std::string known = "temperatures, forbid, stop_ids, constraints";
    add_field_names<pipelines::TranscribeOptions>(known);
    add_field_names<search::SearchOptions>(known);
    refuse_rest(given, known);
    transcriber_.check(options);
    return options;
  }

  std::vector<Known> transcribe(const nb::list& audios, const nb::dict& given) {
    const pipelines::TranscribeOptions options = this->options(nb::dict(given));
    std::vector<Sound> sounds;
    for (size_t i = 0; i < audios.size(); ++i)
      of_audio(i, audios.size(), [&] { sounds.emplace_back(audios[i]); });
    return released([&] { return run(sounds, options); });
  }

  std::vector<std::string> languages() const {
    std::vector<std::string> codes;
    for (const auto& [code, id] : model_->tokens.languages) codes.push_back(code);
    return codes.empty() ? std::vector<std::string>{"en"} : codes;
  }
  std::string tokenize(const std::string& text) const {
    return pipelines::to_json(model_->tokenizer.encode(text), model_->tokenizer);
  }
  std::string decode(std::vector<int32_t> ids) const {
    std::erase_if(ids, [&](int32_t id) { return id >= model_->tokens.first_timestamp(); });
    return model_->tokenizer.decode(ids);
  }
  std::shared_ptr<models::Transformer> model() const {
    return std::const_pointer_cast<models::Transformer>(model_->transformer);
  }
  text::Tokenizer tokenizer() const { return model_->tokenizer; }

 private:
  struct Running {
    size_t audio = 0;
    std::shared_ptr<TranscriptionJob> job = {};
    SharedEngine::Handle ticket = {};
  };

  // As Transcriber's operator(), through the shared engine. Throws the first error of an audio.
  std::vector<Known> run(const std::vector<Sound>& sounds, const pipelines::TranscribeOptions& options) {
    const size_t count = sounds.size();
    std::vector<Known> results(count);
    std::vector<Running> running;
    Ticker tick;
    const auto go_on = [&](Running one) {
      tick();
      if (auto request = one.job->next()) {
        one.ticket = engine_.submit({std::move(*request)})[0];
        running.push_back(std::move(one));
        return;
      }
      require_result(one.job->transcription().error, one.audio, count, "audio");
      results[one.audio] = known_of(one.job->transcription());
    };
    try {
      for (size_t started = 0; started < count || !running.empty();) {
        for (; started < count && std::ssize(running) < pipelines::kWindowsTogether; ++started) {
          tick();
          go_on({.audio = started, .job = of_audio(started, count, [&] {
                                     return std::make_shared<TranscriptionJob>(
                                         transcriber_.start(sounds[started].read(), options));
                                   })});
        }
        if (running.empty()) continue;
        std::vector<bool> done(running.size());
        engine_.wait([&] {
          for (size_t k = 0; k < running.size(); ++k) done[k] = running[k].ticket->done;
          return std::ranges::find(done, true) != done.end();
        });
        const std::vector<Running> waited = std::exchange(running, {});
        for (size_t k = 0; k < waited.size(); ++k) {
          if (!done[k]) running.push_back(waited[k]);
        }
        for (size_t k = 0; k < waited.size(); ++k) {
          if (!done[k]) continue;
          waited[k].job->accept(waited[k].ticket->decoded);
          go_on({.audio = waited[k].audio, .job = waited[k].job});
        }
      }
    } catch (...) {
      std::vector<SharedEngine::Handle> tickets;
      for (const Running& one : running) tickets.push_back(one.ticket);
      engine_.cancel(tickets);
      throw;
    }
    return results;
  }

  std::shared_ptr<const models::SpeechModel> model_;
  pipelines::Transcriber transcriber_;
  SharedEngine engine_;
};

// The segments of one audio, as they become known. Its functions are called without the GIL.
class TranscriptionStream {
 public:
  TranscriptionStream(std::shared_ptr<SpeechModel> model, const Sound& sound,
                      const pipelines::TranscribeOptions& options, uint64_t key)
      : model_(std::move(model)),
        job_(std::make_shared<TranscriptionJob>(model_->transcriber().start(sound.read(), options, key))),
        seconds_(job_->seconds()) {}
  ~TranscriptionStream() { close(); }
  TranscriptionStream(const TranscriptionStream&) = delete;
  TranscriptionStream& operator=(const TranscriptionStream&) = delete;

  // The next segment, as the only one of a transcription; nothing after the last.
  std::optional<Known> next() {
    const std::lock_guard consumer(consumer_);
    while (job_) {
      const Transcription& found = job_->transcription();
      if (returned_ < found.segments.size()) return known_of({.segments = {found.segments[returned_++]}});
      if (finished_) break;
      if (!ticket_) {
        auto request = job_->next();
        if (!request) {
          finished_ = true;
          require_result(found.error, 0, 1);
          break;
        }
        ticket_ = model_->engine().submit({std::move(*request)})[0];
      }
      bool done = false;
      model_->engine().wait([&] { return done = ticket_->done; });
      job_->accept(ticket_->decoded);
      ticket_.reset();
      seconds_done_ = job_->seconds_done();
    }
    return std::nullopt;
  }
  // Ends the transcription.
  void close() {
    const nb::gil_scoped_release release;
    const std::lock_guard consumer(consumer_);
    if (ticket_) model_->engine().cancel({ticket_});
    ticket_.reset();
    job_.reset();  // and its constraints
  }
  // Nothing before the last segment has been read.
  std::optional<Known> result() {
    const std::lock_guard consumer(consumer_);
    if (!finished_ || !job_ || !job_->transcription().error.empty()) return std::nullopt;
    return known_of(job_->transcription());
  }
  double seconds() const { return seconds_; }
  double seconds_done() const { return seconds_done_; }

 private:
  std::shared_ptr<SpeechModel> model_;
  std::mutex consumer_;
  std::shared_ptr<TranscriptionJob> job_;  // null: closed
  SharedEngine::Handle ticket_ = {};       // of the window that is being decoded
  size_t returned_ = 0;                    // segments
  bool finished_ = false;
  double seconds_;
  std::atomic<double> seconds_done_ = 0;
};

// A file of segments: (begin, end, text).
std::string transcript(const std::vector<std::tuple<double, double, std::string>>& segments,
                       const std::string& format) {
  Transcription all;
  for (const auto& [begin, end, text] : segments)
    all.segments.push_back({.begin = begin, .end = end, .text = text});
  auto kind = pipelines::TranscriptFormat::text;
  parse_field("format", format, words(kind), kind);
  return pipelines::transcript(all, kind);
}

}  // namespace

nb::object made(const std::shared_ptr<const models::SpeechModel>& model, const OpenOptions& options) {
  return nb::cast(std::make_shared<SpeechModel>(model, options));
}

void bind_speech(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> without_gil;
  nb::class_<SpeechModel>(module, "SpeechModel")
      .def("inspect", &SpeechModel::inspect)
      .def("transcribe", &SpeechModel::transcribe, nb::arg("audios"), nb::arg("options"))
      .def(
          "stream",
          [](const std::shared_ptr<SpeechModel>& model, const nb::object& audio, uint64_t key,
             const nb::dict& given) {
            const pipelines::TranscribeOptions options = model->options(nb::dict(given));
            const Sound sound(audio);
            return released(
                [&] { return std::make_shared<TranscriptionStream>(model, sound, options, key); });
          },
          nb::arg("audio"), nb::arg("key"), nb::arg("options"))
      .def("languages", &SpeechModel::languages)
      .def("tokenize", &SpeechModel::tokenize, nb::arg("text"))
      .def("decode", &SpeechModel::decode, nb::arg("ids"))
      .def_prop_ro("model", &SpeechModel::model)
      .def_prop_ro("tokenizer", &SpeechModel::tokenizer);

  nb::class_<TranscriptionStream>(module, "TranscriptionStream")
      .def("next", &TranscriptionStream::next, without_gil)
      .def("close", &TranscriptionStream::close)
      .def("result", &TranscriptionStream::result, without_gil)
      .def("seconds", &TranscriptionStream::seconds)
      .def("seconds_done", &TranscriptionStream::seconds_done);

  module.def("transcript", transcript, nb::arg("segments"), nb::arg("format"),
             "A file of segments (begin, end, text): text, srt, vtt or tsv.");
}

}  // namespace qkv::python
