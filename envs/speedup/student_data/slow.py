def neighbours(values: list[int], distance: int) -> list[int]:
    """For each value, how many of the other values differ from it by at most `distance`."""
    counts = []
    for i, here in enumerate(values):
        count = 0
        for j, there in enumerate(values):
            if i != j and abs(here - there) <= distance:
                count += 1
        counts.append(count)
    return counts
