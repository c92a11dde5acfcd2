"""Who plays the student, and the loop that lets them: importing this loads no litellm and touches no network."""

from karotte_gym.agents.episode import Episode, EpisodeError
from karotte_gym.agents.function import FunctionAgent
from karotte_gym.agents.human import HumanAgent
from karotte_gym.agents.llm import LLMAgent
from karotte_gym.agents.replay import ScriptedAgent
from karotte_gym.agents.rollout import RolloutLimits, rollout
from karotte_gym.agents.turn import Agent, Turn, Usage, calling, saying
from karotte_gym.models.catalogue import ModelInfo, known_models, model_info
from karotte_gym.models.errors import ContextExceeded, ProviderError, Stopped
from karotte_gym.models.retry import RetryPolicy
from karotte_gym.models.stopping import StopSignal

__all__ = [
    "Agent",
    "ContextExceeded",
    "Episode",
    "EpisodeError",
    "FunctionAgent",
    "HumanAgent",
    "LLMAgent",
    "ModelInfo",
    "ProviderError",
    "RetryPolicy",
    "RolloutLimits",
    "ScriptedAgent",
    "StopSignal",
    "Stopped",
    "Turn",
    "Usage",
    "calling",
    "known_models",
    "model_info",
    "rollout",
    "saying",
]
