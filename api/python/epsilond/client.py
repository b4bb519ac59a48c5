"""
The client: one method an operation of the service. Documents are what the service sends, as dictionaries; openapi.yaml says
what stands in them.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import io
import json
import ssl
import time
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

from .arrays import read_array
from .events import Event, read_events
from .noise import NoiseRows
from .problems import JobFailed, Problem, Unreachable, problem_of
from .transport import FAILURES, Reply, Transport, lines, unbroken

Document = dict[str, Any]
Resource = Union[str, Mapping[str, Any]]  # a document; or a path ("/v1/jobs/…"), or the id of a job

FINAL = ("succeeded", "failed", "canceled")
JSON, LINES, NPY = "application/json", "application/x-ndjson", "application/x-npy"
RESOURCES = ("job", "sweep", "plan")  # and the events that say that one has ended
NOTHING_MORE = 204  # to who has seen the last event
ONE_WAIT = 60.0  # seconds of a long poll: shorter than what proxies cut
PAGE = 200


def _path(resource: Resource) -> str:
    """An id alone is a job's."""
    if not isinstance(resource, str):
        return str(resource["links"]["self"])
    return resource if resource.startswith("/") else "/v1/jobs/" + urllib.parse.quote(resource, safe="")


def _id(resource: Resource) -> str:
    return _path(resource).rsplit("/", 1)[-1]


