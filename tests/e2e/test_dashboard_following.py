"""The live pages of the dashboard, which follow resources by events, and by polling if there are none."""
import contextlib
import time

import pytest

from browser import Browser, browser, chromium, host  # noqa: F401
from conftest import DP_SGD, ENDLESS, GAUSSIAN, ONE_BY_ONE, until

# Row by row: there is news every second, for a minute or more.
STEADY = {"n": 1024, "matrix": {"family": "square_root"}, "sampling": {"scheme": "poisson", "p": 0.01},
          "noise_multiplier": 1.0,
          "delta": 1e-6, "accountant": {"method": "mmcc", "tolerance": 1e-5}}


def requests_to(server, route):
    """The number of requests answered, with any status; streams are counted at their end."""
    series = f'epsilond_http_requests_total{{route="GET {route}"'
    return sum(float(line.rsplit(" ", 1)[1]) for line in server.get("/metrics").text.splitlines()
               if line.startswith(series))


def streams(server):
    """Waiting requests, which are event streams in these tests."""
    return server.metric("epsilond_http_requests_waiting")


@contextlib.contextmanager
def followed(server, browser):
    """A running job and its page; the job is canceled at the end."""
    job = server.post(STEADY).json()
    server.until(job["id"], "running")
    browser.open(f"#/jobs/{job['id']}")
    browser.one("progress")
    try:
        yield job
    finally:
        server.post(None, job["links"]["cancel"])


def test_a_job_is_followed_by_its_events_alone(browser, host):
    """The display continues without further requests; the end is shown, too, and ends the stream."""
    with followed(host, browser) as job:
        browser.wait(lambda: streams(host) == 1)
        asked = requests_to(host, "/v1/jobs/{id}")
        seen = set()
        browser.wait(lambda: seen.add(browser.text("main p.quiet")) or len(seen) >= 4)
        assert requests_to(host, "/v1/jobs/{id}") <= asked + 1  # one may have been in progress
        host.post(None, job["links"]["cancel"])
        browser.wait(lambda: "canceled" in browser.text("#state"))
        assert browser.text("#answer") == "Canceled" and "canceled" in browser.text("#announcer")
        assert requests_to(host, "/v1/jobs/{id}") <= asked + 1
    until(lambda: streams(host) == 0)


def test_a_job_that_waits_is_seen_to_run_and_to_end(launch, tmp_path):
    server = launch(*ONE_BY_ONE)
    first = server.post(ENDLESS).json()
    server.until(first["id"], "running")
    second = server.post(STEADY).json()
    browser = Browser(server, tmp_path / "chromium")
    try:
        browser.open(f"#/jobs/{second['id']}")
        browser.wait(lambda: "queued" in browser.text("#state") and streams(server) == 1)
        server.post(None, first["links"]["cancel"])
        browser.wait(lambda: "running" in browser.text("#state"))
        browser.one("progress")
        server.post(None, second["links"]["cancel"])
        browser.wait(lambda: "canceled" in browser.text("#state"))
    finally:
        browser.quit()


def test_a_final_job_has_no_stream(browser, host):
    job = host.solve(GAUSSIAN)
    before = requests_to(host, "/v1/jobs/{id}/events")
    browser.open(f"#/jobs/{job['id']}")
    browser.chart("curve")
    assert requests_to(host, "/v1/jobs/{id}/events") == before


def test_a_page_that_nobody_sees_gives_its_stream_back(browser, host):
    def hidden(value):
        browser.run("""Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});
            document.dispatchEvent(new Event('visibilitychange'))""", value)
    with followed(host, browser) as job:
        browser.wait(lambda: streams(host) == 1)
        hidden(True)
        browser.wait(lambda: streams(host) == 0)
        host.post(None, job["links"]["cancel"])
        host.until(job["id"], "canceled")
        assert "running" in browser.text("#state")
        hidden(False)
        browser.wait(lambda: "canceled" in browser.text("#state"))


def test_another_view_ends_the_stream(browser, host):
    with followed(host, browser):
        browser.wait(lambda: streams(host) == 1)
        browser.one("#nav-new").click()
        browser.wait(lambda: streams(host) == 0)


@pytest.fixture
def without_events(browser):
    """As behind a proxy that rejects streams."""
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/events"]})
    yield browser
    browser.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    assert all("/events" in complaint for complaint in browser.complaints())


