#pragma once
// Transcribes a sound file for a call.

#include <exception>
#include <functional>
#include <string>

#include "qkv/pipelines/speech/transcribe.h"
#include "qkv/serve/work/served_model.h"

namespace qkv::serve {

// The serial worker decodes the file and encodes its windows, the decoder writes their text; between windows,
// other calls have their turn. on_progress: called with the transcription so far after each window. `done`
// receives the transcription, or the error of the call, once. Both run on a worker's thread and must not
// throw. Throws UsageError for bad options, QueueFull and ShuttingDown; `done` is then not called. A window
// is never refused by a full queue.
using OnTranscribed = std::function<void(const pipelines::Transcription& so_far)>;
using TranscriptionDone =
    std::function<void(const pipelines::Transcription& result, const std::exception_ptr& error)>;
void transcribe(ServedModel& model, const CallHandle& call, std::string file,
                const pipelines::TranscribeOptions& options, OnTranscribed on_progress,
                TranscriptionDone done);

}  // namespace qkv::serve
