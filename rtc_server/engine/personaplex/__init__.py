"""PersonaPlex and Moshi in plain torch: many independent conversations on one engine.

::

    stepper     the engine contract: slots to rows, prompts, failures    <- what the rest of the server sees
      rows        which row a slot has, and when it moves
      opening     a slot's prompt, worked through in pieces: prompt, promptcache, pace
      tick        one call, captured on a GPU: codec -> language model -> codec
        mimi/       1920 samples -> 8 codes -> 1920 samples
        lm          17 token rows -> 17 token rows
          tokens      what is given, what is sampled, what is delayed
          temporal    tokens of a position -> hidden state, text logits    } layers, attention, rotary, matrix
          depformer   hidden state -> codes, one after the other           }
          sampling    logits -> token
          kvcache     what a row remembers; kvstore
      text        text tokens -> characters; tokenizer

    load        what the operator said -> all of the above, ready; the root
      checkpoint  folder or hub -> files and settings, no tensor: settings, names, header; hub, huberrors
      files       files -> named tensors on the device: weights, inventory, progress
      memory      what it takes, before it is loaded: footprint; device
      voices      names -> voices: voicefiles, voicearchive; convert, wav, loudness for other formats
    presence    would anybody want this engine here?          report      what ``check`` says of it
    voicemaker  a recording -> a stored voice of one model
    bench/      what a call costs; randomweights              verify/     is it what the reference computes?

`config` holds the shapes and rules of both models.

Row, 80 ms and position mean the same throughout: one call of the model. Token rows: 0 text, 1-8 agent, 9-16 user.
"""
