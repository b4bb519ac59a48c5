"""
The client, with one method per operation of the service. Documents are returned as dictionaries in the form in which
the service sends them; openapi.yaml describes their members.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import io
import json
import os
import ssl
import time
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

from .arrays import read_array
from .events import Event, read_events
from .noise import NoiseRows
from .problems import Conflict, JobFailed, Problem, TooCostly, Unreachable, Unsupported, problem_of
from .transport import FAILURES, Reply, Transport, lines, unbroken

Document = dict[str, Any]
Resource = Union[str, Mapping[str, Any]]  # a document, a path ("/v1/jobs/…"), or the id of a job

FINAL = ("succeeded", "failed", "canceled")
JSON, LINES, NPY = "application/json", "application/x-ndjson", "application/x-npy"
RESOURCES = ("job", "sweep", "plan")  # also the names of their final events
NOTHING_MORE = 204  # the response to a client that has seen the last event
ONE_WAIT = 60.0  # seconds of a long poll, less than the timeout of usual proxies
PAGE = 200


def _path(resource: Resource) -> str:
    """The path of a resource. An id alone is that of a job."""
    if not isinstance(resource, str):
        return str(resource["links"]["self"])
    return resource if resource.startswith("/") else "/v1/jobs/" + urllib.parse.quote(resource, safe="")


def _id(resource: Resource) -> str:
    return _path(resource).rsplit("/", 1)[-1]


def _plain(value: Any) -> Any:
    """Converts NumPy arrays and numbers for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not allowed in a request")


def _query(**members: Any) -> str:
    given = {name: value for name, value in members.items() if value is not None}
    return "?" + urllib.parse.urlencode(given, quote_via=urllib.parse.quote) if given else ""


