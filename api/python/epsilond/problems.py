"""
Exceptions. The service reports every error as a problem document (RFC 9457), whose type determines the exception. For
an invalid request it contains every error with a pointer to its place.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class EpsilondError(Exception):
    """The base class of the exceptions of this package."""


class Unreachable(EpsilondError):
    """There was no response, in spite of retries."""


class Violation(NamedTuple):
    """An error in a request: a JSON pointer ("/sampling/p"; "" for the whole request) and the rule that is violated."""

    pointer: str
    detail: str


class Problem(EpsilondError):
    """An error response of the service. `document` is the problem document."""

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
                said += f"\n  {error.pointer or 'request'}: {error.detail}"
        if self.accountants:
            said += f"\n  accountants that serve a similar job: {', '.join(self.accountants)}"
        return said

    @property
    def pointers(self) -> list[str]:
        """The pointers of all errors."""
        return [error.pointer for error in self.errors]


class Invalid(Problem):
    """The request is invalid: `errors` states where and why."""


class Unsupported(Problem):
    """No accountant serves this valid job; `accountants` lists those that serve a similar one."""


class TooCostly(Problem):
    """The job exceeds the limits of the service; `document` contains the estimated `operations` and `bytes`."""


class Unattainable(Problem):
    """No finite answer exists."""


class NotFound(Problem):
    """The resource does not exist, or no longer."""


class Conflict(Problem):
    """Not possible in this state: not final, or not succeeded; or an Idempotency-Key that was used with another
    request."""


class Busy(Problem):
    """The service is full or the quota exhausted, in spite of retries; try again later."""


class JobFailed(Problem):
    """A job that was waited for ended without a result; `job` is its document."""

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
    """The exception for a response of status 400 or above, including responses of proxies, which are not problem
    documents."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "type" not in document:
        document = {"status": status, "detail": body[:500].decode("utf-8", "replace")}
    return TYPES.get(str(document.get("type", "")).rsplit("/", 1)[-1], Problem)(document)
