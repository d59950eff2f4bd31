'use strict';
// In the audio thread: sends the samples of the microphone to the page, the mean of its channels, in blocks.
registerProcessor('record', class extends AudioWorkletProcessor {
  block = new Float32Array(1024);
  length = 0;
  process([channels]) {
    for (let i = 0; i < (channels[0]?.length || 0); i++) {
      this.block[this.length++] = channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length;
      if (this.length < this.block.length) continue;
      this.port.postMessage(this.block);
      this.length = 0;
    }
    return true;
  }
});