class Client:
    """
    A client for the service at `url`. Threads may share it.

    timeout: seconds without a response after which a request fails, in addition to a requested wait.
    retry_seconds: how long a request is retried that got no response, or a 503 or 429; 0: no retries.
    bearer_key: the key, if the service requires one; otherwise that of the environment variable EPSILOND_BEARER_KEY.
    headers: sent with every request. context: the TLS context, for custom certificates.
    """

    def __init__(self, url: str = "http://localhost:8080", *, timeout: float = 30.0, retry_seconds: float = 60.0,
                 bearer_key: str | None = None, headers: Mapping[str, str] | None = None,
                 context: ssl.SSLContext | None = None) -> None:
        bearer_key = bearer_key or os.environ.get("EPSILOND_BEARER_KEY")
        authorization = {"Authorization": f"Bearer {bearer_key}"} if bearer_key else {}
        self._http = Transport(url, timeout, retry_seconds, {**authorization, **(headers or {})}, context)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection of this thread; the next request opens a new one."""
        self._http.close()

    def _get(self, path: str, accept: str = JSON, extra: float = 0.0) -> Reply:
        return self._http.ask("GET", path, headers={"Accept": accept}, extra=extra)

    def _document(self, path: str) -> Document:
        document: Document = self._get(path).json()
        return document

    def _submit(self, path: str, request: Mapping[str, Any], key: str | None, wait: float = 0.0) -> Document:
        body = json.dumps(request, allow_nan=False, default=_plain).encode()
        headers = {"Content-Type": JSON, "Idempotency-Key": key or uuid.uuid4().hex}
        if wait > 0:
            path += _query(wait=int(wait))
        document: Document = self._http.ask("POST", path, body, headers, extra=wait).json()
        return document

    def _list(self, path: str, **filters: Any) -> Iterator[Document]:
        cursor: str | None = None
        while True:
            page = self._document(path + _query(limit=PAGE, cursor=cursor, **filters))
            yield from page["items"]
            cursor = page["next"]
            if not cursor:
                return

    # ------------------------------------------------------------ all resources

    def get(self, resource: Resource) -> Document:
        """The current document of a resource."""
        return self._document(_path(resource))

    def wait(self, resource: Resource, *, timeout: float | None = None) -> Document:
        """Waits until the resource is final and returns it, whether it succeeded or not. Raises TimeoutError if it is
        not final in time."""
        path = _path(resource)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = ONE_WAIT if until is None else min(ONE_WAIT, max(0.0, until - time.monotonic()))
            document: Document = self._get(path + _query(wait=int(left + 0.999)), extra=left + 1).json()
            if document["status"] in FINAL:
                return document
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{path} is still {document['status']}")

    def events(self, resource: Resource, *, last_event_id: str = "") -> Iterator[Event]:
        """
        The events of a resource as they occur; the last one is its final document. A stream that breaks is resumed. To
        resume a stream of an earlier process, pass the id of the last event that was seen.
        """
        path, last, patience = _path(resource) + "/events", last_event_id, self._http.patience()
        while True:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
            try:
                with self._http.stream("GET", path, headers=headers) as response:
                    if response.status == NOTHING_MORE:
                        return
                    for event in read_events(lines(response)):
                        last, patience = event.id, self._http.patience()
                        yield event
                        if event.kind in RESOURCES:
                            return
            except FAILURES as failure:
                if not patience.sleep():
                    cause = failure or type(failure).__name__
                    raise Unreachable(f"the events of {path} broke off: {cause}") from failure
                continue
            if not patience.sleep():
                raise Unreachable(f"the events of {path} ended without their last one")

    def cancel(self, resource: Resource) -> Document:
        """Cancels a resource. A final one stays unchanged."""
        document: Document = self._http.ask("POST", _path(resource) + "/cancel").json()
        return document

    def delete(self, resource: Resource) -> None:
        """Deletes a resource. Raises NotFound if it does not exist, and Conflict if it is not final."""
        reply = self._http.request("DELETE", _path(resource))
        if reply.status >= 400 and not (reply.status == 404 and reply.repeated):
            raise problem_of(reply.status, reply.body)

    # ------------------------------------------------------------ jobs

    def submit(self, job: Mapping[str, Any], *, key: str | None = None, wait: float = 0.0) -> Document:
        """
        Submits a job and returns its document, which may be final already.

        key: the Idempotency-Key. For a day, the same key with the same job refers to the same job; with a different job
        it raises Conflict. By default each call uses a new key, so that retries within a call create one job. wait:
        seconds to wait for the job to finish, at most 300.
        """
        return self._submit("/v1/jobs", job, key, wait)

    def solve(self, job: Mapping[str, Any], *, timeout: float | None = None, key: str | None = None) -> Document:
        """Submits a job and waits for its result. Raises JobFailed if there is none, and TimeoutError if it is not
        final in time; the job then continues."""
        started = time.monotonic()
        document = self.submit(job, key=key, wait=ONE_WAIT if timeout is None else min(ONE_WAIT, timeout))
        if document["status"] not in FINAL:
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - started))
            document = self.wait(document, timeout=left)
        if document["status"] != "succeeded":
            raise JobFailed(document)
        return document

    def jobs(self, *, status: str | None = None, label: str | None = None) -> Iterator[Document]:
        """All jobs, newest first, without long arrays. Pages are fetched as needed."""
        return self._list("/v1/jobs", status=status, label=label)

    # ------------------------------------------------------------ sweeps

    def sweep(self, base: Mapping[str, Any], grid: Mapping[str, Sequence[Any]], *, label: str | None = None,
              key: str | None = None) -> Document:
        """
        Submits a sweep: the product of `grid`, {"/sampling/p": [0.01, 0.02], ...}, whose keys are pointers into the job
        `base`; the last pointer varies fastest. Returns its document, for wait(), events(), cancel(), delete() and
        points(). key: see submit().
        """
        request: Document = {"base": base, "grid": grid}
        return self._submit("/v1/sweeps", request if label is None else {**request, "label": label}, key)

    def sweeps(self, *, status: str | None = None, label: str | None = None) -> Iterator[Document]:
        """All sweeps, newest first; see jobs()."""
        return self._list("/v1/sweeps", status=status, label=label)

    def points(self, sweep: Resource) -> Iterator[Document]:
        """The points of a sweep, one row per point: its values by pointer, and its result so far."""
        return self._list(_path(sweep) + "/points")

    # ------------------------------------------------------------ plans

    def plan(self, request: Mapping[str, Any], *, key: str | None = None) -> Document:
        """
        Submits a plan, which ranks the mechanisms for a planned training: "n" or "epochs", "batch_size",
        "dataset_size", "epsilon", "delta", and restrictions. Returns its document, for wait(), events(), cancel() and
        delete(). `candidates` are ranked by error, each with a job that is ready to be submitted. With
        "verify": "draws", the best are verified by Monte Carlo, and ranked by that where it is better. key: see
        submit().
        """
        return self._submit("/v1/plans", request, key)

    def plans(self, *, status: str | None = None, label: str | None = None) -> Iterator[Document]:
        """All plans, newest first; see jobs()."""
        return self._list("/v1/plans", status=status, label=label)

    # ------------------------------------------------------------ results of a job

    def curve(self, job: Resource) -> list[Document]:
        """The privacy curve: points with epsilon, delta, lower, remove and add. The first call computes it."""
        reply = self._get(_path(job) + "/curve", extra=300.0)
        points: list[Document] = reply.json()["points"]
        return points

    def spend(self, job: Resource) -> list[Document]:
        """
        Epsilon at the delta of the job in the course of its training: points with step and epsilon, at the end of each
        phase and at up to 200 steps in between. A training that stops between two points has spent at most the epsilon
        of the next one; do not interpolate. Each point is a separate computation, so the first call takes time. Raises
        Conflict if the outputs released by then do not form a mechanism that can be accounted by itself.
        """
        points: list[Document] = self._get(_path(job) + "/spend", extra=300.0).json()["points"]
        return points

    def error(self, job: Resource, *, phase: int | None = None) -> list[float]:
        """
        The variance of the query noise (A C^-1 z) at each step, at the noise multiplier of the job. For a job with
        phases, `phase` selects one, from 0.
        """
        variance: list[float] = self._get(_path(job) + "/error" + _query(phase=phase), extra=300.0).json()["variance"]
        return variance

    def matrix(self, job: Resource, part: str = "encoder", *, form: str | None = None, phase: int | None = None) -> Any:
        """
        C ("encoder"), A C^-1 ("decoder") or C^-1 ("noise") as computed: a NumPy array, or lists without NumPy; for a
        Toeplitz strategy, the first column. form="bands": C by its bands; row i holds C[i, i - d] at position d. For a
        job with phases, `phase` selects one, from 0.
        """
        path = _path(job) + "/matrix" + _query(part=part, form=form, phase=phase)
        return read_array(io.BytesIO(self._get(path, NPY, extra=300.0).body))

    def statement(self, job: Resource) -> str:
        """The privacy statement of the job for a model card, as Markdown."""
        return self._get(_path(job) + "/statement", "text/markdown").body.decode()

    def statement_facts(self, job: Resource) -> Document:
        """The privacy statement of the job as a dictionary."""
        return self._document(_path(job) + "/statement")

    # ------------------------------------------------------------ batches and noise

    def mechanism(self, job: Resource, *, phase: int | None = None, spend: bool = True) -> Any:
        """
        What a training needs to draw the noise of the job itself, without the service: an
        epsilond.training.Mechanism, which requires NumPy. For a job with phases, that of `phase`. spend: whether to
        fetch the spend of the job, which takes time, for its spent().
        """
        from .training import Mechanism
        text = self._get(_path(job) + "/mechanism" + _query(phase=phase), extra=300.0).body.decode()
        links = json.loads(text)["links"]
        rows = read_array(io.BytesIO(self._get(links["rows"], NPY, extra=300.0).body)) if "rows" in links else None
        points: list[Document] | None = None
        try:
            points = self.spend(job) if spend else None
        except (Conflict, Unsupported, TooCostly):  # the mechanism does without
            pass
        return Mechanism(text, rows=rows, spend=points, statement=self.statement(job),
                         guarantee=self.statement_facts(job)["guarantee"])

    def batches(self, request: Mapping[str, Any] | None = None, users: Iterable[Sequence[int]] | None = None, *,
                job: Resource | None = None, dataset_size: int | None = None, seed: int | None = None,
                phase: int | None = None) -> Iterator[Document]:
        """
        The batches of a training, as {"step", "indices", "truncated"}, drawn from the distribution that the result of
        `job` accounts for (one run of `phase`, if the job has phases). dataset_size: the number of examples, if the job
        does not contain it. users: with "examples_per_user", the users of each example. Instead of a job, pass request:
        "n", "sampling" and "dataset_size".

        A training may pause for any time. Batches are never drawn twice: an interrupted stream raises Unreachable, and
        its steps must not be combined with those of another call.
        """
        asked: Document = dict(request or {})
        given = {"job": None if job is None else _id(job), "dataset_size": dataset_size, "seed": seed}
        asked.update({name: value for name, value in given.items() if value is not None})
        said = [asked, *({"users": list(those)} for those in users or ())]
        body = "".join(json.dumps(line, allow_nan=False, default=_plain) + "\n" for line in said).encode()
        headers = {"Accept": LINES, "Content-Type": JSON if users is None else LINES}
        with self._http.stream("POST", "/v1/batches" + _query(phase=phase), body, headers) as response:
            for line in unbroken(lines(response)):
                yield json.loads(line)

    def noise(self, source: Resource | None = None, *, dimensions: int, factorization: str | None = None,
              noise_multiplier: float | None = None, part: str = "noise", dtype: str = "float32",
              workload: Mapping[str, Any] | None = None, seed: int | None = None, phase: int | None = None,
              stream: str | None = None, first_row: int = 0) -> NoiseRows:
        """
        Rows of C^-1 z (part "noise") or of A C^-1 z ("decoder"), one per step, with `dimensions` numbers: what training
        adds to the sum of the clipped gradients (clip norm 1). `source` is a job, at its noise multiplier (one run of
        `phase`, if it has phases), or a stored factorisation, for which `workload` is the A of "decoder". Rows are
        NumPy arrays, or lists without NumPy. With a `seed`, for tests, the noise is reproducible and carries no
        guarantee.

        The rows include the noise multiplier. A step adds clip_norm * row to the sum of its clipped gradients, once,
        and divides the noisy sum by the expected batch size.

        A training may pause for any time. An interrupted stream is resumed with exactly the same bits, for
        retry_seconds after the last row; after that it raises Unreachable. A program that restarts from a checkpoint,
        in which it saved `stream` and `row` of the rows, passes them as `stream` and `first_row`, with all other
        arguments unchanged. Raises NotFound if the service no longer has the stream (--keep-streams after its last
        reader, or a restart). The rows of another call must not be combined with rows that were used. Use each row for
        one step, and a stream for one training: the difference of two sums with the same noise contains no noise. A
        step may be repeated with its row only if nothing computed from the first attempt was released.
        """
        request = {"job": None if source is None else _id(source), "factorization": factorization,
                   "noise_multiplier": noise_multiplier, "dimensions": dimensions, "part": part, "dtype": dtype,
                   "workload": workload,
                   "seed": seed}
        given = {name: value for name, value in request.items() if value is not None}
        plain = json.loads(json.dumps(given, allow_nan=False, default=_plain))
        headers = {"Accept": NPY, "Content-Type": JSON}
        return NoiseRows(self._http, "/v1/noise" + _query(phase=phase), headers, plain, stream, first_row)

    # ------------------------------------------------------------ the service

    def index(self) -> Document:
        """Links, limits and versions, and the supported families, schemes and accountants."""
        return self._document("/v1")

    def usage(self) -> list[Document]:
        """What the key of this client has used, and its quotas; for a key of scope admin, those of every key. Each has
        id, scope, group, quotas (limit and used of requests, queued, seconds, streams and bytes) and total."""
        keys: list[Document] = self._document("/v1/usage")["keys"]
        return keys

    def workers(self) -> Document:
        """The broker of the service and the workers on other machines: broker (None if there is none) and workers.
        Needs a key of scope admin, where keys are required."""
        return self._document("/v1/workers")

    def explain(self, problem: Problem | str) -> Document:
        """What a problem type means and how to respond to it: type, title, status, explanation. Takes an exception or
        its type."""
        name = problem if isinstance(problem, str) else problem.type
        return self._document("/problems/" + urllib.parse.quote(name, safe=""))

    def contract(self) -> str:
        """The openapi.yaml of the service."""
        return self._get("/openapi.yaml", "application/yaml").body.decode()

    def metrics(self) -> str:
        """Counters, gauges and histograms in the Prometheus text format."""
        return self._get("/metrics", "text/plain").body.decode()

    def healthy(self) -> bool:
        """Whether the service responds. No retries."""
        return self._answers("/healthz")

    def ready(self) -> bool:
        """Whether the service accepts jobs. No retries."""
        return self._answers("/readyz")

    def _answers(self, path: str) -> bool:
        try:
            return self._http.request("GET", path, patient=False).status == 200
        except Unreachable:
            return False