def _plain(value: Any) -> Any:
    """NumPy's arrays and numbers, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot stand in a request")


def _query(**members: Any) -> str:
    given = {name: value for name, value in members.items() if value is not None}
    return "?" + urllib.parse.urlencode(given, quote_via=urllib.parse.quote) if given else ""


class Client:
    """
    Of the service at `url`. Threads may share one.

    timeout: seconds without an answer after which a request is given up, beside what it was told to wait.
    retry_seconds: for how long a request is repeated that got no answer, or 503 or 429; 0: once only.
    headers: sent with every request, such as Authorization. context: of TLS, for certificates of one's own.
    """

    def __init__(self, url: str = "http://localhost:8080", *, timeout: float = 30.0, retry_seconds: float = 60.0,
                 headers: Mapping[str, str] | None = None, context: ssl.SSLContext | None = None) -> None:
        self._http = Transport(url, timeout, retry_seconds, headers or {}, context)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes this thread's connection; the next request opens another."""
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

    # ------------------------------------------------------------ what every resource does

    def get(self, resource: Resource) -> Document:
        """It as it is now."""
        return self._document(_path(resource))

    def wait(self, resource: Resource, *, timeout: float | None = None) -> Document:
        """It once it is final, whether it succeeded or not. TimeoutError: it is not, yet."""
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
        What happens to it, as it happens; the last event is its document at its end. A stream that breaks is taken up
        again where it was, and so is one of an earlier run, by the id of the last event that was seen.
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
                    raise Unreachable(f"the events of {path} broke off: {failure or type(failure).__name__}") from failure
                continue
            if not patience.sleep():
                raise Unreachable(f"the events of {path} ended without their last one")

    def cancel(self, resource: Resource) -> Document:
        """Cancels it; what is final stays as it is."""
        document: Document = self._http.ask("POST", _path(resource) + "/cancel").json()
        return document

    def delete(self, resource: Resource) -> None:
        """Forgets it; NotFound if there is none, Conflict if it is not final."""
        reply = self._http.request("DELETE", _path(resource))
        if reply.status >= 400 and not (reply.status == 404 and reply.repeated):
            raise problem_of(reply.status, reply.body)

    # ------------------------------------------------------------ jobs

    def submit(self, job: Mapping[str, Any], *, key: str | None = None, wait: float = 0.0) -> Document:
        """
        Submits a job; its document, which may be final already.

        key: the Idempotency-Key; the same key with the same job is one job, for a day, and with another job a Conflict.
        By default each call has its own, so that repeated requests of one call are one job.
        wait: seconds for which the answer may wait for the job's end, at most 300.
        """
        return self._submit("/v1/jobs", job, key, wait)

    def solve(self, job: Mapping[str, Any], *, timeout: float | None = None, key: str | None = None) -> Document:
        """Submits a job and waits for its answer. JobFailed: there is none. TimeoutError: not yet; the job goes on."""
        started = time.monotonic()
        document = self.submit(job, key=key, wait=ONE_WAIT if timeout is None else min(ONE_WAIT, timeout))
        if document["status"] not in FINAL:
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - started))
            document = self.wait(document, timeout=left)
        if document["status"] != "succeeded":
            raise JobFailed(document)
        return document

    def jobs(self, *, status: str | None = None, label: str | None = None) -> Iterator[Document]:
        """All jobs, newest first, without long arrays; fetched page by page as they are taken."""
        return self._list("/v1/jobs", status=status, label=label)

    # ------------------------------------------------------------ sweeps

    def sweep(self, base: Mapping[str, Any], grid: Mapping[str, Sequence[Any]], *, label: str | None = None,
              key: str | None = None) -> Document:
        """
        Submits the product of a grid: {"/sampling/p": [0.01, 0.02], ...}, by pointers into the job `base`; the last pointer
        runs fastest. Its document, for wait(), events(), cancel(), delete() and points(). key: as of submit().
        """
        request: Document = {"base": base, "grid": grid}
        return self._submit("/v1/sweeps", request if label is None else {**request, "label": label}, key)

    def sweeps(self, *, status: str | None = None, label: str | None = None) -> Iterator[Document]:
        """All sweeps, newest first, as jobs()."""
        return self._list("/v1/sweeps", status=status, label=label)

    def points(self, sweep: Resource) -> Iterator[Document]:
        """The table of a sweep, a row a point: its values by pointer, and what became of it, as far as it has come."""
        return self._list(_path(sweep) + "/points")

    # ------------------------------------------------------------ plans

    def plan(self, request: Mapping[str, Any], *, key: str | None = None) -> Document:
        """
        Asks which mechanism to train with: "n" or "epochs", "batch_size", "dataset_size", "epsilon", "delta", and what
        limits the choice. Its document, for wait(), events(), cancel() and delete(); `candidates` are ranked by their error, each
        with a job that is ready to be submitted. key: as of submit().
        """
        return self._submit("/v1/plans", request, key)

    def plans(self, *, status: str | None = None, label: str | None = None) -> Iterator[Document]:
        """All plans, newest first, as jobs()."""
        return self._list("/v1/plans", status=status, label=label)

    # ------------------------------------------------------------ what belongs to a job's answer

    def curve(self, job: Resource) -> list[Document]:
        """The privacy curve: points with epsilon, delta, lower, remove and add. The first call computes it."""
        reply = self._get(_path(job) + "/curve", extra=300.0)
        points: list[Document] = reply.json()["points"]
        return points

    def spend(self, job: Resource) -> list[Document]:
        """
        Epsilon at the job's delta as its training goes on: points with step and epsilon, at the end of each phase and at up
        to 200 steps between. A training that stops between two points has spent at most the epsilon of the next one; do not
        interpolate. Each is an answer of its own: it takes its time. Conflict: what was released by then is no mechanism of
        its own.
        """
        points: list[Document] = self._get(_path(job) + "/spend", extra=300.0).json()["points"]
        return points

    def error(self, job: Resource, *, phase: int | None = None) -> list[float]:
        """
        The variance of the queries' noise (A C^-1 z) at each step, at the job's noise multiplier. Of a job of phases, that
        of one of them, from 0 on.
        """
        variance: list[float] = self._get(_path(job) + "/error" + _query(phase=phase), extra=300.0).json()["variance"]
        return variance

    def matrix(self, job: Resource, part: str = "encoder", *, form: str | None = None, phase: int | None = None) -> Any:
        """
        C ("encoder"), A C^-1 ("decoder") or C^-1 ("noise") as computed: a NumPy array, or lists without NumPy. Of a
        Toeplitz strategy its first column. form="bands": C by its bands, row i holds C[i, i - d] at d. Of a job of phases,
        that of one of them, from 0 on.
        """
        path = _path(job) + "/matrix" + _query(part=part, form=form, phase=phase)
        return read_array(io.BytesIO(self._get(path, NPY, extra=300.0).body))

    def statement(self, job: Resource) -> str:
        """What a model card says of this training's privacy, as Markdown."""
        return self._get(_path(job) + "/statement", "text/markdown").body.decode()

    def statement_facts(self, job: Resource) -> Document:
        """The same in members."""
        return self._document(_path(job) + "/statement")

    # ------------------------------------------------------------ what a training draws

    def batches(self, request: Mapping[str, Any] | None = None, users: Iterable[Sequence[int]] | None = None, *,
                job: Resource | None = None, dataset_size: int | None = None, seed: int | None = None,
                phase: int | None = None) -> Iterator[Document]:
        """
        Who takes part in which step: {"step", "indices", "truncated"}, formed as the sampling of `job` is accounted (of one run
        of a phase, where it has phases). dataset_size: the number of examples, where the job does not say it. users: with
        "examples_per_user", whose each example is. In the place of a job, request: "n", "sampling" and "dataset_size".

        A training may pause for as long as it likes. Nothing is drawn twice: what breaks off is Unreachable, and its steps do not
        go with those of another call.
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
        Rows of C^-1 z (part "noise"), or of A C^-1 z ("decoder"), one a step, of `dimensions` numbers: what training adds to
        the sum of the clipped gradients (clip norm 1). Of the job `source` at its own noise multiplier (of one run of a phase,
        where it has phases), or of a stored factorisation, for which `workload` is the A of "decoder". NumPy arrays, or lists
        without NumPy. With a `seed`, which is for tests, it is the same each time, and guarantees nothing.

        The rows contain the noise multiplier. A step adds clip_norm * row to the sum of its clipped gradients, once, and
        divides the noisy sum by the expected batch size.

        A training may pause for as long as it likes. What breaks off is taken up again where it broke, bit for bit, for
        retry_seconds after the last row; then it is Unreachable. A program that is started again, from a checkpoint with the rows'
        `stream` and `row`, passes them as `stream` and `first_row` and all else as before. NotFound: the service no longer keeps the
        stream (--keep-streams after its last reader, or until a restart). The rows of another call do not go with those that were
        used. Each row is for one step, and a stream for one training: what two sums have in common cancels in their
        difference. A step may be done again with its row only where nothing of the first time was shown to anyone.
        """
        request = {"job": None if source is None else _id(source), "factorization": factorization,
                   "noise_multiplier": noise_multiplier, "dimensions": dimensions, "part": part, "dtype": dtype, "workload": workload,
                   "seed": seed}
        given = {name: value for name, value in request.items() if value is not None}
        plain = json.loads(json.dumps(given, allow_nan=False, default=_plain))
        headers = {"Accept": NPY, "Content-Type": JSON}
        return NoiseRows(self._http, "/v1/noise" + _query(phase=phase), headers, plain, stream, first_row)

    # ------------------------------------------------------------ the service

    def index(self) -> Document:
        """Links, limits and versions, and the families, schemes and accountants that are served."""
        return self._document("/v1")

    def explain(self, problem: Problem | str) -> Document:
        """What a problem means and what to do: type, title, status, explanation. Of an exception, or of its type."""
        name = problem if isinstance(problem, str) else problem.type
        return self._document("/problems/" + urllib.parse.quote(name, safe=""))

    def contract(self) -> str:
        """The service's openapi.yaml."""
        return self._get("/openapi.yaml", "application/yaml").body.decode()

    def metrics(self) -> str:
        """Counters, gauges and histograms, as Prometheus reads them."""
        return self._get("/metrics", "text/plain").body.decode()

    def healthy(self) -> bool:
        """Whether the service answers at all. Asked once."""
        return self._answers("/healthz")

    def ready(self) -> bool:
        """Whether it would accept a job now. Asked once."""
        return self._answers("/readyz")

    def _answers(self, path: str) -> bool:
        try:
            return self._http.request("GET", path, patient=False).status == 200
        except Unreachable:
            return False
