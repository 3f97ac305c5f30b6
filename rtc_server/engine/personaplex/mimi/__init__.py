"""The streaming codec: 1920 samples -> 8 codes -> 1920 samples, for all rows of a batch at once, in float32.

::

    pcm -> SEANet encoder -> transformer -> downsample -> quantizer -> codes     24000 Hz -> 25 Hz -> 12.5 Hz
    pcm <- SEANet decoder <- transformer <- upsample   <- quantizer <- codes

Every layer is causal and a frame is a multiple of every stride. So a frame makes exactly one frame of codes, and back,
from the first one on, and what a layer has to remember has a fixed size. Samples and steps lie as [n, steps, channels].

Laws of this package: rows never touch each other; a row that is not active keeps its state bit for bit, whatever its
input holds; zero is the start of a stream. No call reads a tensor back to the host or has a shape that depends on one.
"""
