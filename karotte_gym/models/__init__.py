"""Talking to language models through litellm: keys, retries, what is known about each. Below agents and judges alike."""
