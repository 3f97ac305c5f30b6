/**
 * A microphone into which a test speaks when it wants to: at what it hears or reads, as people do. Runs in the page before
 * a call; each call gets a track of its own. Speech is base64 of 16-bit samples at 48 kHz.
 */
(async () => {
  const context = new AudioContext({ sampleRate: 48000 });
  await context.resume();
  const microphones = [];
  navigator.mediaDevices.getUserMedia = async () => {
    microphones.push(context.createMediaStreamDestination());
    // Without a source it would give nothing at all, where a microphone gives silence.
    const silence = new ConstantSourceNode(context, { offset: 0 });
    silence.connect(microphones.at(-1));
    silence.start();
    return ear.hearUser(microphones.at(-1).stream);
  };

  const decoded = (base64) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const samples = Float32Array.from(new Int16Array(bytes.buffer), (sample) => sample / 32767);
    const buffer = context.createBuffer(1, samples.length, 48000);
    buffer.copyToChannel(samples, 0);
    return buffer;
  };
  const say = (buffer) => {
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(microphones.at(-1));
    source.start();
  };

  window.speak = (base64) => say(decoded(base64));

  /** Begins to speak in the moment in which `text` is the next word that the agent has said; resolves then, with the time. */
  window.speakAt = (text, base64) => {
    const buffer = decoded(base64);
    const words = () => [...document.querySelectorAll('#transcript .agent .word')];
    const before = new Set(words());
    return new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        if (!words().some((word) => word.textContent === text && !before.has(word))) return;
        observer.disconnect();
        say(buffer);
        resolve(performance.now() / 1000);
      });
      const changes = { subtree: true, childList: true, characterData: true, attributes: true };
      observer.observe(document.querySelector('#transcript'), changes);
    });
  };
})();
