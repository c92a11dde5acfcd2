"""Only the list of packages: `karotte_gym.envs` and `karotte_gym.wrappers` live in folders at the top, whose
sub-packages setuptools can't find by itself under another name; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

MAPPED = {"karotte_gym.envs": "envs", "karotte_gym.wrappers": "wrappers"}


def _packages() -> list[str]:
    found = find_packages(include=["karotte_gym", "karotte_gym.*"])
    for name, folder in MAPPED.items():
        found += [name, *(f"{name}.{inner}" for inner in find_packages(folder))]
    return found


setup(packages=_packages(), package_dir=MAPPED)
