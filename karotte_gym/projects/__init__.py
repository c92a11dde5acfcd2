"""Projects of one's own: made from a template, given tasks, and brought to a newer template with their edits kept."""

from karotte_gym.projects.create import create_project, create_task
from karotte_gym.projects.update import Updated, update_project

__all__ = ["Updated", "create_project", "create_task", "update_project"]
