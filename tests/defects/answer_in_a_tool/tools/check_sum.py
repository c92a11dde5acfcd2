"""Checks a sum."""

from karotte_gym import tool


@tool(run_in="machine")
def check_sum(value: str) -> bool:
    """Say whether a sum is right.

    Args:
        value: The sum.
    """
    return value.strip() == "605613"
