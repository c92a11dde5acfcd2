"""Asks a model all questions of a rubric, several at a time, and gives up as a whole when one has no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from karotte_gym.judges.fence import Document, copied, enclose
from karotte_gym.judges.rubric_prompt import Vote, messages_for, read_vote
from karotte_gym.judges.submitted_files import SubmissionUnusable
from karotte_gym.models.chat import ChatModel
from karotte_gym.models.stopping import StopSignal

__all__ = ["ask"]

MAX_CALLS_AT_ONCE = 8
MOST_GROWTH = 4  # of a submission by what the fence writes into it; honest text hardly grows, hidden characters do


def ask(options: Mapping[str, Any], questions: Sequence[str], documents: Sequence[Document], max_bytes: int) -> list[Vote]:
    """One vote for each question, in order; each call has marks of its own. `options` are `ChatModel`'s.

    Raises SubmissionUnusable for documents that grow too much, ContextExceeded, ContentFiltered, ProviderError.
    """
    lines = copied(documents)
    if sum(map(len, lines)) > MOST_GROWTH * max_bytes + 10_000:
        raise SubmissionUnusable("the submission consists of characters that can't be seen, for the most part")
    stop = StopSignal()
    model = ChatModel(**options, stop=stop)
    with ThreadPoolExecutor(min(MAX_CALLS_AT_ONCE, len(questions)), "karotte-rubric") as pool:
        votes = [pool.submit(_vote, model, question, lines) for question in questions]
        try:
            for vote in wait(votes, return_when=FIRST_EXCEPTION).done:
                vote.result()  # raises at once what the first of them raised, whichever question it was
            return [vote.result() for vote in votes]
        except BaseException:
            stop.set()  # also the calls in flight: what they would answer is of no use any more
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _vote(model: ChatModel, question: str, lines: Sequence[str]) -> Vote:
    return model.ask({"messages": messages_for(question, enclose(lines))}, read_vote)
