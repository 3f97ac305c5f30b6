"""The embedded demo agent: a small speech pipeline on the CPU that looks like any other full-duplex engine.

It is honest about what it is: it hears English, answers from a small set of skills, and is not PersonaPlex.

============== =======================================================================================================
stepper        ``CascadeStepper``: the engine contract for all slots
conversation   one slot: what the ear heard, what the dialogue answers, what the mouth says. No threads
ear            24 kHz frames -> 16 kHz blocks, each with its probability of voice
endpoint       blocks -> an utterance started, paused, resumed, ended
interruption   blocks -> the user really speaks over the agent
mouth          sentences -> 80 ms frames with their words; cut with a fade
own_words      is what was recognised only the agent's own echo?
echo_level     once it was: how loud is it, so that it does not count as voice again?
dialogue       text -> reply; ``skills/`` does the answering. Pure functions
worker         the one thread on which recogniser and voice run for all slots
recogniser     Whisper through CTranslate2; ``logmel`` is its front end, ``weights`` finds and checks its files
voice          hibari-tts
============== =======================================================================================================

Laws: `step` never waits for a model; every result carries the generation of its slot, and an old one is dropped; time
is counted in frames, except for the clock on the wall, which is handed in.
"""