def test_without_events_it_is_followed_by_polling(without_events, host):
    browser = without_events
    before = requests_to(host, "/v1/jobs/{id}/events")
    with followed(host, browser) as job:
        seen = set()
        browser.wait(lambda: seen.add(browser.text("main p.quiet")) or len(seen) >= 3)
        host.post(None, job["links"]["cancel"])
        browser.wait(lambda: "canceled" in browser.text("#state"))
    sweep = host.post({"base": DP_SGD, "grid": {"/noise_multiplier": [1.1, 2.1]}}, "/v1/sweeps").json()
    browser.open(f"#/sweeps/{sweep['id']}")
    browser.wait(lambda: "succeeded" in browser.text("#state"))
    assert requests_to(host, "/v1/jobs/{id}/events") == before


def test_a_stream_that_breaks_is_bridged_and_taken_up(launch, tmp_path):
    """The server stops and starts again while its job is shown; the page reports the interruption."""
    server = launch()
    browser = Browser(server, tmp_path / "chromium")
    try:
        with followed(server, browser) as job:
            browser.wait(lambda: streams(server) == 1)
            port = server.url.rsplit(":", 1)[1]
            server.stop()
            browser.one(".trouble")
            server.start("--listen", f"127.0.0.1:{port}")
            browser.wait(lambda: not browser.all(".trouble"))
            browser.wait(lambda: streams(server) == 1)
            server.post(None, job["links"]["cancel"])
            browser.wait(lambda: "canceled" in browser.text("#state"))
    finally:
        browser.quit()


GROUPS = {
    "sweeps": ({"base": DP_SGD, "grid": {"/noise_multiplier": [1.1, 2.1]}}, "#points tbody tr"),
    "plans": ({"n": 40, "batch_size": 10, "dataset_size": 100, "epsilon": 4, "delta": 1e-5,
               "families": ["identity", "square_root"],
               "schemes": ["none"], "max_bands": 2}, "#candidates tbody tr"),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_sweeps_and_plans_are_followed(launch, tmp_path, kind):
    """While another job keeps them waiting, there are no requests; then they fill up and end."""
    request, rows = GROUPS[kind]
    server = launch(*ONE_BY_ONE)
    before = server.post(ENDLESS).json()
    server.until(before["id"], "running")
    group = server.post(request, f"/v1/{kind}").json()
    route = f"/v1/{kind}/{{id}}"
    browser = Browser(server, tmp_path / "chromium")
    try:
        browser.open(f"#/{kind}/{group['id']}")
        browser.wait(lambda: "0 of" in browser.text("#state") and streams(server) == 1)
        asked = requests_to(server, route)
        time.sleep(3)  # a page that polled would ask every second
        assert requests_to(server, route) <= asked + 2  # those that the first event caused
        server.post(None, before["links"]["cancel"])
        browser.wait(lambda: "succeeded" in browser.text("#state"))
        done = server.get(group["links"]["self"]).json()
        assert f"{done['total']} of {done['total']}" in browser.text("#state")
        browser.wait(lambda: len(browser.all(rows)) == done["total"])
        assert not browser.complaints()
    finally:
        browser.quit()


def every_point(server, sweep):
    path, pages = f"{sweep['links']['points']}?limit=500", []
    while not pages or pages[-1]["next"]:
        pages.append(server.get(f"{path}&cursor={pages[-1]['next']}" if pages else path).json())
    return [point for page in pages for point in page["items"]]


def test_a_long_sweep_is_shown_whole(browser, host):
    """More points than fit in a page: the table fills while they are computed, and keeps the focus; the chart has all
    of them."""
    grid = {"/noise_multiplier": [1 + number / 100 for number in range(300)], "/n": [100, 100, 200]}  # with equal
                                                                                                      # points
    sweep = host.post({"base": GAUSSIAN, "grid": grid}, "/v1/sweeps").json()
    browser.open(f"#/sweeps/{sweep['id']}")
    browser.wait(lambda: "succeeded" in browser.text("#points tbody tr"))
    browser.run("document.querySelector('#points tbody a').focus()")
    browser.run("document.querySelector('figure details').open = true")
    link = browser.focused()
    browser.wait(lambda: "succeeded" in browser.text("#state"))
    browser.wait(lambda: sum(len(line) for line in browser.chart("sweep-chart").values()) == 900)
    points = every_point(host, sweep)
    assert len(browser.all("#points tbody tr")) == 500
    assert "500 of 900" in browser.text("main")
    assert browser.focused() == link and link.get_attribute("href").endswith(points[0]["job"])
    assert browser.run("return document.querySelector('figure details').open")
    browser.one("#points thead th:nth-child(3) button").click()
    rows = browser.run("""return [...document.querySelectorAll('#points tbody tr')]
        .map((row) => Number(row.cells[2].textContent))""")
    epsilons = [point["epsilon"] for point in points]
    assert rows == pytest.approx(sorted(epsilons)[:500], rel=1e-4) and epsilons[:500] != sorted(epsilons)[:500]
