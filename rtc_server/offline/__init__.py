"""Files through an engine, without network and without a clock: ``rtc-server offline``.

::

    command     flags, and what people see
      run       files in, files out: media/wav
        stream  sound -> slots of one engine, step after step -> sound, words, tokens
        staged  files that appear whole or not at all

Sound passes the engine's door exactly as it does in a call: int16, one frame of 1920 samples a step. So the frames that
an engine got in a call, saved as a file, give the same tokens here.
"""
