"""The layout of the pages on a phone and on a wide screen: the result comes first, and nothing is cut off."""
import json

import pytest

from browser import browser, chromium, host  # noqa: F401
from conftest import ROOT

QUESTION = "Epsilon at delta 1e-6, sigma 6, 64 steps, square_root 4 under b_min_sep"
SPACED = {"n": 64, "matrix": {"family": "square_root", "bands": 4},
          "sampling": {"scheme": "b_min_sep", "p": 0.01, "separation": 4},
          "noise_multiplier": 6, "delta": 1e-6}
PHASES = json.loads((ROOT / "api" / "examples" / "warm_up_and_fine_tunings.json").read_text())
SWEEP = {"base": {"n": 100, "matrix": {"family": "square_root"}, "delta": 1e-6,
                  "sampling": {"scheme": "cyclic_poisson", "p": 0.02}},
         "grid": {"/noise_multiplier": [0.8, 1.2], "/matrix/bands": [1, 2, 4]}}
PLAN = {"epochs": 4, "batch_size": 100, "dataset_size": 400, "epsilon": 4, "delta": 1e-5, "max_bands": 2,
        "schemes": ["none", "poisson"], "families": ["identity", "inverse_square_root", "blt", "banded"]}


@pytest.fixture(scope="module")
def views(host):  # noqa: F811
    """The address of a page of each kind, all final."""
    sweep, plan = (host.post(body, f"/v1/{kind}").json() for kind, body in (("sweeps", SWEEP), ("plans", PLAN)))
    for group in (sweep, plan):
        assert host.get(group["links"]["self"] + "?wait=300", timeout=400).json()["status"] == "succeeded"
    jobs = [host.solve(job)["id"] for job in (SPACED, PHASES,
                                              dict(SPACED, label="a label that is quite as long as labels may well be",
                                                                   noise_multiplier=7))]
    return {"home": "#/", "plans": "#/plans", "sweeps": "#/sweeps", "new": "#/new", "load": "#/load",
            "compare": f"#/compare?ids={','.join(jobs)}",
            "job": f"#/jobs/{jobs[0]}", "phases": f"#/jobs/{jobs[1]}", "labelled": f"#/jobs/{jobs[2]}",
            "sweep": f"#/sweeps/{sweep['id']}",
            "plan": f"#/plans/{plan['id']}"}


