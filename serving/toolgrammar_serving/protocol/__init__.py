"""The wire between a front end and an EngineCore, shared by both ends.

``wire`` has the messages, ``arrays`` the numbers inside them, ``engine_side`` the sockets of an engine.
"""
