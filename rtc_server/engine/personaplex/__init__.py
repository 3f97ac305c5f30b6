"""PersonaPlex and Moshi in plain torch: many independent conversations on one engine.

::

    stepper     the engine contract: rows, opening, text, failures      <- what the rest of the server sees
      opening     a slot's prompt: calls, prefill in chunks, caches
      tick        one captured call: codec -> language model -> codec
        mimi        1920 samples -> 8 codes -> 1920 samples
        lm          17 token rows: temporal transformer, depformer, sampling
    checkpoint  hub or folder -> named tensors on the device
    voices      names -> stored voices; the converter

Row, 80 ms and position mean the same throughout: one call of the model. Token rows: 0 text, 1-8 agent, 9-16 user.
"""
