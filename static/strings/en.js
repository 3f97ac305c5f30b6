/**
 * Everything the page says, in English. Another language is one more file like this one, and a line in languages.js.
 *
 * A message about trouble says what happened (`title`) and what to do (`text`). What has a figure in it is a function.
 * Names of what is pressed and read in index.html are under `page`; its elements name them in `data-text`, `data-label`
 * (for screen readers), `data-title` and `data-placeholder`.
 *
 * @typedef {{title: string, text: string}} Message
 */

export default {
  /** The direction of the script: 'ltr' or 'rtl'. */
  direction: 'ltr',

  page: {
    title: 'Talk · rtc_server',
    heading: 'Talk with the agent',
    call: 'Call',
    you: 'You',
    agent: 'Agent',
    headphones: 'Headphones work best: from speakers the agent may hear itself.',
    mouthToEar: 'Mouth to ear',
    delayParts: 'What the delay is made of',
    setup: 'Persona and voice',
    presets: 'Example personas',
    persona: 'Who should the agent be?',
    personaPlaceholder: 'Describe a person: a name, a job, a manner of speaking.',
    voice: 'Voice',
    transcript: 'Transcript',
    duration: 'Length of the call',
    transcriptEmpty: 'Both sides’ words appear here at the moment they are heard.',
    muteKey: 'M mutes and unmutes. Hold Space to mute, or to talk while muted.',
    devices: 'Microphone and speaker',
    devicesAsk: 'Choose microphone and speaker',
    microphone: 'Microphone',
    speaker: 'Speaker',
    timelineAbout: 'No turns here: hum along (a backchannel), talk over it, cut in. This picture shows both voices at once.',
    timelineTerms: 'Overlap: both speak at once. Backchannel: a short “mm-hm”, and the other goes on. Interruption: the other falls silent.',
    timelineBoth: 'Both at once',
    prefill: 'The agent reads its persona',
    selfTest: 'Test sound and network',
    close: 'Close',
    advanced: 'Advanced',
    copyLink: 'Copy a link to this set-up',
    link: 'Link to this set-up',
    keep: 'Download',
    figures: 'Figures of the last minute',
    copyDiagnostics: 'Copy diagnostics',
    diagnostics: 'Diagnostics',
  },

  /** @type {Record<import('../page/call.js').CallState, Message>} */
  states: {
    ready: { title: 'Just talk. It listens while it speaks.', text: 'Press the button and say something. Interrupt at any time.' },
    asking: { title: 'May I listen?', text: 'Your browser asks for the microphone: choose “Allow”.' },
    connecting: { title: 'Connecting', text: 'Opening a line to the agent.' },
    preparing: { title: 'Getting into character', text: 'The agent reads its persona.' },
    listening: { title: 'Listening', text: 'Say something.' },
    hearing: { title: 'Hearing you', text: 'Go on.' },
    speaking: { title: 'Speaking', text: 'Interrupt whenever you like.' },
    interrupted: { title: 'Interrupted', text: 'The agent heard you.' },
    reconnecting: { title: 'Reconnecting', text: 'Nothing comes through. The agent waits, and the call goes on where it was.' },
    ended: { title: 'Call ended', text: 'Press the button to talk again.' },
    failed: { title: 'That did not work', text: 'Press the button to try again.' },
  },

  start: 'Start talking',
  end: 'End call',
  continue: 'Continue',
  /** @type {Message} */
  canContinue: { title: 'Where were we?', text: 'Your call is still there for a few seconds. Press the button to go on with it.' },
  resuming: 'Taking your call up where the page left it.',
  mute: 'Mute',
  unmute: 'Unmute',
  /** @type {Message} */
  muted: { title: 'Muted', text: 'You are muted: the agent hears silence.' },
  stillTrying: 'The server takes its time to answer. Still trying.',
  preparing: (/** @type {number} */ percent) => `The agent reads its persona: ${percent} %.`,
  queued: (/** @type {number} */ position) => `All lines are in use. You are number ${position} in the queue.`,
  /** @type {(why: string, seconds: number) => Message} */
  ending: (why, seconds) => ({ title: 'This call is about to end', text: `${why} It goes on for ${seconds} s at most.` }),

  /** By code: the server's and this side's. @type {Record<string, Message>} */
  troubles: {
    insecure_context: {
      title: 'This page needs HTTPS',
      text: 'Browsers give the microphone only to secure pages. Open it as http://localhost on the server’s own machine, or start the server with --tls self-signed and use https://.',
    },
    no_webrtc: {
      title: 'This browser cannot make calls',
      text: 'It has no WebRTC. Use a current Chrome, Edge, Firefox or Safari.',
    },
    microphone_denied: {
      title: 'The microphone is blocked',
      text: 'Click the icon left of the address, set Microphone to “Allow”, and press the button again.',
    },
    microphone_blocked_by_system: {
      title: 'Your system blocks the microphone',
      text: 'Allow this browser to use the microphone in the privacy settings of your system, and press the button again.',
    },
    microphone_missing: {
      title: 'No microphone found',
      text: 'Connect a microphone or a headset, and press the button again.',
    },
    microphone_busy: {
      title: 'The microphone is in use',
      text: 'Another program holds it. Close that program, or choose another microphone in your system’s sound settings, and press the button again.',
    },
    microphone_failed: {
      title: 'The microphone did not start',
      text: 'Check that it works in other programs, and press the button again.',
    },
    session_not_found: {
      title: 'The call is over',
      text: 'The server has let it go while nothing came through. Press the button to start a new one.',
    },
    too_many_resumes: {
      title: 'The call could not be taken up',
      text: 'Too many attempts in a short time. Wait ten seconds and press the button again.',
    },
    sound_blocked: {
      title: 'The browser holds back the sound',
      text: 'Click or tap anywhere on the page, or press a key, to hear the agent.',
    },
    not_recorded: {
      title: 'This browser does not record',
      text: 'The call goes on without a recording. To have one, use another browser, or a newer one.',
    },
    server_unreachable: {
      title: 'The server does not answer',
      text: 'Check that it is still running and that you are online, and try again.',
    },
    unauthorized: {
      title: 'A key is needed',
      text: 'Open the whole link that the server printed when it started: it ends in #token=…',
    },
    forbidden_origin: {
      title: 'The server does not accept this page',
      text: 'Its address is not among the allowed origins. Start the server with --allow-origin and this page’s address.',
    },
    engine_draining: {
      title: 'The server is going down',
      text: 'It takes no new calls. Try again in a little while.',
    },
    engine_unavailable: {
      title: 'The agent is not available',
      text: 'The engine is not running. Try again in a few seconds; if it stays so, look at the server’s log.',
    },
    too_many_half_open: {
      title: 'Too many calls are starting',
      text: 'Wait a few seconds and try again.',
    },
    too_many_tests: {
      title: 'Others are testing too',
      text: 'Wait ten seconds and try again.',
    },
    ice_failed: {
      title: 'No connection for the sound',
      text: 'The page loads, but voice cannot get through: a firewall or VPN may block UDP to the server. On another network, start the server with --advertise-ip and an address that you can reach. `rtc-server check` tells more.',
    },
    dtls_failed: {
      title: 'The encrypted connection failed',
      text: 'The handshake did not finish: the network may lose too many packets. Try again.',
    },
    unknown_voice: {
      title: 'The agent does not have this voice',
      text: 'Choose another voice and try again.',
    },
    bad_answer: {
      title: 'This is not the server that was expected',
      text: 'Something else answers at this address, a proxy perhaps. Reload the page.',
    },
  },
  noReason: 'No reason was given.',
  /** @type {(total: number | undefined, retryAfterS: number | null) => Message} */
  full(total, retryAfterS) {
    const who = total === 1 ? 'The agent is in another call.' : total ? `All ${total} lines are in use.` : 'All lines are in use.';
    const when = retryAfterS ? `Try again in ${retryAfterS} seconds` : 'Try again in a moment';
    return { title: 'Everyone is talking', text: `${who} ${when}.` };
  },
  /** The server itself says that nobody can reach it. */
  noConnectivity: { title: 'A call may not connect', text: 'The server has no network address that a browser can reach.' },

  /** Why a call ended. @type {Record<string, Message>} */
  farewells: {
    closed: { title: 'Call ended', text: 'Press the button to talk again.' },
    silence: { title: 'Call ended', text: 'Nothing was heard for five minutes, so the agent hung up.' },
    connection_lost: { title: 'The connection broke', text: 'The server or the network went away and did not come back. Press the button to call again.' },
    replaced: { title: 'The call went elsewhere', text: 'Another page has taken it over, and it goes on there. Press the button to start a new one here.' },
    peer_lost: { title: 'The connection broke', text: 'Nothing came through from this browser for too long.' },
    engine_lost: { title: 'The agent is gone', text: 'Its engine stopped in the middle of the call. Press the button to call again.' },
    shutdown: { title: 'The server goes down', text: 'The server is being stopped or restarted. Try again in a moment.' },
    time_limit: { title: 'Time is up', text: 'The server allows calls of this length. Press the button to call again.' },
  },
  /** @type {(reason: string) => Message} */
  otherFarewell: (reason) => ({ title: 'The server ended the call', text: `Its reason: ${reason.replaceAll('_', ' ')}.` }),

  microphone: {
    again: 'Use the microphone',
    /** It was asked for, in vain. By code. @type {Record<string, string>} */
    still: {
      microphone_missing: 'Still no microphone found',
      microphone_busy: 'The microphone is still in use',
      microphone_denied: 'The microphone is still blocked',
      microphone_blocked_by_system: 'Your system still blocks the microphone',
      microphone_failed: 'The microphone still does not start',
    },
    busy: 'Another program holds it, and the agent hears silence. Close that program, then press the button below.',
    denied: 'The agent hears silence. Allow the microphone for this page, then press the button below.',
    lost: { title: 'The microphone is gone', text: 'It was unplugged or taken away, and the agent hears silence. Connect it again, then press the button below.' },
    interrupted: {
      title: 'The microphone is paused',
      text: 'A phone call or another app holds it, and the agent hears silence. When that is over and it does not come back by itself, press the button below.',
    },
  },

  transcript: {
    interrupted: 'interrupted',
    left: (/** @type {number} */ turns) => `${turns === 1 ? 'One earlier turn is' : `${turns} earlier turns are`} not shown any more.`,
    spokeFor: (/** @type {number} */ seconds) => `spoke for ${seconds.toFixed(1)} s`,
    /** For screen readers. */
    said: (/** @type {string} */ who, /** @type {string} */ words) => `${who}: ${words}`,
  },

  figures: {
    /** @type {Record<import('../page/figures.js').Figure, string>} */
    names: {
      mouthToEar: 'Mouth to ear',
      roundTrip: 'Round trip',
      jitterDelay: 'Jitter buffer, server',
      lossUp: 'Loss, you to agent',
      lossDown: 'Loss, agent to you',
      tick: 'Engine’s tick',
    },
  },
  diagnostics: {
    copied: 'Copied. It holds no key, no word that was said, and no persona.',
    byHand: 'The browser gives no clipboard: copy the text below.',
  },

  devices: {
    defaults: { microphone: 'Default microphone', speaker: 'Default speaker' },
    gone: (/** @type {string} */ name) => `${name} is gone: the default is used until it is back.`,
    back: (/** @type {string} */ name) => `${name} is back and in use.`,
    failed: (/** @type {string} */ name) => `${name} could not be used: another program may hold it.`,
    /** The browser has a list of its own. */
    forgotten: (/** @type {string} */ name) =>
      `The browser did not give ${name} back, and the default is used: choose it again in the list of speakers.`,
    chooseSpeaker: 'Choose a speaker…',
    notChosen: {
      declined: 'No speaker was chosen, and the sound goes where it went.',
      missing: 'The browser has found no speaker to choose. Connect one and try again.',
      failed: 'The browser did not let you choose a speaker. Choose it in your system’s sound settings.',
    },
  },
  keys: {
    open: 'M mutes. Hold Space to mute for a moment.',
    muted: 'M unmutes. Hold Space to talk.',
  },

  /** What the server cannot do of a link or of what was chosen at the last visit. */
  noVoice: (/** @type {string} */ wanted, /** @type {string} */ used) => `This server has no voice ${wanted}: ${used} is used.`,
  noNumbers: 'This agent does not sample: those numbers of the link are not used.',
  /** @type {(chars: number, most: number) => Message} */
  personaTooLong: (chars, most) => ({
    title: 'The persona is too long',
    text: `It has ${chars} characters, and the agent takes ${most} at most. Make it shorter and press the button again.`,
  }),

  voiceSample: { play: 'Listen', stop: 'Stop' },
  advanced: {
    names: {
      seed: 'Seed',
      audio_temperature: 'Temperature of the voice',
      audio_top_k: 'Top-k of the voice',
      text_temperature: 'Temperature of the words',
      text_top_k: 'Top-k of the words',
    },
    anySeed: 'any',
    outOfRange: (/** @type {number} */ min, /** @type {number} */ max, /** @type {boolean} */ whole) =>
      `${whole ? 'A whole number' : 'A number'} from ${min} to ${max}; until then the engine’s own is used.`,
  },
  selfTest: {
    names: { microphone: 'Microphone', network: 'Network', speaker: 'Speaker' },
    running: { microphone: 'Say something.', network: 'Looking for a way to the server.', speaker: 'You should hear two notes.' },
    asking: 'Did you hear two notes?',
    heard: 'Yes',
    notHeard: 'No',
    again: 'Play again',
    results: {
      heard: 'Works.',
      silent: 'It is on, but nothing is heard. Speak louder, switch its own mute off, or choose another microphone.',
      unmeasured: 'It is on. This browser does not let the page see how loud it is.',
      not_heard: 'Turn the volume up, or choose another speaker in the page or in your system, and play it again.',
    },
    found: (/** @type {boolean} */ isRelayed, /** @type {string} */ protocol, /** @type {number | null} */ roundTripMs) =>
      `${isRelayed ? 'A call gets through by a relay' : 'A call gets through directly'} (${protocol.toUpperCase()}${
        roundTripMs === null ? '' : `, ${Math.max(1, Math.round(roundTripMs))} ms there and back`
      }).`,
  },
  redial: {
    waiting: 'As soon as the server answers again, the page makes a new call by itself.',
    busy: 'The server is back. When you leave the set-up and the sound test, the page makes a new call by itself.',
    stop: 'Don’t call again',
    /** @type {Message} */
    again: { title: 'Called again', text: 'The server is back. This is a new conversation: the agent does not remember the one before.' },
  },
  link: {
    copied: 'Copied. It holds no key.',
    byHand: 'The browser gives no clipboard: copy the link below.',
  },

  timeline: {
    /** Under the picture while two speak, as they happen. */
    marks: { backchannel: 'backchannel', interruption: 'interruption' },
    counts: (/** @type {{overlap: number, backchannel: number, interruption: number}} */ { overlap, backchannel, interruption }) =>
      [
        `${overlap} ${overlap === 1 ? 'overlap' : 'overlaps'}`,
        `${backchannel} ${backchannel === 1 ? 'backchannel' : 'backchannels'}`,
        `${interruption} ${interruption === 1 ? 'interruption' : 'interruptions'}`,
      ].join(' · '),
    /** For screen readers: what the picture shows. */
    label: (/** @type {string} */ counts) => `Both voices on one time line, yours above the agent’s: ${counts}.`,
    example: 'An example of both voices on one time line: the agent goes on while its listener hums along, and stops when its listener cuts in.',
  },

  keeping: {
    record: 'Record',
    stop: 'Stop recording',
    /** Before a call. */
    wanted: 'Will record',
    wantedAbout: 'The next call is recorded from its beginning.',
    recording: 'Recording, stereo',
    recordingOf: (/** @type {number} */ number) => `Recording ${number}, stereo`,
    /** In the files with the words. */
    leftOut: (/** @type {number} */ turns) => `${turns === 1 ? 'One earlier turn is' : `${turns} earlier turns are`} not kept.`,
    files: {
      text: 'Words, as text',
      webvtt: 'Words with times (WebVTT)',
      json: 'All events (JSON)',
    },
  },

  /** @type {Record<import('../page/latency.js').Part, string>} */
  latencyParts: {
    codec: 'Codec',
    network: 'Network, both ways',
    serverJitter: 'Jitter buffer, server',
    frame: 'Frame of the engine',
    engine: 'Engine’s thinking',
    playout: 'Waiting to be sent',
    browserJitter: 'Jitter buffer, browser',
    device: 'Sound device',
  },

  units: {
    ms: (/** @type {string} */ figure) => `${figure} ms`,
    percent: (/** @type {string} */ figure) => `${figure} %`,
  },

  noAnswer: 'no answer',
  serverBack: 'The server answers again. Press the button to try again.',
  /** What an engine is, where it is no model to show. By its name. @type {Record<string, string>} */
  engineKinds: { cascade: 'demo', echo: 'test' },
  free: 'free',
  inCall: 'in a call',
  slotsFree: (/** @type {number} */ free, /** @type {number} */ total) => `${free} of ${total} free`,

  /** Where to start from; people write their own. */
  personas: [
    { name: 'Good company', text: 'You are warm, curious company. You keep answers short, ask one question at a time, and laugh easily.' },
    { name: 'Patient teacher', text: 'You are a patient teacher. You explain one idea at a time in plain words, give an example, and check that it was understood.' },
    { name: 'Front desk', text: 'You work at the front desk of the Harbor Hotel. You are quick and friendly. You help with bookings, directions and breakfast times.' },
    { name: 'Storyteller', text: 'You are a storyteller. You tell vivid, calm stories and let the listener decide what happens next.' },
  ],
};
