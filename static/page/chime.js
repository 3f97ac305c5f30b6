/**
 * A short pleasant sound, made here: two notes as a WAV file, for people to say whether they hear it. Not by WebAudio:
 * it takes the way that the agent's voice will take.
 *
 * @returns {Blob}
 */
export function chime() {
  const rateHz = 24_000;
  const seconds = 0.9;
  const samples = Math.round(rateHz * seconds);
  const wav = new DataView(new ArrayBuffer(44 + 2 * samples));
  const text = (/** @type {number} */ at, /** @type {string} */ letters) =>
    [...letters].forEach((letter, index) => wav.setUint8(at + index, letter.charCodeAt(0)));
  text(0, 'RIFF');
  wav.setUint32(4, 36 + 2 * samples, true);
  text(8, 'WAVEfmt ');
  wav.setUint32(16, 16, true);
  wav.setUint16(20, 1, true); // PCM
  wav.setUint16(22, 1, true); // channels
  wav.setUint32(24, rateHz, true);
  wav.setUint32(28, 2 * rateHz, true);
  wav.setUint16(32, 2, true);
  wav.setUint16(34, 16, true);
  text(36, 'data');
  wav.setUint32(40, 2 * samples, true);
  const note = (/** @type {number} */ hz, /** @type {number} */ s) =>
    s < 0 ? 0 : Math.sin(2 * Math.PI * hz * s) * Math.exp(-5 * s) * Math.min(1, s / 0.01);
  for (let index = 0; index < samples; index++) {
    const s = index / rateHz;
    const level = 0.35 * note(587.33, s) + 0.35 * note(880, s - 0.18);
    wav.setInt16(44 + 2 * index, Math.round(32_767 * level), true);
  }
  return new Blob([wav.buffer], { type: 'audio/wav' });
}
