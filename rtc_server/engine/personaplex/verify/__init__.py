"""Does this machine compute what the reference implementations computed? ``rtc-server verify``.

::

    run         all checks of a folder -> a report
      checks    codec, language, openings, batch, session, moshi, choice: each drives the server's own code
        compare a tensor against what the folder expects -> a line of the report
    folder      README.json (settings, schedules), tensors, weights
    report      lines, and what they amount to; plain data

A folder holds weights of small models, inputs, and what the reference made of them. All sizes, window lengths, delays,
schedules and counts come out of the folder; its limits alone are ours.
"""
