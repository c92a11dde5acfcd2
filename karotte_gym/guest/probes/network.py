"""The network claim, tested as the student: only a loopback interface, no route, and every address refused at once.

`claim` is what becomes the contract "network". It says "prevented" only when each attempt was turned away by the kernel
without waiting: a connect that hangs has sent something.
"""

from __future__ import annotations

import encodings.idna
import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

from .attempt import closed
from .tree import Finding, Probe, Tree

__all__ = ["LIVE_PROBES", "claim", "what_gets_out"]

_CODEC = encodings.idna  # `getaddrinfo` loads it at its first call, when the student's user may not be able to any more

# Addresses for documentation, of metadata services, private networks and the emulator's user network.
_ADDRESSES = (
    "192.0.2.1", "198.51.100.1", "203.0.113.1", "169.254.169.254", "10.0.2.2", "10.0.2.3", "10.0.0.1", "172.17.0.1",
    "192.168.0.1", "224.0.0.1", "255.255.255.255",
)  # fmt: skip
_ADDRESSES_6 = ("2001:db8::1", "fe80::1", "fd00::1", "ff02::1", "fec0::3")
_AT_ONCE_S = 1.0  # refusals take microseconds; a second allows for a busy host
_REFUSED = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT,
            errno.EINVAL, errno.ENODEV)  # fmt: skip
_NAMES = ("example.com", "metadata.google.internal", "host.docker.internal", "host.containers.internal")
_NO_CARD = "machines have no network card: take it out of the emulator's command line"
CLAIM_TIMEOUT_S = 20.0


def interfaces(_tree: Tree) -> Iterator[Finding]:
    """A card is a way out, whatever is configured on it today."""
    for name in sorted({name for _, name in socket.if_nameindex()} | _listed("/proc/net/dev", 2)):
        if name != "lo":
            yield Finding(f"there is a network interface {name}", _NO_CARD)


def routes(_tree: Tree) -> Iterator[Finding]:
    """A route says that somebody meant packets to leave."""
    for line in _lines("/proc/net/route")[1:]:
        yield Finding(f"there is a route by {line.split()[0]} (IPv4)", "start the session in a network namespace of its own")
    for line in _lines("/proc/net/ipv6_route"):
        if line.split()[-1] != "lo":
            yield Finding(
                f"there is a route by {line.split()[-1]} (IPv6)", "start the session in a network namespace of its own"
            )


def connections(_tree: Tree) -> Iterator[Finding]:
    """TCP to addresses of every kind of neighbourhood must fail at once, not time out."""
    for family, address in _targets():
        yield from _goes(family, socket.SOCK_STREAM, address, "TCP connection")


def datagrams(_tree: Tree) -> Iterator[Finding]:
    """UDP needs no answer: a packet that is sent may have arrived."""
    for family, address in _targets():
        yield from _goes(family, socket.SOCK_DGRAM, address, "datagram")


def raw_packets(_tree: Tree) -> Iterator[Finding]:
    """Raw sockets forge what filters look at, and see what others receive."""
    for family, name in ((socket.AF_INET, "IPv4"), (socket.AF_INET6, "IPv6")):
        for protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_RAW):
            what = f"a raw {name} socket of protocol {protocol}"
            yield from closed(what, _open, family, socket.SOCK_RAW, protocol, fix="the student must have no capability")


def names(_tree: Tree) -> Iterator[Finding]:
    """A resolver that answers is a way out even where no other packet passes."""
    for name in _NAMES:
        started = time.monotonic()
        try:
            found = socket.getaddrinfo(name, 80)
        except OSError:
            found = []
        if found:
            yield Finding(f"{name} resolves to {found[0][4][0]}", "leave no resolver in the machine")
        elif time.monotonic() - started > _AT_ONCE_S * 4:
            yield Finding(f"looking up {name} took {time.monotonic() - started:.0f} s: something was asked", _NO_CARD)


