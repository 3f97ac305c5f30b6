"""The TURN server as it is shipped, in a network of its own: real coturn, real routes, no loopback.

======== ===============================================================================================================
network  three network namespaces: caller, TURN server (which routes), media server
coturn   coturn with turn/turnserver.conf, filled by turn/fill.py, its secret from turn/rotate.py
======== ===============================================================================================================

Namespaces need root. The process that runs the tests acts as the caller's machine while `Network.inside` lasts, and so
do the browsers that it starts.
"""
