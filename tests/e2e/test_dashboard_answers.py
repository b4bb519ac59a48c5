"""
The page of a job: the statement, the cost of phases, and epsilon in the course of training, compared with the API.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import json
import re

import pytest
from selenium.webdriver.common.keys import Keys

from browser import browser, chromium, host  # noqa: F401
from conftest import DP_SGD, GAUSSIAN, ROOT

PHASES = json.loads((ROOT / "api" / "examples" / "warm_up_and_fine_tunings.json").read_text())
BANDS = {"n": 32, "matrix": {"family": "banded", "bands": 4},
         "sampling": {"scheme": "cyclic_poisson", "p": 0.1, "groups": 4},
         "noise_multiplier": 1.0, "delta": 1e-6}


def statement(server, job, kind="text/markdown"):
    return server.get(job["links"]["statement"], headers={"Accept": kind}).text


def plain(text):
    """The text of inline Markdown."""
    text = re.sub(r"(?<!\\)`([^`]*)`|\*\*", lambda match: match.group(1) or "", text)
    return re.sub(r"\\(.)", r"\1", text)


def shown_lines(text):
    """What a reader of this Markdown sees: one line per block, row or item."""
    lines, fenced = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            lines.append(line)
        elif line.startswith("|"):
            cells = [plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            lines += [" ".join(cells)] if any(cells) and not line.startswith("| ---") else []
        elif line:
            lines.append(plain(re.sub(r"^(#+|- \[ \]|-) ", "", line)))
    return lines


@pytest.mark.parametrize("job", [dict(PHASES, label="warm-up | *and* <i>tuning</i> \\ `x`"), BANDS,
                                 dict(GAUSSIAN, label="**2**")])
def test_the_statement_can_be_read(browser, host, job):
    """All of it is shown, in order, without Markdown characters."""
    document = host.solve(job)
    browser.open(f"#/jobs/{document['id']}")
    browser.one("#statement h3")
    wanted = shown_lines(statement(host, document))
    shown = browser.run("""return [...document.querySelectorAll('#statement :is(h3, h4, p, li, tr, pre)')]
        .flatMap((one) => one.tagName === 'TR' ? [[...one.cells].map((cell) => cell.textContent).join(' ')]
                                               : one.textContent.split('\\n'))""")
    assert shown == wanted
    assert wanted[0] == "Privacy statement"
    assert not browser.all("#statement i")
    assert len(browser.all("#statement strong")) == len(re.findall(r"\*\*[^*\\]+\*\*", statement(host, document)))
    json.loads(browser.text("#statement pre"))  # the job that reproduces it


def test_the_statement_can_be_taken_along(browser, host):
    document = host.solve(dict(BANDS, label="taken"))
    browser.open(f"#/jobs/{document['id']}")
    browser.one("#statement h3")
    assert browser.saved("Save as Markdown", "privacy-statement.md") == statement(host, document)
    saved = json.loads(browser.saved("Save as JSON", "privacy-statement.json"))
    assert saved == json.loads(statement(host, document, "application/json"))
    [button] = [one for one in browser.all("#statement-place button") if one.text == "Copy Markdown"]
    button.send_keys(Keys.ENTER)
    browser.wait(lambda: button.text == "Copied")
    assert browser.text("#announcer") == "Copied"
    browser.open("#/new")  # to see what was copied
    browser.enter("/matrix/family", "dense")
    field = browser.field("/matrix/rows")
    field.send_keys(Keys.CONTROL, "v")
    assert field.get_attribute("value") == statement(host, document)


def test_phases_are_told_apart(browser, host):
    """The table, the curve of epsilon in the course of training with its marks at the ends of phases, and the error and
    matrix of each phase."""
    document = host.solve(PHASES)
    phases = document["result"]["phases"]
    browser.open(f"#/jobs/{document['id']}")
    rows = browser.run("""return [...document.querySelectorAll('#phases tbody tr')]
        .map((row) => [...row.cells].map((cell) => cell.textContent))""")
    browser.one("#phases")
    assert len(rows) == len(phases) == 3
    for row, phase, asked in zip(rows, phases, document["job"]["phases"]):
        assert row[2:5] == [asked["sampling"]["scheme"], str(asked["n"]), str(phase["count"])]
        assert float(row[5]) == pytest.approx(phase["noise_multiplier"], rel=1e-4)
        assert phase["epsilon"] <= float(row[6]) <= phase["epsilon"] * (1 + 1e-6)  # rounded up
        assert float(row[7].rstrip("%")) == pytest.approx(100 * phase["share"], rel=0.05)
        assert float(row[8]) == pytest.approx(phase["error"]["mean_squared"], rel=1e-4)
    facts = [term.text for term in browser.all("dt")]
    assert "Probability p" not in facts and "Sensitivity" not in facts  # each phase has its own
    browser.one("#error-place select").send_keys("1")
    variance = host.get(document["links"]["error"] + "?phase=1").json()["variance"]
    browser.wait(lambda: [value for _, value in browser.chart("error")["variance"]] == variance)
    browser.one("#matrix-place select").send_keys("1")
    browser.wait(lambda: "1172 by 1172" in browser.one("#heat").get_attribute("aria-label"))
    browser.screenshot("phases")


def test_what_is_spent_is_computed_when_asked_for(browser, host):
    document = host.solve(PHASES)
    route = 'route="GET /v1/jobs/{id}/spend"'
    assert route not in host.get("/metrics").text
    browser.open(f"#/jobs/{document['id']}")
    browser.one("#statement h3")
    assert route not in host.get("/metrics").text
    browser.one("#spend-ask").send_keys(Keys.ENTER)
    line = browser.chart("spend")
    points = host.get(document["links"]["spend"]).json()["points"]
    assert line["epsilon"] == [[0, 0]] + [[point["step"], point["epsilon"]] for point in points]
    # Between two points the line has the height of the later one, because a straight line is not a bound.
    assert browser.run("return window.Chart.getChart('spend').data.datasets[0].stepped") == "after"
    assert [step for step, _ in line["end of a phase"]] == [469, 469 + 1172, 469 + 1172 + 20 * 100]
    assert browser.focused().text == "Epsilon during training"  # the button has disappeared
    assert browser.saved("Save as CSV", "curve.csv") == host.get(document["links"]["curve"],
                                                                 headers={"Accept": "text/csv"}).text
    assert "computed" in browser.text("#announcer") or "Saved" in browser.text("#announcer")
    browser.screenshot("spend")


def test_what_is_spent_of_one_mechanism(browser, host):
    """If the steps compose it is drawn, too; otherwise the service says why not."""
    document = host.solve(DP_SGD)
    browser.open(f"#/jobs/{document['id']}")
    browser.one("#spend-ask").click()
    points = host.get(document["links"]["spend"]).json()["points"]
    assert browser.chart("spend") == {"epsilon": [[0, 0]] + [[point["step"], point["epsilon"]] for point in points]}
    curve = host.solve({"n": 10, "sampling": {"scheme": "poisson", "p": 0.1}, "noise_multiplier": 1, "curve": True})
    browser.open(f"#/jobs/{curve['id']}")
    browser.one("#spend-ask").click()
    refused = host.get(curve["links"]["spend"])
    assert refused.status_code == 409
    browser.wait(lambda: refused.json()["detail"] in browser.text("#spend-place"))


def test_what_has_no_curve_is_not_asked_for_one(browser, host):
    """For a result from draws, and for no noise: the page says so without a failed request."""
    drawn = host.solve(dict(BANDS, sampling={"scheme": "b_min_sep", "p": 0.02}, delta=1e-3, accountant="monte_carlo"))
    silent = host.solve(dict(DP_SGD, sampling={"scheme": "poisson", "p": 1e-9}, noise_multiplier=None, epsilon=10,
                             delta=0.5))
    assert drawn["result"]["guarantee"] != "deterministic" and silent["result"]["noise_multiplier"] == 0
    for document in (drawn, silent):
        browser.open(f"#/jobs/{document['id']}")
        browser.wait(lambda: "no curve" in browser.text("#curve-place"))
        browser.chart("error")
    browser.open(f"#/compare?ids={drawn['id']},{silent['id']}")
    browser.chart("errors-per-step")
    assert not browser.all("#curves") and not browser.complaints()


def test_many_steps_that_were_found_are_not_drawn(browser, host):
    document = host.solve(dict(DP_SGD, n="max", sampling={"scheme": "poisson", "p": 0.001}, noise_multiplier=2,
                               epsilon=0.6))
    assert document["result"]["n"] > 65536
    browser.open(f"#/jobs/{document['id']}")
    browser.chart("curve")
    for place in ("error", "matrix"):
        assert "request the numbers from the service" in browser.text(f"#{place}-place")


def test_a_job_has_one_colour_wherever_it_is_compared(browser, host):
    documents = [host.solve(job) for job in (PHASES, BANDS, DP_SGD)]  # phases have no line of steps
    browser.open("#/compare?ids=" + ",".join(document["id"] for document in documents))
    colours = []
    for chart in ("curves", "errors-per-step"):
        browser.chart(chart)
        colours.append(dict(browser.run("""return window.Chart.getChart(arguments[0]).data.datasets.map(
            (set) => [set.label, set.borderColor])""", chart)))
    assert len(colours[0]) == 3 and len(colours[1]) == 2 and colours[1].items() <= colours[0].items()
