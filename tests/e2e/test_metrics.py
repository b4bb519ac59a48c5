"""
The metrics as OpenMetrics, read by the parser of Prometheus' own library, and what they count.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import re
import time

import pytest
from prometheus_client.openmetrics import parser

from conftest import ENDLESS, GAUSSIAN, ONE_BY_ONE, until

pytestmark = pytest.mark.sanitized

# Answered by several thousand draws.
MONTE_CARLO = {"n": 32, "matrix": {"family": "square_root", "bands": 2}, "sampling": {"scheme": "b_min_sep", "p": 0.05},
               "noise_multiplier": 1, "delta": 1.1e-2, "accountant": "monte_carlo"}


def openmetrics(server):
    """The families by name. The parser requires # EOF, units, suffixes, ordered buckets and valid exemplars."""
    accept = "application/openmetrics-text; version=1.0.0, text/plain; q=0.5"
    answer = server.get("/metrics", headers={"Accept": accept})
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.headers["Vary"] == "Accept"
    families = list(parser.text_string_to_metric_families(answer.text))
    assert len({family.name for family in families}) == len(families)
    return {family.name: family for family in families}


def exemplars(server, family, **labels):
    """The ids of requests in the buckets of the series with these labels."""
    started = server.metric("process_start_time_seconds")
    found = [sample for sample in family.samples if labels.items() <= sample.labels.items() and sample.exemplar]
    for sample in found:
        assert sample.name.endswith("_bucket") and sample.exemplar.value <= float(sample.labels["le"])
        assert started <= float(sample.exemplar.timestamp) <= time.time()
    return {sample.exemplar.labels["request"] for sample in found}


def test_openmetrics(server):
    answer = server.post(GAUSSIAN | {"delta": 1.2345e-6}, "/v1/jobs?wait=60", headers={"X-Request-Id": "seen-here"})
    assert answer.json()["status"] == "succeeded"
    families = openmetrics(server)
    until(lambda: "seen-here" in exemplars(server, openmetrics(server)["epsilond_http_request_seconds"],
                                            route="POST /v1/jobs"))
    for name in ("epsilond_queue_seconds", "epsilond_run_seconds"):
        assert "seen-here" in exemplars(server, families[name])
    for family in families.values():
        assert family.unit == next((unit for unit in ("seconds", "bytes") if family.name.endswith("_" + unit)), "")
    assert families["epsilond_build"].type == "info"
    assert families["epsilond_store_read_seconds"].samples[-1].value > 0
    (started,) = families["process_start_time_seconds"].samples
    assert 0 <= time.time() - started.value < 7200


def test_both_formats_have_the_same_series(server):
    def series(text):
        names = re.findall(r"^([a-z_]+(?:{.*?})?) ", text, re.M)
        return [re.sub(r'le="(\d+)\.0"', r'le="\1"', name) for name in names]
    plain = server.get("/metrics", headers={"Accept": "*/*"})
    assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert " # {" not in plain.text and "# UNIT" not in plain.text and "# EOF" not in plain.text
    openmetrics(server)  # from here on, both requests have their series
    plain = series(server.get("/metrics").text)
    assert plain == series(server.get("/metrics", headers={"Accept": "application/openmetrics-text"}).text)
    assert len(plain) == len(set(plain)) > 100


def test_problems_by_type(server):
    def count(problem):
        return server.metric(f'epsilond_http_problems_total{{problem="{problem}"}}')
    before = [count("not-found"), count("invalid-job"), count("conflict")]
    assert server.get("/v1/jobs/" + "0" * 36).status_code == 404
    assert server.post({}).status_code == 422
    assert [count("not-found"), count("invalid-job"), count("conflict")] == [before[0] + 1, before[1] + 1, before[2]]


def test_draws(server):
    before = server.metric("epsilond_draws_total")
    done = server.solve(MONTE_CARLO)
    samples = sum(draws["samples"] for draws in done["result"]["monte_carlo"].values() if isinstance(draws, dict))
    drawn = server.metric("epsilond_draws_total")
    assert drawn - before >= samples > 0
    server.solve(MONTE_CARLO)  # answered by the cache
    assert server.metric("epsilond_draws_total") == drawn


def test_streams_and_queueing(launch):
    server = launch(*ONE_BY_ONE)
    first, second = [server.post(ENDLESS | {"delta": delta}).json() for delta in (1e-5, 2e-5)]
    events = 'epsilond_http_streams{kind="events"}'
    assert server.metric(events) == 0
    with server.session.get(server.url + second["links"]["events"], stream=True) as stream:
        assert stream.status_code == 200
        until(lambda: server.metric(events) == 1)
    until(lambda: server.metric(events) == 0)
    time.sleep(0.3)
    server.post(None, first["links"]["self"] + "/cancel")
    server.until(second["id"], "running")
    family = openmetrics(server)["epsilond_queue_seconds"]
    (total,) = [sample.value for sample in family.samples if sample.name.endswith("_sum")]
    (count,) = [sample.value for sample in family.samples if sample.name.endswith("_count")]
    assert count == 2 and total >= 0.3
