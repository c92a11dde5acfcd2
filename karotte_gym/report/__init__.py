"""Runs as one page to look at: written to a file that needs nothing else, or served from loopback."""

from karotte_gym.report.page import write_report
from karotte_gym.report.server import ViewServer
from karotte_gym.report.store import Store

__all__ = ["Store", "ViewServer", "write_report"]
