"""
What can go wrong, as exceptions. The service answers every error with a problem document (RFC 9457); its type says which
exception it becomes, and a wrong job brings every violation with a pointer to its place.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class EpsilondError(Exception):
    """Whatever this package raises of its own."""


class Unreachable(EpsilondError):
    """No answer came, however often it was tried."""


class Violation(NamedTuple):
    """One rule that a request breaks: a JSON pointer ("/sampling/p", "" for the whole) and what must hold."""

    pointer: str
    detail: str


class Problem(EpsilondError):
    """An error that the service answered. `document` is all that it said."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = dict(document)
        self.type = str(document.get("type", "about:blank")).rsplit("/", 1)[-1]
        self.title = str(document.get("title", ""))
        self.status = int(document.get("status", 0))
        self.detail = str(document.get("detail", ""))
        self.errors = [Violation(error["pointer"], error["detail"]) for error in document.get("errors", ())]
        self.accountants: list[str] = list(document.get("accountants", ()))
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        said = f"{self.status or ''} {self.type}: {self.detail or self.title}".lstrip()
        for error in self.errors:
            if len(self.errors) > 1 or error.detail not in said:
                said += f"\n  {error.pointer or 'the whole'}: {error.detail}"
        if self.accountants:
            said += f"\n  these would serve a job near to it: {', '.join(self.accountants)}"
        return said

    @property
    def pointers(self) -> list[str]:
        """Where the request is wrong."""
        return [error.pointer for error in self.errors]


class Invalid(Problem):
    """The request is wrong: `errors` says where and how."""


class Unsupported(Problem):
    """A right job that no accountant serves: `accountants` would serve a near one."""


class TooCostly(Problem):
    """Over the service's limits: `document` has the estimated `operations` and `bytes`."""


class Unattainable(Problem):
    """No finite answer exists."""


class NotFound(Problem):
    """There is nothing of that name, or no more."""


class Conflict(Problem):
    """Not in this state: not final, not succeeded; or an Idempotency-Key that was used with another request."""


class Busy(Problem):
    """Full or over quota, for as long as it was tried: ask again later."""


class JobFailed(Problem):
    """A job that was waited for ended without an answer; `job` is its document."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = dict(job)
        super().__init__(job.get("error") or {"type": job["status"], "detail": f"job {job['id']} is {job['status']}"})


TYPES: dict[str, type[Problem]] = {
    "invalid-job": Invalid,
    "malformed-json": Invalid,
    "unsupported": Unsupported,
    "too-costly": TooCostly,
    "unattainable": Unattainable,
    "not-found": NotFound,
    "conflict": Conflict,
    "queue-full": Busy,
    "quota": Busy,
}


def problem_of(status: int, body: bytes) -> Problem:
    """What an answer of 400 and above means; of a proxy's, too, which is no problem document."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "type" not in document:
        document = {"status": status, "detail": body[:500].decode("utf-8", "replace")}
    return TYPES.get(str(document.get("type", "")).rsplit("/", 1)[-1], Problem)(document)