@pytest.fixture
def wide(browser):  # noqa: F811
    """wide(390): sets the width of the window."""
    def resize(width):
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                       {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    yield resize
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


READY = {"home": "#jobs tbody tr", "plans": "#plans tbody tr", "sweeps": "#sweeps tbody tr", "new": "#submit",
         "load": "#load-chart",
         "compare": "#comparison", "job": "#statement h4", "phases": "#statement h4", "labelled": "#statement h4",
         "sweep": "#points tbody tr", "plan": "#candidates tbody tr"}


def show(browser, views, name):  # noqa: F811
    browser.open(views[name])
    browser.one(READY[name])


def box(browser, selector):  # noqa: F811
    """The position on the whole page: left, top, right, bottom."""
    return browser.run("""const box = arguments[0].getBoundingClientRect();
        return [box.left, box.top + scrollY, box.right, box.bottom + scrollY]""", browser.one(selector))


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", sorted(READY))
def test_no_page_is_wider_than_its_window(browser, views, wide, name, width):  # noqa: F811
    """Tables scroll inside their frames, which fit in the window."""
    wide(width)
    show(browser, views, name)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    for left, right in browser.run("""
            return [...document.querySelectorAll('main > *, .scroll, .canvas, .result, .statement')]
                .map((one) => one.getBoundingClientRect())
                .filter(({width}) => width).map(({left, right}) => [left, right])"""):
        assert left >= 0 and right <= width


@pytest.mark.parametrize("name", ["home", "plans", "sweeps", "sweep", "plan", "phases"])
def test_tables_use_the_width_of_the_window(browser, views, wide, name):  # noqa: F811
    widths = """return [...document.querySelectorAll('main .scroll')]
        .filter((one) => !one.closest('figure, article')).map((one) => one.offsetWidth)"""
    wide(1400)
    show(browser, views, name)
    for width in browser.run(widths):
        assert width >= 0.9 * 1400
    wide(390)
    show(browser, views, name)
    for width in browser.run(widths):
        assert width >= 0.85 * 390


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", ["job", "phases", "labelled", "plan"])
def test_the_answer_stands_first_and_whole(browser, views, wide, name, width):  # noqa: F811
    """On the first screen, before the actions."""
    wide(width)
    show(browser, views, name)
    left, top, right, bottom = box(browser, "#answer")
    assert left >= 0 and right <= width and top > 0 and bottom < 500
    assert bottom <= box(browser, ".actions")[1]
    assert browser.run("return arguments[0].scrollWidth <= arguments[0].clientWidth", browser.one("#answer"))


@pytest.mark.parametrize("name, columns", [("home", "#jobs tbody tr :nth-child(3)"),
                                           ("plans", "#plans tbody tr :nth-child(-n+3)"),
                                           ("plan", "#best tbody tr :nth-child(-n+4)"),
                                           ("plan", "#candidates tbody tr :nth-child(-n+4)"),
                                           ("sweep", "#points tbody tr :nth-child(-n+3)")])
def test_a_telephone_shows_what_matters_of_a_table(browser, views, wide, name, columns):  # noqa: F811
    """The answer of a job; rank, mechanism, error and noise of a candidate; what was varied and found, before
    scrolling."""
    wide(390)
    show(browser, views, name)
    cells = browser.run("""return [...document.querySelectorAll(arguments[0])]
        .filter((one) => /^T[DH]$/.test(one.tagName))
        .map((one) => [one.getBoundingClientRect().right, one.textContent])""", columns)
    assert len(cells) >= 3
    for right, text in cells:
        assert right <= 390 and text
    if name == "plan":
        heads = browser.run("return [...document.querySelectorAll('#best thead th')].map((one) => one.textContent)")
        assert heads[:5] == ["rank", "mechanism", "error", "noise", "gain"]


@pytest.mark.parametrize("width", [390, 1400])
def test_the_curve_is_above_the_caches(browser, views, wide, width):  # noqa: F811
    wide(width)
    show(browser, views, "job")
    order = browser.run("return [...document.querySelectorAll('main h2')].map((one) => one.textContent)")
    assert order.index("Privacy curve") < order.index("Statement") < order.index("Caches")
    assert box(browser, "#curve-title")[1] < box(browser, "#caches-title")[1]


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", ["job", "phases"])
def test_the_statement_is_whole(browser, views, wide, name, width):  # noqa: F811
    wide(width)
    show(browser, views, name)
    shown, whole = browser.run("return [arguments[0].clientHeight, arguments[0].scrollHeight]",
                               browser.one("#statement"))
    assert shown == whole > 500
    shown, whole = browser.run("return [arguments[0].clientWidth, arguments[0].scrollWidth]", browser.one("#statement"))
    assert shown == whole


def test_titles_name_the_question(browser, views):  # noqa: F811
    titles = {"job": QUESTION, "labelled": "a label that is quite as long as labels may well be",
              "phases": "Noise multiplier at epsilon 8, delta 1e-6, 3 phases, "
                        "identity + banded 4 under poisson + cyclic_poisson",
              "sweep": "Epsilon over noise_multiplier and matrix bands, at delta 1e-6, 100 steps, "
                       "square_root under cyclic_poisson",
              "plan": "Plan for epsilon 4, delta 1e-5, 4 epochs in batches of 100 of 400 examples"}
    for name, title in titles.items():
        show(browser, views, name)
        assert browser.text("h1") == title and browser.driver.title == f"{title} – epsilond"
    show(browser, views, "labelled")
    assert QUESTION.replace("sigma 6", "sigma 7") in browser.text("#state")
    show(browser, views, "home")
    assert "epsilon at delta 1e-6, sigma 6" in [one.text for one in browser.all("#jobs tbody a")]


@pytest.mark.parametrize("job, words", [
    ({"n": "max", "sampling": {"scheme": "poisson", "p": 0.01}, "epsilon": 2, "delta": 1e-6, "noise_multiplier": 1},
     "Most steps at epsilon 2, delta 1e-6, sigma 1, identity under poisson"),
    ({"n": 100, "sampling": {"scheme": "none"}, "noise_multiplier": 1, "curve": True},
     "Privacy curve at sigma 1, 100 steps, identity under no sampling"),
    ({"n": 100, "sampling": {"scheme": "balls_in_bins", "bins": 10}, "noise_multiplier": 2, "epsilon": 3},
     "Delta at epsilon 3, sigma 2, 100 steps, identity under balls_in_bins")])
def test_questions_of_each_kind(browser, host, job, words):  # noqa: F811
    document = host.solve(job)
    browser.open(f"#/jobs/{document['id']}")
    browser.one("#answer")
    assert browser.text("h1") == words


def test_what_is_proven_is_not_said_to_be_unsampled(browser, views):  # noqa: F811
    """The batches of this run are sampled; "deterministic" refers to the computation of the number."""
    show(browser, views, "job")
    assert browser.text("#guarantee") == "Proven: computed without random draws, and holds with certainty."
