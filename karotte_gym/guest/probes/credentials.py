"""Credentials that the build left: files by their name, and text by its look. Read as root, who sees all of the image.

A secret that only root can read today is still in every copy of the image, and one mistake of a mode away from the
student. Contents are searched where settings, logs and homes are; the distribution's own packages are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .tree import Entry, Finding, Probe, Tree, inside

__all__ = ["ROOT_PROBES"]

_SEARCHED = (
    "/etc", "/root", "/home", "/opt", "/srv", "/usr/local", "/var", "/workdir", "/run", "/mnt", "/media", "/tmp",
)  # fmt: skip
_PACKAGE_DATA = (
    "/var/lib/dpkg/info", "/var/cache/debconf", "/etc/ssl/certs",
)  # fmt: skip
_MAX_SEARCHED_BYTES = 4 * 1024 * 1024
# What is looked for, words of which one must be there (found ten times faster than a pattern), and the pattern.
_URL = ("an address with a password in it", (b"@",), rb"://[^/@\s:'\"<>]{1,100}:[^/@\s'\"<>]{1,300}@[\w.\[-]")
_KEY = (
    "a private key", (b"PRIVATE KEY", b"PuTTY-User-Key-File", b"AGE-SECRET-KEY"),
    rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d:|AGE-SECRET-KEY-1[0-9A-Z]",
)  # fmt: skip
_TOKEN = (
    "an access token",
    (
        b"AKIA",
        b"ASIA",
        b"gh",
        b"glpat-",
        b"hf_",
        b"sk-",
        b"xox",
        b"AIza",
        b"npm_",
        b"pypi-Ag",
        b"ya29.",
        b"dop_v1_",
        b"ey",
    ),
    rb"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}\b|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[\w-]{20}"
    rb"|hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{24,}|xox[abprs]-[A-Za-z0-9-]{10,}|AIza[\w-]{35}\b|npm_[A-Za-z0-9]{36}"
    rb"|pypi-AgE[\w-]{20,}|ya29\.[\w-]{20,}|dop_v1_[0-9a-f]{40,}|ey[A-Za-z0-9_-]{15,1000}+\.ey[\w-]{15,}\.[\w-]{10,})",
)
_ASSIGNED = re.compile(
    rb"(?im)^[ \t]*+(?:export[ \t]++)?(?=[\w.-]*(?:api_?key|token|secret|passw(?:or)?d|credential))"
    rb"[\w.-]++\s*+[=:]\s*+['\"]?[^\s'\"]{4,}"
)
_FILES = frozenset((
    ".netrc", "_netrc", ".git-credentials", ".pypirc", ".npmrc", ".yarnrc", ".pgpass", ".my.cnf",
    ".mylogin.cnf", ".boto", ".s3cfg", ".htpasswd", ".dockercfg", ".vault-token", ".terraformrc",
    ".rclone.conf", "rclone.conf", ".kaggle.json", "kaggle.json", ".databrickscfg", ".gem-credentials",
    "application_default_credentials.json", "credentials.db", "access_tokens.db", "service-account.json",
    ".smbcredentials", ".cdsapirc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "identity.pem", ".Xauthority",
    ".ICEauthority", "secring.gpg", "pubring.kbx", "krb5.keytab",
))  # fmt: skip
_SUFFIXES = (
    "/.aws/credentials", "/.aws/config", "/.docker/config.json", "/.kube/config", "/.config/gh/hosts.yml",
    "/.config/hub", "/.huggingface/token", "/.cache/huggingface/token", "/.cargo/credentials",
    "/.cargo/credentials.toml", "/.composer/auth.json", "/.m2/settings.xml", "/.gnupg/private-keys-v1.d",
    "/containers/auth.json", "/.azure/msal_token_cache.json", "/.config/pypoetry/auth.toml", "/.config/openai",
    "/.config/anthropic",
)  # fmt: skip
_HISTORIES = frozenset((
    ".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".history", ".python_history",
    ".node_repl_history", ".sqlite_history", ".psql_history", ".mysql_history", ".rediscli_history", ".lesshst",
    ".viminfo", ".wget-hsts", ".ipython_history", ".Rhistory",
))  # fmt: skip
_SETTINGS = ("/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/etc/pip.conf", "/etc/default", "/etc/profile.d")
_APT = ("/etc/apt/auth.conf", "/etc/apt/auth.conf.d", "/etc/apt/apt.conf", "/etc/apt/apt.conf.d")
_PROXY = re.compile(rb"(?im)^[ \t]*+Acquire::\w+::(?:Proxy|\w*Key|\w*Cert)\b.*\S")


def urls_with_passwords(tree: Tree) -> Iterator[Finding]:
    """Addresses of private mirrors and indexes with a user and a password: apt sources, pip.conf, git remotes, logs."""
    yield from _matching(tree, _URL)


def private_keys(tree: Tree) -> Iterator[Finding]:
    """A private key opens whatever the build could open: repositories, registries, other machines."""
    yield from _matching(tree, _KEY)


def tokens(tree: Tree) -> Iterator[Finding]:
    """Tokens of clouds, forges and model providers, recognised by how their issuers begin them."""
    yield from _matching(tree, _TOKEN)


def credential_files(tree: Tree) -> Iterator[Finding]:
    """Files in which programs keep what they log in with, wherever they lie."""
    for entry in tree.entries():
        if entry.is_file and (entry.name in _FILES or entry.path.endswith(_SUFFIXES)):
            yield Finding(f"{entry.path} is where credentials are kept", _remove(entry))


def histories(tree: Tree) -> Iterator[Finding]:
    """Commands that somebody typed while building, with what they typed into them."""
    for entry in tree.entries():
        if entry.is_file and entry.name in _HISTORIES:
            yield Finding(f"{entry.path} is a history of commands", _remove(entry))


def environment_files(tree: Tree) -> Iterator[Finding]:
    """Variables are how most secrets reach a build; files that set them stay behind."""
    for entry in tree.entries():
        if not entry.is_file:
            continue
        if entry.name in (".env", ".envrc", ".secrets") or (entry.name.startswith(".env.") and entry.name != ".env.example"):
            yield Finding(f"{entry.path} is a file of environment variables", _remove(entry))
        elif entry.path.startswith(_SETTINGS) and _ASSIGNED.search(tree.read(entry.path) or b""):
            yield Finding(f"{entry.path} sets a variable that looks like a secret", _remove(entry))


def package_credentials(tree: Tree) -> Iterator[Finding]:
    """What the package manager logs in with, and proxies that know the way out."""
    for entry in tree.below(*_APT):
        content = tree.read(entry.path) or b""
        if entry.is_file and content.strip() and ("/auth.conf" in entry.path or _PROXY.search(content)):
            yield Finding(f"{entry.path} holds credentials or a proxy of the package manager", _remove(entry))


ROOT_PROBES: tuple[Probe, ...] = (
    urls_with_passwords, private_keys, tokens, credential_files, histories, environment_files, package_credentials,
)  # fmt: skip


def _matching(tree: Tree, what: tuple[str, tuple[bytes, ...], bytes]) -> Iterator[Finding]:
    title, words, pattern = what
    for entry, content in _texts(tree):
        if any(word in content for word in words) and re.search(pattern, content):
            yield Finding(f"{entry.path} holds {title}", _remove(entry))


def _texts(tree: Tree) -> Iterator[tuple[Entry, bytes]]:
    for entry in tree.entries():
        if _is_searched(entry):
            yield entry, tree.read(entry.path, _MAX_SEARCHED_BYTES) or b""


def _is_searched(entry: Entry) -> bool:
    place = inside(entry.path, _SEARCHED) or entry.path.count("/") == 1
    return bool(entry.is_file and entry.size and place and not inside(entry.path, _PACKAGE_DATA))


def _remove(entry: Entry) -> str:
    return f"rm {entry.path} in the same step of the Containerfile that made it"
