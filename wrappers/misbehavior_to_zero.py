"""`MisbehaviorToZero`: what the student caused ends the episode with reward 0 and a named reason.

Only `StudentMisbehavior` is turned. Faults of the host or of this package raise through: a trainer that took them for
zeros would teach its student that the weather is its fault.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from karotte_gym.env import KarotteEnv
from karotte_gym.scoring import StudentMisbehavior

__all__ = ["MisbehaviorToZero"]


class MisbehaviorToZero(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Turns `StudentMisbehavior` into ``reward=0.0, terminated=True, info["misbehavior"]=sentence``."""

    def __init__(self, env: gym.Env[Any, Any]):
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """As the environment's; misbehaviour becomes the end of the episode."""
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
        except StudentMisbehavior as misbehavior:
            env = self.unwrapped
            if not isinstance(env, KarotteEnv):
                raise
            obs, info = env.conclude(misbehavior)
            return obs, 0.0, True, False, info
        return obs, float(reward), terminated, truncated, info
