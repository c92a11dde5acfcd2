"""What an episode leaves on disk, and how to check it: journal, seal, verify, grade again. See docs/evidence.md.

Nothing is imported here: the transcript, which every import of the package needs, stands on `files` alone.
"""
