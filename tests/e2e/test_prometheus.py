"""
docker/grafana.json and docker/alerts.yaml: what they ask for exists, each alert fires when it should, and a real
Prometheus reads the service and answers them.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import contextlib
import json
import re
import shutil
import socket
import subprocess
import time

import pytest
import requests
import yaml

from conftest import GAUSSIAN, PATIENCE, ROOT, until

GRAFANA = json.loads((ROOT / "docker/grafana.json").read_text())
ALERTS = ROOT / "docker/alerts.yaml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
OWN = {"up", "instance", "job"}  # Prometheus' own
needs_prometheus = pytest.mark.skipif(not (shutil.which("prometheus") and shutil.which("promtool")),
                                      reason="prometheus is not installed")


def dashboard_queries():
    return [target["expr"] for panel in GRAFANA["panels"] for target in panel.get("targets", [])]


def queries():
    return [*dashboard_queries(), *(rule["expr"] for rule in RULES)]


def samples(text):
    """The label sets by name of the series in the text of Prometheus."""
    found = {}
    for name, labels in re.findall(r"^([a-z_]+)(?:{(.*?)})? \S+$", text.replace("{id}", ":id"), re.M):
        found.setdefault(name, []).append(dict(re.findall(r'([a-z_]+)="([^"]*)"', labels)))
    return found


def test_what_is_asked_for_exists(server):
    server.solve(GAUSSIAN)
    known = samples(server.get("/metrics").text)
    asked, grouped = set(), set()
    for query in queries():
        grouped |= {label.strip() for labels in re.findall(r"by \((.*?)\)", query) for label in labels.split(",")}
        bare = re.sub(r"by \(.*?\)|\[.*?\]", "", query)
        for name, labels in re.findall(r"\b((?:epsilond|process)_[a-z_]+)(?:{(.*?)})?", bare):
            asked.add(name)
            assert name in known, f"{name} in {query}"
            wanted = {label: value for label, value in re.findall(r'([a-z_]+)="([^"]*)"', labels) if label not in OWN}
            assert any(wanted.items() <= series.items() for series in known[name]), f"{name} {wanted} in {query}"
        left = re.findall(r"\b(?!epsilond_|process_)[a-z_]+(?=[{\[])", bare)
        assert set(left) <= OWN, f"{left} in {query}"
    assert grouped <= {label for series in known.values() for labels in series for label in labels} | OWN
    legends = {label for panel in GRAFANA["panels"] for target in panel.get("targets", [])
               for label in re.findall(r"{{(\w+)}}", target["legendFormat"])}
    assert legends <= grouped | {"version"}
    # Whatever is exposed is shown or watched, apart from what has its share in another figure.
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known}
    unused = families - {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    assert unused == {"epsilond_computations_given_up_total"}


def test_panels_do_not_overlap():
    taken = set()
    for panel in GRAFANA["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in GRAFANA["panels"]]
    assert len(set(ids)) == len(ids)


# Series, a value a minute, that make each alert fire after half an hour.
FIRING = {
    "EpsilondDown": [('up{job="epsilond",instance="a"}', "0x60")],
    "EpsilondRestarts": [('process_start_time_seconds{job="epsilond",instance="a"}', "0x10 600x10 1200x10 1800x30")],
    "EpsilondStuck": [('epsilond_stuck_computations{instance="a"}', "0x10 1x50")],
    "EpsilondJobCrashed": [('epsilond_jobs_crashed_total{instance="a"}', "0x10 1x50")],
    "EpsilondCellDied": [('epsilond_cell_deaths_total{instance="a",reason="killed"}', "0x10 1x50")],
    "EpsilondCellsNotStarted": [('epsilond_cell_start_failures_total{instance="a"}', "0+1x60")],
    "EpsilondBug": [('epsilond_bugs_total{instance="a"}', "0x10 1x50")],
    "EpsilondDamaged": [('epsilond_checksum_failures_total{instance="a"}', "0x10 1x50")],
    "EpsilondCannotWrite": [('epsilond_store_held{instance="a"}', "0x10 1x50")],
    "EpsilondInternalErrors": [('epsilond_http_problems_total{instance="a",problem="internal"}', "0x40 1x20")],
    "EpsilondQueueFull": [('epsilond_queue_refused_total{instance="a"}', "0+1x60")],
    "EpsilondQueueSlow": [('epsilond_queue_seconds_bucket{instance="a",le="300.0"}', "0+9x60"),
                          ('epsilond_queue_seconds_bucket{instance="a",le="1800.0"}', "0+10x60"),
                          ('epsilond_queue_seconds_bucket{instance="a",le="+Inf"}', "0+10x60")],
    "EpsilondCommitsSlow": [('epsilond_store_commit_seconds_bucket{instance="a",le="1.0"}', "0+9x60"),
                            ('epsilond_store_commit_seconds_bucket{instance="a",le="2.5"}', "0+10x60"),
                            ('epsilond_store_commit_seconds_bucket{instance="a",le="+Inf"}', "0+10x60")],
    "EpsilondConnectionsRefused": [('epsilond_http_connections_closed_total{instance="a",reason="refused"}',
                                    "0+1x60")],
}
# The same of a service that is well, though it has evicted connections and rejected requests.
WELL = [('up{job="epsilond",instance="a"}', "1x60"),
        ('process_start_time_seconds{job="epsilond",instance="a"}', "0x30 900x30"),
        ('epsilond_stuck_computations{instance="a"}', "0x60"), ('epsilond_jobs_crashed_total{instance="a"}', "7x60"),
        ('epsilond_cell_deaths_total{instance="a",reason="killed"}', "7x60"),
        ('epsilond_cell_start_failures_total{instance="a"}', "7x60"),
        ('epsilond_database_damaged{instance="a"}', "0x60"),
        ('epsilond_bugs_total{instance="a"}', "7x60"), ('epsilond_checksum_failures_total{instance="a"}', "7x60"),
        ('epsilond_store_held{instance="a"}', "0x60"), ('epsilond_store_failures_total{instance="a"}', "7x60"),
        ('epsilond_http_problems_total{instance="a",problem="internal"}', "7x60"),
        ('epsilond_http_problems_total{instance="a",problem="not-found"}', "0+9x60"),
        ('epsilond_queue_refused_total{instance="a"}', "0x20 9x40"),
        ('epsilond_queue_seconds_bucket{instance="a",le="300.0"}', "0+10x60"),
        ('epsilond_queue_seconds_bucket{instance="a",le="+Inf"}', "0+10x60"),
        ('epsilond_store_commit_seconds_bucket{instance="a",le="1.0"}', "0+10x60"),
        ('epsilond_store_commit_seconds_bucket{instance="a",le="+Inf"}', "0+10x60"),
        ('epsilond_http_connections_closed_total{instance="a",reason="refused"}', "0x20 9x40"),
        ('epsilond_http_connections_closed_total{instance="a",reason="evicted"}', "0+9x60")]


def promtool(*arguments, stdin=None):
    done = subprocess.run(["promtool", *map(str, arguments)], input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_prometheus
def test_each_alert_fires_when_it_should(tmp_path):
    assert f"{len(RULES)} rules found" in promtool("check", "rules", ALERTS)
    assert list(FIRING) == [rule["alert"] for rule in RULES]

    def case(series, alert, labels):
        check = {"alertname": alert, "eval_time": "45m", "exp_alerts": labels}
        return {"interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series],
                "alert_rule_test": [check]}

    shown = {"EpsilondDown": {"job": "epsilond"}, "EpsilondRestarts": {"job": "epsilond"},
             "EpsilondInternalErrors": {"problem": "internal"}, "EpsilondConnectionsRefused": {"reason": "refused"}}
    values = {"EpsilondRestarts": "3", "EpsilondStuck": "1"}
    cases = []
    for rule in RULES:
        name, summary = rule["alert"], rule["annotations"]["summary"]
        summary = summary.replace("{{ $labels.instance }}", "a").replace("{{ $value }}", values.get(name, "?"))
        fires = {"exp_labels": {**rule["labels"], "instance": "a", **shown.get(name, {})},
                 "exp_annotations": {"summary": summary}}
        cases += [case(FIRING[name], name, [fires]), case(WELL, name, [])]
    (tmp_path / "tests.yaml").write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": cases}))
    promtool("test", "rules", tmp_path / "tests.yaml")


@contextlib.contextmanager
def prometheus(folder, target):
    """Runs Prometheus, which reads the target each second. Yields a function that asks its API."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    (folder / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "epsilond", "static_configs": [{"targets": [target]}]}]}))
    promtool("check", "config", folder / "prometheus.yml")
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml",
                                    f"--storage.tsdb.path={folder}/data", "--enable-feature=exemplar-storage",
                                    f"--web.listen-address={url.removeprefix('http://')}"], stdout=log, stderr=log)

    def ask(path, **parameters):
        answer = requests.get(f"{url}/api/v1/{path}", params=parameters, timeout=PATIENCE)
        assert answer.status_code == 200 and answer.json()["status"] == "success", (parameters, answer.text)
        return answer.json()["data"]

    def ready():
        assert process.poll() is None, (folder / "log").read_text()
        with contextlib.suppress(requests.ConnectionError):
            return requests.get(f"{url}/-/ready", timeout=PATIENCE).status_code == 200

    try:
        until(ready)
        yield ask
    finally:
        process.terminate()
        process.wait(PATIENCE)