def name_servers(tree: Tree) -> Iterator[Finding]:
    """A name server in resolv.conf is where packets of every look-up would go."""
    for line in tree.lines("/etc/resolv.conf"):
        if line.startswith("nameserver"):
            yield Finding(f"/etc/resolv.conf has {line!r}", "empty /etc/resolv.conf in the Containerfile")


def listeners(_tree: Tree) -> Iterator[Finding]:
    """Somebody who listens on loopback before the student has started is a daemon of root's."""
    for path in (
        "/proc/net/tcp",
        "/proc/net/tcp6",
        "/proc/net/udp",
        "/proc/net/udp6",
        "/proc/net/raw",
        "/proc/net/raw6",
    ):
        for line in _lines(path)[1:]:
            fields = line.split()
            if len(fields) > 7 and int(fields[7]) != os.getuid():
                yield Finding(f"uid {fields[7]} has a socket at {fields[1]} ({path})", "no daemon may listen in the session")


def sockets_of_others(tree: Tree) -> Iterator[Finding]:
    """A Unix socket of a root daemon that the student can reach is a way to have root act for it."""
    listed = {fields[7] for line in _lines("/proc/net/unix")[1:] if len(fields := line.split()) > 7}
    found = {entry.path for entry in tree.outside() if entry.mode & 0o170000 == 0o140000}
    for name in sorted(listed | found):
        if _connects(name):
            yield Finding(f"the socket {name} can be connected to", "no daemon may listen where the student reaches")


LIVE_PROBES: tuple[Probe, ...] = (
    interfaces, routes, connections, datagrams, raw_packets, names, name_servers, listeners, sockets_of_others,
)  # fmt: skip
_CLAIMED: tuple[Probe, ...] = (interfaces, routes, connections, datagrams)


def claim(session: Any) -> dict[str, Any]:
    """The contract "network" as a student's process of `session` has just seen it; some 10 ms."""
    found = json.loads(session.call_as_student(what_gets_out, timeout_s=CLAIM_TIMEOUT_S, max_bytes=65536))
    if found:
        return {
            "resource": "network",
            "enforcement": "not_supported",
            "limit": None,
            "evidence": "; ".join(found)[:1500],
        }
    count = len(_targets())
    evidence = f"only lo, no route, and TCP and UDP to {count} addresses of ten networks refused at once, tried as the student"
    return {"resource": "network", "enforcement": "prevented", "limit": None, "evidence": evidence}


def what_gets_out() -> bytes:
    """Runs as the student: JSON list of sentences, empty when nothing does."""
    return json.dumps([found.finding for probe in _CLAIMED for found in probe(Tree())]).encode()


def _targets() -> list[tuple[socket.AddressFamily, str]]:
    fours = [(socket.AF_INET, address) for address in _ADDRESSES]
    return fours + [(socket.AF_INET6, address) for address in _ADDRESSES_6]


def _goes(family: socket.AddressFamily, kind: socket.SocketKind, address: str, what: str) -> Iterator[Finding]:
    with socket.socket(family, kind) as attempted:
        attempted.settimeout(_AT_ONCE_S)
        try:
            if kind == socket.SOCK_STREAM:
                attempted.connect((address, 80))
            else:
                attempted.sendto(b"?", (address, 53))
            outcome = "was accepted"
        except TimeoutError:
            outcome = "waits for an answer"
        except OSError as error:
            if error.errno in _REFUSED:
                return
            outcome = f"was answered: {error}"
    yield Finding(f"a {what} to {address} {outcome}", _NO_CARD)


def _open(family: int, kind: int, protocol: int) -> int:
    socket.socket(family, kind, protocol).close()
    return 0


def _connects(name: str) -> bool:
    address = "\0" + name[1:] if name.startswith("@") else name
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as attempted:
            attempted.settimeout(_AT_ONCE_S)
            try:
                attempted.connect(address)
            except OSError:
                continue
            return True
    return False


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _listed(path: str, skip: int) -> set[str]:
    return {line.partition(":")[0].strip() for line in _lines(path)[skip:]}
