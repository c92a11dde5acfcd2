"""Runs in the grader machine: the scoring script's runner, and what a scoring script may import (`karotte_grading`)."""
