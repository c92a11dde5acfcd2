"""One episode served over the Model Context Protocol, so that any agent that speaks it can be the student.

`served_episode` plays it and knows nothing of the protocol; `server` words it as the protocol wants it; `stdio` and
`http` are the two ways that a client comes. Needs the extra ``karotte-gym[mcp]``; nothing else here imports it.
"""