@needs_prometheus
def test_prometheus_reads_the_service(launch, tmp_path):
    server = launch()
    promtool("check", "metrics", stdin=server.get("/metrics").text)
    with prometheus(tmp_path, server.url.removeprefix("http://")) as ask:
        until(lambda: [target["health"] for target in ask("targets")["activeTargets"]] == ["up"])
        began = time.time()
        answer = server.post(GAUSSIAN, "/v1/jobs?wait=60", headers={"X-Request-Id": "for-prometheus"})
        assert answer.json()["status"] == "succeeded"

        def value(query):
            return [float(series["value"][1]) for series in ask("query", query=query)["result"]]
        until(lambda: value('epsilond_jobs_finished_total{status="succeeded"}') == [1])
        until(lambda: value("epsilond_queue_seconds_count") == [1])
        for name in ("epsilond_http_request_seconds_bucket", "epsilond_queue_seconds_bucket",
                     "epsilond_run_seconds_bucket"):
            found = ask("query_exemplars", query=name, start=began - 60, end=time.time() + 60)
            names = {one["labels"]["request"] for series in found for one in series["exemplars"]}
            assert "for-prometheus" in names, name
        [target] = ask("targets")["activeTargets"]
        assert target["lastError"] == "" and target["health"] == "up"
        assert ask("metadata", metric="epsilond_run_seconds")["epsilond_run_seconds"][0]["unit"] == "seconds"
        for query in dashboard_queries():
            query = query.replace("$__rate_interval", "1m").replace("$instance", ".*")
            assert "$" not in query
            ask("query", query=query)
        until(lambda: {rule["health"] for group in ask("rules")["groups"] for rule in group["rules"]} == {"ok"})
        assert not ask("alerts")["alerts"]
        server.stop()
        until(lambda: [alert["labels"]["alertname"] for alert in ask("alerts")["alerts"]] == ["EpsilondDown"])
